"""Jobs, their queue, the table locks, the history and the switches."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("actions", sa.JSON, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("dry_run", sa.Boolean, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("submitted_at", UtcDateTime, nullable=False),
        sa.Column("submitted_by", sa.Text),
        sa.Column("owner", sa.Text),
        sa.Column("inline", sa.Boolean, nullable=False),
        sa.Column("started_at", UtcDateTime),
        sa.Column("completed_at", UtcDateTime),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("attempt_id", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("results", sa.JSON),
        sa.Column("deleted_at", UtcDateTime),
        sa.PrimaryKeyConstraint("job_id", name="pk_jobs"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("ix_jobs_submitted_at_job_id", "jobs", ["submitted_at", "job_id"])
    op.create_index("ix_jobs_table_key_submitted_at", "jobs", ["table_key", "submitted_at"])
    op.create_table(
        "job_queue",
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("enqueued_at", UtcDateTime, nullable=False),
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_queue"),
        postgresql_with=BUSY,
    )
    unclaimed = sa.text("claimed_at IS NULL")
    op.create_index("ix_job_queue_unclaimed", "job_queue", ["enqueued_at"], postgresql_where=unclaimed, sqlite_where=unclaimed)
    op.create_table(
        "table_locks",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("acquired_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("table_key", name="pk_table_locks"),
        postgresql_with=BUSY,
    )
    op.create_table(
        "job_history",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("attempt_id", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job_history"),
    )
    op.create_index("ix_job_history_job_id", "job_history", ["job_id"])
    op.create_table(
        "switches",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.Column("changed_by", sa.Text),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_switches"),
    )
