"""Keep the plan of a job, and the record of each action on each table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

revision = "0019_plans_of_jobs"
down_revision = "0018_table_health"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("plan", sa.JSON))
    op.create_table(
        "action_records",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("last_run_at", UtcDateTime, nullable=False),
        sa.Column("last_success_at", UtcDateTime),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("cost_factor", sa.Float, nullable=False),
        sa.Column("seconds_factor", sa.Float, nullable=False),
        sa.Column("files_factor", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("table_key", "action", name="pk_action_records"),
    )
    op.create_index("ix_action_records_last_run_at", "action_records", ["last_run_at"])
