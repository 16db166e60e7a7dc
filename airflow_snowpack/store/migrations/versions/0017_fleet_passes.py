"""Keep passes over the fleet, their entries, and the last plan of each table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0017_fleet_passes"
down_revision = "0016_removals"


def upgrade() -> None:
    op.create_table(
        "fleet_passes",
        sa.Column("pass_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("catalog_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("budget", sa.JSON, nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("planned_at", UtcDateTime),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True)),
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("pass_id", name="pk_fleet_passes"),
    )
    op.create_index("ix_fleet_passes_started_at_pass_id", "fleet_passes", ["started_at", "pass_id"])
    open_only = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_fleet_passes_open", "fleet_passes", ["owner"], unique=True, postgresql_where=open_only, sqlite_where=open_only
    )
    op.create_table(
        "fleet_entries",
        sa.Column("pass_id", sa.Text, nullable=False),
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("catalog_id", sa.Text, nullable=False),
        sa.Column("database_name", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("evidence", sa.JSON, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("plan", sa.JSON),
        sa.Column("gb_hours", sa.Float, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("files_removed", sa.BigInteger, nullable=False),
        sa.Column("value", sa.Float, nullable=False),
        sa.Column("metadata_location", sa.Text),
        sa.Column("deadline", UtcDateTime),
        sa.Column("passes_waited", sa.Integer, nullable=False),
        sa.Column("job_id", sa.Text),
        sa.Column("spent_gb_hours", sa.Float),
        sa.Column("spent_bytes", sa.BigInteger),
        sa.Column("spent_seconds", sa.Float),
        sa.Column("removed", sa.BigInteger),
        sa.Column("ended_at", UtcDateTime),
        sa.PrimaryKeyConstraint("pass_id", "table_key", name="pk_fleet_entries"),
    )
    op.create_index("ix_fleet_entries_table_key_pass_id", "fleet_entries", ["table_key", "pass_id"])
    with_job = sa.text("job_id IS NOT NULL")
    op.create_index("ix_fleet_entries_job_id", "fleet_entries", ["job_id"], postgresql_where=with_job, sqlite_where=with_job)
    op.create_table(
        "fleet_tables",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("catalog_id", sa.Text, nullable=False),
        sa.Column("metadata_location", sa.Text),
        sa.Column("planned_at", UtcDateTime, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("needs_work", sa.Boolean, nullable=False),
        sa.Column("reconsider_at", UtcDateTime),
        sa.Column("passes_waited", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("table_key", name="pk_fleet_tables"),
    )
    op.create_index("ix_fleet_tables_catalog_catalog_id", "fleet_tables", ["catalog", "catalog_id"])
