"""What consumers have considered, what runs hold of pools, and whose ends are on record."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.types import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}


def upgrade() -> None:
    op.add_column("schedules", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
    schedules = sa.table("schedules", sa.column("name"), sa.column("priority"), sa.column("definition", sa.JSON))
    for name, definition in op.get_bind().execute(sa.select(schedules.c.name, schedules.c.definition)).all():
        if priority := definition.get("priority"):
            op.execute(sa.update(schedules).where(schedules.c.name == name).values(priority=priority))
    op.create_table(
        "considered",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("since", sa.JSON, nullable=False),
        sa.Column("upto", sa.JSON, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name="pk_considered"),
    )
    op.create_table(
        "run_places",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("look_at", UtcDateTime, nullable=False),
        sa.Column("mark", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", name="pk_run_places"),
    )
    op.create_index("ix_run_places_look_at", "run_places", ["look_at"])
    op.create_table(
        "schedule_dags",
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("schedule", "dag_id", name="pk_schedule_dags"),
    )
    op.create_index("ix_schedule_dags_dag_id", "schedule_dags", ["dag_id"])
    op.create_table(
        "slot_holds",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("shown_at", UtcDateTime),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "key", name="pk_slot_holds"),
    )
    op.create_index("ix_slot_holds_key", "slot_holds", ["key"])
    op.create_table(
        "gated_runs",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("constraints", sa.JSON, nullable=False),
        sa.Column("group_names", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("arrived_at", UtcDateTime, nullable=False),
        sa.Column("looked_at", UtcDateTime, nullable=False),
        sa.Column("seen_at", UtcDateTime, nullable=False),
        sa.Column("not_before", UtcDateTime),
        sa.Column("waits_for", sa.Text),
        sa.Column("reasons", sa.JSON, nullable=False),
        sa.Column("passed_at", UtcDateTime),
        sa.Column("ended_at", UtcDateTime),
        sa.PrimaryKeyConstraint("dag_id", "run_id", "task", name="pk_gated_runs"),
        postgresql_with=BUSY,
    )
    op.create_index("ix_gated_runs_dag_id_passed_at", "gated_runs", ["dag_id", "passed_at"])
    op.create_index(
        "ix_gated_runs_active",
        "gated_runs",
        ["dag_id"],
        postgresql_where=sa.text("ended_at IS NULL"),
        sqlite_where=sa.text("ended_at IS NULL"),
    )
    # What waits for nothing that is told needs no entry in it: that is most of what there is, and each change of it wrote one.
    op.drop_index("ix_pending_jobs_waits_for", "pending_jobs")
    waiting = sa.text("state IN ('pending_trigger', 'pending_constraint') AND waits_for IS NOT NULL")
    columns = ["waits_for", "priority"]
    op.create_index("ix_pending_jobs_waits_for", "pending_jobs", columns, postgresql_where=waiting, sqlite_where=waiting)
