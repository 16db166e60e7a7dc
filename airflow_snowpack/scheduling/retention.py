"""How long events, ended jobs and history stay.

    Pruner(store, retained(store), older_than=KEEP)

The invariant: an event stays as long as the subscriber has not passed it or an open job has it, however old it is; and what
``MaxRuns`` counts stays for the longest period that any of them has. Nothing goes before :data:`KEEP`: an event that comes again,
as after a scheduler was down for weeks, is recognised by the one on record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.counted_period import longest_of_gates, periods_in
from airflow_snowpack.scheduling.events.event_log import CURSOR
from airflow_snowpack.store import Store
from airflow_snowpack.store.retention import Kind
from airflow_snowpack.store.tables.schedules import (
    event_cursors,
    events,
    gated_runs,
    pending_events,
    pending_jobs,
    schedule_history,
    schedule_runs,
    schedules,
    source_problems,
)

KEEP = timedelta(days=90)


def retained(store: Store) -> tuple[Kind, ...]:
    """The kinds of rows of this room, in the order in which they are deleted: an event after the jobs that had it."""
    of_schedules = store.read(lambda conn: periods_in(conn, schedules.c.definition["constraints"]))
    counted = max(KEEP, of_schedules, longest_of_gates(store))
    return (PENDING_JOBS, EVENTS, HISTORY, _runs(counted), _gates(counted), SOURCE_PROBLEMS)


def _held(conn: sa.Connection, event_ids: Sequence[Any]) -> Collection[Any]:
    """Return the events that an open job has; they are found from the open jobs, of which there are few."""
    open_job = sa.and_(pending_jobs.c.pending_id == pending_events.c.pending_id, pending_jobs.c.ended_at.is_(None))
    had = sa.select(pending_events.c.event_id).join(pending_jobs, open_job)
    return set(conn.execute(had.where(pending_events.c.event_id.between(min(event_ids), max(event_ids)))).scalars())


PENDING_JOBS = Kind(
    pending_jobs,
    age=pending_jobs.c.ended_at,
    order=(pending_jobs.c.ended_at, pending_jobs.c.pending_id),
    which=pending_jobs.c.ended_at.is_not(None),
    belongings=(pending_events.c.pending_id,),
    at_least=KEEP,
)
EVENTS = Kind(
    events,
    age=events.c.recorded_at,
    order=(events.c.recorded_at, events.c.id),
    unneeded=events.c.id <= sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery(),
    held=_held,
    at_least=KEEP,
)
HISTORY = Kind(schedule_history, age=schedule_history.c.at, order=(schedule_history.c.id,), at_least=KEEP)
SOURCE_PROBLEMS = Kind(
    source_problems,
    age=source_problems.c.asked_at,
    order=(source_problems.c.asked_at, source_problems.c.key),
    at_least=KEEP,
)
"""Of sources that no schedule listens to any more; a problem that still exists is found again."""


def _runs(counted: timedelta) -> Kind:
    run = schedule_runs.c
    order = (run.reserved_at, run.dag_id, run.run_id)
    return Kind(schedule_runs, age=run.reserved_at, order=order, unneeded=run.ended_at.is_not(None), at_least=counted)


def _gates(counted: timedelta) -> Kind:
    run = gated_runs.c
    order = (run.ended_at, run.dag_id, run.run_id, run.task)
    return Kind(gated_runs, age=run.ended_at, order=order, which=run.ended_at.is_not(None), at_least=counted)
