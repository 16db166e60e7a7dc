"""Keep the health of each table, and its numbers over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0018_table_health"
down_revision = "0017_fleet_passes"


def upgrade() -> None:
    op.create_table(
        "table_health",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("metadata_location", sa.Text, nullable=False),
        sa.Column("read_at", UtcDateTime, nullable=False),
        sa.Column("score", sa.Integer),
        sa.Column("problem", sa.Text),
        sa.Column("format", sa.Integer),
        sa.Column("document", sa.Text),
        sa.PrimaryKeyConstraint("table_key", name="pk_table_health"),
    )
    op.create_index("ix_table_health_read_at", "table_health", ["read_at", "table_key"])
    op.create_index("ix_table_health_catalog_score", "table_health", ["catalog", "score", "table_key"])
    op.create_table(
        "table_health_history",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("read_at", UtcDateTime, nullable=False),
        sa.Column("metadata_location", sa.Text, nullable=False),
        sa.Column("last_of_day", sa.Boolean, nullable=False),
        sa.Column("score", sa.Integer, nullable=False),
        sa.Column("data_files", sa.BigInteger, nullable=False),
        sa.Column("small_files", sa.BigInteger, nullable=False),
        sa.Column("delete_files", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("manifests", sa.BigInteger, nullable=False),
        sa.Column("snapshots", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("table_key", "read_at", name="pk_table_health_history"),
    )
    op.create_index("ix_table_health_history_read_at", "table_health_history", ["read_at", "table_key"])
    not_last = sa.text("NOT last_of_day")
    op.create_index(
        "ix_table_health_history_thinned",
        "table_health_history",
        ["table_key", "read_at"],
        postgresql_where=not_last,
        sqlite_where=not_last,
    )
