"""Registered runs: named DAG runs with their defaults."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registered_runs",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("conf", sa.JSON, nullable=False),
        sa.Column("cron", sa.Text),
        sa.Column("tz", sa.Text, nullable=False),
        sa.Column("preservation", sa.Text),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("updated_by", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_registered_runs"),
    )
    op.create_index("ix_registered_runs_dag_id", "registered_runs", ["dag_id"])
