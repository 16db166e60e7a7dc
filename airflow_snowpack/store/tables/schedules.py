"""The tables of schedules, registered runs, events, pending runs and launches.

Events match triggers by ``event_key``, so a look-up costs the same for any number of schedules. Waiting rows have the time of
their next check (``next_check_at``, ``look_at``), so the cost of checking follows what is due.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import lease_columns
from airflow_snowpack.store.schema import BUSY, metadata, partial_index

OPEN = "state IN ('pending_trigger', 'pending_constraint')"
"""Pending jobs that take in events."""

ABSORBS = "absorbs AND claimed_at IS NULL"
"""Launches that take in events."""

big_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("generation", sa.Text, nullable=False),
    sa.Column("definition", sa.JSON, nullable=False),
    sa.Column("dag_id", sa.Text, nullable=False, index=True),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("origin", sa.Text, nullable=False),
    sa.Column("created_at", UtcDateTime, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
    sa.Column("changed_by", sa.Text),
)

schedule_triggers = sa.Table(
    "schedule_triggers",
    metadata,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("leaf", sa.Integer, primary_key=True),
    sa.Column("generation", sa.Text, nullable=False),
    sa.Column("event_key", sa.Text, nullable=False, index=True),
    sa.Column("counts_after", sa.BigInteger, nullable=False),
    sa.Column("counts_from", UtcDateTime, nullable=False),
)

schedule_groups = sa.Table(
    "schedule_groups",
    metadata,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("group_name", sa.Text, primary_key=True, index=True),
    sa.Column("dag_id", sa.Text, nullable=False, index=True),
)

schedule_dags = sa.Table(
    "schedule_dags",
    metadata,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("dag_id", sa.Text, primary_key=True, index=True),
)
"""The DAGs whose runs the triggers and constraints of an enabled schedule read."""

run_places = sa.Table(
    "run_places",
    metadata,
    sa.Column("dag_id", sa.Text, primary_key=True),
    sa.Column("since", UtcDateTime, nullable=False),
    sa.Column("look_at", UtcDateTime, nullable=False, index=True),
    sa.Column("mark", sa.JSON, nullable=False),
)
"""The time up to which the ends of a DAG's runs are recorded."""

schedule_clocks = sa.Table(
    "schedule_clocks",
    metadata,
    sa.Column("schedule", sa.Text, primary_key=True),
    sa.Column("leaf", sa.Integer, primary_key=True),
    sa.Column("next_at", UtcDateTime, nullable=False),
    sa.Column("look_at", UtcDateTime, nullable=False, index=True),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", big_id, sa.Identity(), primary_key=True),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("source_id", sa.Text, unique=True),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("recorded_at", UtcDateTime, nullable=False, index=True),
    sa.Column("amounts", sa.JSON, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Index("ix_events_key_id", "key", "id"),
    sqlite_autoincrement=True,
)

event_cursors = sa.Table(
    "event_cursors",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
)

pending_jobs = sa.Table(
    "pending_jobs",
    metadata,
    sa.Column("pending_id", sa.Text, primary_key=True),
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
    sa.Index("ix_pending_jobs_schedule_created_at", "schedule", "created_at"),
    sa.Index("ix_pending_jobs_ended_at", "ended_at"),
    postgresql_with=BUSY,
)
partial_index("ux_pending_jobs_open", pending_jobs.c.schedule, pending_jobs.c.generation, unique=True, where=sa.text(OPEN))
partial_index("ix_pending_jobs_due", pending_jobs.c.next_check_at, where=sa.text(OPEN))
partial_index(
    "ix_pending_jobs_waits_for",
    pending_jobs.c.waits_for,
    pending_jobs.c.priority,
    where=sa.text(f"{OPEN} AND waits_for IS NOT NULL"),
)

pending_events = sa.Table(
    "pending_events",
    metadata,
    sa.Column("pending_id", sa.Text, primary_key=True),
    sa.Column("event_id", sa.BigInteger, primary_key=True),
    sa.Column("leaf", sa.Integer, primary_key=True),
)

launches = sa.Table(
    "launches",
    metadata,
    sa.Column("pending_id", sa.Text, primary_key=True),
    sa.Column("schedule", sa.Text, nullable=False, index=True),
    sa.Column("dag_id", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
    sa.Column("conf", sa.JSON, nullable=False),
    sa.Column("enqueued_at", UtcDateTime, nullable=False),
    *lease_columns(),
    sa.Column("problem", sa.Text),
    sa.Column("absorbs", sa.Boolean, nullable=False, server_default=sa.false()),
    postgresql_with=BUSY,
)
"""``absorbs``: further events of the schedule join this launch until a launcher claims it. A claim clears it, and only a start
that certainly created no run sets it again: a run that may exist never takes another event.
"""
partial_index("ix_launches_absorbing", launches.c.schedule, where=sa.text(ABSORBS))
partial_index("ix_launches_unclaimed", launches.c.enqueued_at, where=launches.c.claimed_at.is_(None))

schedule_runs = sa.Table(
    "schedule_runs",
    metadata,
    sa.Column("dag_id", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("schedule", sa.Text, nullable=False),
    sa.Column("reserved_at", UtcDateTime, nullable=False),
    sa.Column("launched_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Column("state", sa.Text),
    sa.Index("ix_schedule_runs_schedule_reserved_at", "schedule", "reserved_at"),
    sa.Index("ix_schedule_runs_reserved_at", "reserved_at"),
)
partial_index("ix_schedule_runs_active", schedule_runs.c.dag_id, where=schedule_runs.c.ended_at.is_(None))

slot_holds = sa.Table(
    "slot_holds",
    metadata,
    sa.Column("dag_id", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True, index=True),
    sa.Column("amount", sa.BigInteger, nullable=False),
    sa.Column("shown_at", UtcDateTime),
)
"""What reserved runs take of a pool or a load until Airflow shows it."""

dag_successes = sa.Table(
    "dag_successes",
    metadata,
    sa.Column("dag_id", sa.Text, primary_key=True),
    sa.Column("ended_at", UtcDateTime, nullable=False),
    sa.Column("run_id", sa.Text, nullable=False),
)

schedule_history = sa.Table(
    "schedule_history",
    metadata,
    sa.Column("id", big_id, sa.Identity(), primary_key=True),
    sa.Column("schedule", sa.Text, nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("pending_id", sa.Text),
    sa.Column("detail", sa.JSON, nullable=False),
    sa.Index("ix_schedule_history_schedule_id", "schedule", "id"),
)

table_places = sa.Table(
    "table_places",
    metadata,
    sa.Column("table_key", sa.Text, primary_key=True),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("committed_at", UtcDateTime),
    sa.Column("read_at", UtcDateTime, nullable=False),
    sa.Column("table_uuid", sa.Text),
    sa.Column("total_records", sa.BigInteger),
    sa.Column("other_heads", sa.JSON),
    sa.Column("metadata_location", sa.Text),
    sa.Column("look_at", UtcDateTime),
)
"""``total_records``: of the table at this place. ``other_heads``: snapshots that were read before a rollback abandoned them.
``metadata_location``: the metadata in which the place was read; a table that still has it has not changed.
"""

source_problems = sa.Table(
    "source_problems",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("began_at", UtcDateTime, nullable=False),
    sa.Column("confirmed_at", UtcDateTime, nullable=False),
)
"""What is wrong with the tables and DAGs that schedules listen to; a source without a row is fine, or was never checked."""

considered = sa.Table(
    "considered",
    metadata,
    sa.Column("consumer", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("since", sa.JSON, nullable=False),
    sa.Column("upto", sa.JSON, nullable=False),
    sa.Column("changed_at", UtcDateTime, nullable=False),
)

gated_runs = sa.Table(
    "gated_runs",
    metadata,
    sa.Column("dag_id", sa.Text, primary_key=True),
    sa.Column("run_id", sa.Text, primary_key=True),
    sa.Column("task", sa.Text, primary_key=True),
    sa.Column("constraints", sa.JSON, nullable=False),
    sa.Column("group_names", sa.JSON, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("arrived_at", UtcDateTime, nullable=False),
    sa.Column("evaluated_at", UtcDateTime, nullable=False),
    sa.Column("seen_at", UtcDateTime, nullable=False),
    sa.Column("not_before", UtcDateTime),
    sa.Column("waits_for", sa.Text),
    sa.Column("reasons", sa.JSON, nullable=False),
    sa.Column("passed_at", UtcDateTime),
    sa.Column("ended_at", UtcDateTime),
    sa.Index("ix_gated_runs_dag_id_passed_at", "dag_id", "passed_at"),
    postgresql_with=BUSY,
)
partial_index("ix_gated_runs_active", gated_runs.c.dag_id, where=gated_runs.c.ended_at.is_(None))
partial_index("ix_gated_runs_waits_for", gated_runs.c.waits_for, where=gated_runs.c.waits_for.is_not(None))
partial_index("ix_gated_runs_ended_at", gated_runs.c.ended_at, where=gated_runs.c.ended_at.is_not(None))
