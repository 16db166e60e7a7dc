"""The audit trail, idempotency keys, the inventory of tables, and indexes for lists: what the API and its pages need."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # As before and with the job's id, but without the jobs that were deleted.
    op.drop_index("ix_jobs_submitted_at_job_id", "jobs")
    op.drop_index("ix_jobs_table_key_submitted_at", "jobs")
    live, with_error = sa.text("deleted_at IS NULL"), sa.text("deleted_at IS NULL AND error IS NOT NULL")
    for name, columns, which in (
        ("ix_jobs_submitted_at_job_id", ["submitted_at", "job_id"], live),
        ("ix_jobs_table_key_submitted_at_job_id", ["table_key", "submitted_at", "job_id"], live),
        ("ix_jobs_with_error", ["submitted_at", "job_id"], with_error),
    ):
        op.create_index(name, "jobs", columns, postgresql_where=which, sqlite_where=which)
    op.create_table(
        "audit_trail",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("via", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_trail"),
    )
    op.create_index("ix_audit_trail_subject", "audit_trail", ["subject"])
    op.create_table(
        "idempotency_keys",
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("actor", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_at", "idempotency_keys", ["at"])
    op.create_table(
        "inventory_tables",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("first_seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("table_key", name="pk_inventory_tables"),
    )
    op.create_table(
        "inventory_refreshes",
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("tried_at", UtcDateTime, nullable=False),
        sa.Column("refreshed_at", UtcDateTime),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("catalog", name="pk_inventory_refreshes"),
    )
