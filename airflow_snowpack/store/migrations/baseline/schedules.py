"""Schedules, events, pending runs, launches and registered runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from airflow_snowpack.store.dialect import UtcDateTime

BUSY = {"fillfactor": 70, "autovacuum_vacuum_scale_factor": 0.02, "autovacuum_vacuum_threshold": 200}
BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def create_tables() -> None:
    """Create the tables and their indexes."""
    _create_schedules()
    _create_schedule_triggers()
    _create_schedule_groups()
    _create_schedule_dags()
    _create_run_places()
    _create_schedule_clocks()
    _create_events()
    _create_event_cursors()
    _create_pending_jobs()
    _create_pending_events()
    _create_launches()
    _create_schedule_runs()
    _create_slot_holds()
    _create_dag_successes()
    _create_schedule_history()
    _create_table_places()
    _create_considered()
    _create_gated_runs()
    _create_registered_runs()


def _create_schedules() -> None:
    op.create_table(
        "schedules",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("generation", sa.Text, nullable=False),
        sa.Column("definition", sa.JSON, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.Column("changed_by", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_index("ix_schedules_dag_id", "schedules", ["dag_id"])


def _create_schedule_triggers() -> None:
    op.create_table(
        "schedule_triggers",
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("leaf", sa.Integer, nullable=False),
        sa.Column("generation", sa.Text, nullable=False),
        sa.Column("event_key", sa.Text, nullable=False),
        sa.Column("counts_after", sa.BigInteger, nullable=False),
        sa.Column("counts_from", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("schedule", "leaf", name="pk_schedule_triggers"),
    )
    op.create_index("ix_schedule_triggers_event_key", "schedule_triggers", ["event_key"])


def _create_schedule_groups() -> None:
    op.create_table(
        "schedule_groups",
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("group_name", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("schedule", "group_name", name="pk_schedule_groups"),
    )
    op.create_index("ix_schedule_groups_dag_id", "schedule_groups", ["dag_id"])
    op.create_index("ix_schedule_groups_group_name", "schedule_groups", ["group_name"])


def _create_schedule_dags() -> None:
    op.create_table(
        "schedule_dags",
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("schedule", "dag_id", name="pk_schedule_dags"),
    )
    op.create_index("ix_schedule_dags_dag_id", "schedule_dags", ["dag_id"])


def _create_run_places() -> None:
    op.create_table(
        "run_places",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("look_at", UtcDateTime, nullable=False),
        sa.Column("mark", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", name="pk_run_places"),
    )
    op.create_index("ix_run_places_look_at", "run_places", ["look_at"])


def _create_schedule_clocks() -> None:
    op.create_table(
        "schedule_clocks",
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("leaf", sa.Integer, nullable=False),
        sa.Column("next_at", UtcDateTime, nullable=False),
        sa.Column("look_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("schedule", "leaf", name="pk_schedule_clocks"),
    )
    op.create_index("ix_schedule_clocks_look_at", "schedule_clocks", ["look_at"])


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("source_id", sa.Text),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("recorded_at", UtcDateTime, nullable=False),
        sa.Column("amounts", sa.JSON, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.UniqueConstraint("source_id", name="uq_events_source_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_key_id", "events", ["key", "id"])
    op.create_index("ix_events_recorded_at", "events", ["recorded_at"])


def _create_event_cursors() -> None:
    op.create_table(
        "event_cursors",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_event_cursors"),
    )


def _create_pending_jobs() -> None:
    op.create_table(
        "pending_jobs",
        sa.Column("pending_id", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("generation", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("triggered_at", UtcDateTime),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("next_check_at", UtcDateTime),
        sa.Column("waits_for", sa.Text),
        sa.Column("counted_to", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("reasons", sa.JSON, nullable=False),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("ended_because", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.PrimaryKeyConstraint("pending_id", name="pk_pending_jobs"),
        postgresql_with=BUSY,
    )
    where = sa.text("state IN ('pending_trigger', 'pending_constraint')")
    op.create_index("ix_pending_jobs_due", "pending_jobs", ["next_check_at"], postgresql_where=where, sqlite_where=where)
    op.create_index("ix_pending_jobs_schedule_created_at", "pending_jobs", ["schedule", "created_at"])
    where = sa.text("state IN ('pending_trigger', 'pending_constraint') AND waits_for IS NOT NULL")
    op.create_index(
        "ix_pending_jobs_waits_for", "pending_jobs", ["waits_for", "priority"], postgresql_where=where, sqlite_where=where
    )
    where = sa.text("state IN ('pending_trigger', 'pending_constraint')")
    op.create_index(
        "ux_pending_jobs_open",
        "pending_jobs",
        ["schedule", "generation"],
        unique=True,
        postgresql_where=where,
        sqlite_where=where,
    )


def _create_pending_events() -> None:
    op.create_table(
        "pending_events",
        sa.Column("pending_id", sa.Text, nullable=False),
        sa.Column("event_id", sa.BigInteger, nullable=False),
        sa.Column("leaf", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("pending_id", "event_id", "leaf", name="pk_pending_events"),
    )


def _create_launches() -> None:
    op.create_table(
        "launches",
        sa.Column("pending_id", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("conf", sa.JSON, nullable=False),
        sa.Column("enqueued_at", UtcDateTime, nullable=False),
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
        sa.Column("problem", sa.Text),
        sa.PrimaryKeyConstraint("pending_id", name="pk_launches"),
        postgresql_with=BUSY,
    )
    op.create_index("ix_launches_schedule", "launches", ["schedule"])
    where = sa.text("claimed_at IS NULL")
    op.create_index("ix_launches_unclaimed", "launches", ["enqueued_at"], postgresql_where=where, sqlite_where=where)


def _create_schedule_runs() -> None:
    op.create_table(
        "schedule_runs",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("reserved_at", UtcDateTime, nullable=False),
        sa.Column("launched_at", UtcDateTime),
        sa.Column("ended_at", UtcDateTime),
        sa.Column("state", sa.Text),
        sa.PrimaryKeyConstraint("dag_id", "run_id", name="pk_schedule_runs"),
    )
    where = sa.text("ended_at IS NULL")
    op.create_index("ix_schedule_runs_active", "schedule_runs", ["dag_id"], postgresql_where=where, sqlite_where=where)
    op.create_index("ix_schedule_runs_schedule_reserved_at", "schedule_runs", ["schedule", "reserved_at"])


def _create_slot_holds() -> None:
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


def _create_dag_successes() -> None:
    op.create_table(
        "dag_successes",
        sa.Column("dag_id", sa.Text, nullable=False),
        sa.Column("ended_at", UtcDateTime, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", name="pk_dag_successes"),
    )


def _create_schedule_history() -> None:
    op.create_table(
        "schedule_history",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("schedule", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("pending_id", sa.Text),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schedule_history"),
    )
    op.create_index("ix_schedule_history_schedule_id", "schedule_history", ["schedule", "id"])


def _create_table_places() -> None:
    op.create_table(
        "table_places",
        sa.Column("table_key", sa.Text, nullable=False),
        sa.Column("snapshot_id", sa.BigInteger),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("committed_at", UtcDateTime),
        sa.Column("read_at", UtcDateTime, nullable=False),
        sa.Column("table_uuid", sa.Text),
        sa.PrimaryKeyConstraint("table_key", name="pk_table_places"),
    )


def _create_considered() -> None:
    op.create_table(
        "considered",
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("since", sa.JSON, nullable=False),
        sa.Column("upto", sa.JSON, nullable=False),
        sa.Column("changed_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name="pk_considered"),
    )


def _create_gated_runs() -> None:
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
    where = sa.text("ended_at IS NULL")
    op.create_index("ix_gated_runs_active", "gated_runs", ["dag_id"], postgresql_where=where, sqlite_where=where)
    op.create_index("ix_gated_runs_dag_id_passed_at", "gated_runs", ["dag_id", "passed_at"])


def _create_registered_runs() -> None:
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
