"""Jobs, their queue, the table locks, the audit trail and the inventory of tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}
BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def create_tables() -> None:
    """Create the tables and their indexes."""
    _create_jobs()
    _create_job_queue()
    _create_table_locks()
    _create_job_history()
    _create_switches()
    _create_audit_trail()
    _create_idempotency_keys()
    _create_inventory_tables()
    _create_inventory_refreshes()
    _create_store_facts()


def _create_jobs() -> None:
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
    where = sa.text("deleted_at IS NULL")
    op.create_index("ix_jobs_submitted_at_job_id", "jobs", ["submitted_at", "job_id"], postgresql_where=where, sqlite_where=where)
    op.create_index(
        "ix_jobs_table_key_submitted_at_job_id",
        "jobs",
        ["table_key", "submitted_at", "job_id"],
        postgresql_where=where,
        sqlite_where=where,
    )
    where = sa.text("deleted_at IS NULL AND error IS NOT NULL")
    op.create_index("ix_jobs_with_error", "jobs", ["submitted_at", "job_id"], postgresql_where=where, sqlite_where=where)


def _create_job_queue() -> None:
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
    where = sa.text("claimed_at IS NULL")
    op.create_index("ix_job_queue_unclaimed", "job_queue", ["enqueued_at"], postgresql_where=where, sqlite_where=where)


def _create_table_locks() -> None:
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


def _create_job_history() -> None:
    op.create_table(
        "job_history",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("attempt_id", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_job_history"),
    )
    op.create_index("ix_job_history_job_id", "job_history", ["job_id"])


def _create_switches() -> None:
    op.create_table(
        "switches",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.Column("changed_by", sa.Text),
        sa.Column("reason", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_switches"),
    )


def _create_audit_trail() -> None:
    op.create_table(
        "audit_trail",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("via", sa.Text, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_trail"),
    )
    op.create_index("ix_audit_trail_subject", "audit_trail", ["subject"])


def _create_idempotency_keys() -> None:
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


def _create_inventory_tables() -> None:
    op.create_table(
        "inventory_tables",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("first_seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("table_key", name="pk_inventory_tables"),
    )


def _create_inventory_refreshes() -> None:
    op.create_table(
        "inventory_refreshes",
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("tried_at", UtcDateTime, nullable=False),
        sa.Column("refreshed_at", UtcDateTime),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("catalog", name="pk_inventory_refreshes"),
    )


def _create_store_facts() -> None:
    op.create_table(
        "store_facts",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_store_facts"),
    )
