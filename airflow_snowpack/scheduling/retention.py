"""How long events, ended pending runs, and history are kept.

    Pruner(store, retained(store), older_than=KEEP)
    remember_period(conn, constraints)     # when a run reaches a gate

The invariant: an event stays, however old, until the intake has passed it and no open run has it; and what ``MaxRuns`` counts
stays for the longest period of any of them. Nothing is deleted before :data:`KEEP`: an event that is reported again, such as
after a scheduler was down for weeks, is identified by the recorded one.

Gates are declared in DAG files; the store has only the runs that reached them, many of each. The longest period that a gate
counts over is therefore stored as a fact, which grows when a longer one appears and never shrinks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import Constraint, RequiredFacts, usable_constraint
from airflow_snowpack.scheduling.events.event_log import MATCHED_TO
from airflow_snowpack.scheduling.pending_runs.gated_runs import GATE_KEY
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.schema import store_facts
from airflow_snowpack.store.tables.schedules import (
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


def retained(store: Store) -> tuple[RetainedRows, ...]:
    """Return this room's kinds of rows in the order of deletion: events after the runs that had them."""
    of_schedules = store.read(lambda conn: _periods_in(conn, schedules.c.definition["constraints"]))
    counted = max(KEEP, of_schedules, longest_of_gates(store))
    run, gate = schedule_runs.c, gated_runs.c
    of_runs, of_gates = (run.reserved_at, run.dag_id, run.run_id), (gate.ended_at, *GATE_KEY)
    runs = RetainedRows(schedule_runs, age=run.reserved_at, order=of_runs, unneeded=run.ended_at.is_not(None), at_least=counted)
    gates = RetainedRows(gated_runs, age=gate.ended_at, order=of_gates, which=gate.ended_at.is_not(None), at_least=counted)
    return (PENDING_JOBS, EVENTS, HISTORY, runs, gates, SOURCE_PROBLEMS)


def _held(conn: sa.Connection, event_ids: Sequence[Any]) -> Collection[Any]:
    """Return the events that open runs have, found from the open runs, which are few."""
    open_run = sa.and_(pending_jobs.c.pending_id == pending_events.c.pending_id, pending_jobs.c.ended_at.is_(None))
    had = sa.select(pending_events.c.event_id).join(pending_jobs, open_run)
    return set(conn.execute(had.where(pending_events.c.event_id.between(min(event_ids), max(event_ids)))).scalars())


PENDING_JOBS = RetainedRows(
    pending_jobs,
    age=pending_jobs.c.ended_at,
    order=(pending_jobs.c.ended_at, pending_jobs.c.pending_id),
    which=pending_jobs.c.ended_at.is_not(None),
    belongings=(pending_events.c.pending_id,),
    at_least=KEEP,
)
EVENTS = RetainedRows(
    events,
    age=events.c.recorded_at,
    order=(events.c.recorded_at, events.c.id),
    unneeded=events.c.id <= MATCHED_TO,
    held=_held,
    at_least=KEEP,
)
HISTORY = RetainedRows(schedule_history, age=schedule_history.c.at, order=(schedule_history.c.id,), at_least=KEEP)
LAST_CONFIRMED = source_problems.c.confirmed_at
SOURCE_PROBLEMS = RetainedRows(source_problems, age=LAST_CONFIRMED, order=(LAST_CONFIRMED, source_problems.c.key), at_least=KEEP)
"""A problem that still exists is found again; the others are of sources that no schedule listens to any more."""


FACT = "longest_max_runs_of_gates"
DIGITS = 12
"""Digits of the seconds: strings of equal length compare like numbers."""


def remember_period(conn: sa.Connection, constraints: Iterable[Constraint]) -> None:
    """Store the longest period of these constraints, if it is longer than the stored one."""
    period = RequiredFacts.of(constraints, "").launches_within
    if not period:
        return
    known = _known(conn)
    # In a store of an earlier release, earlier gates count too.
    if period > (_find(conn) if known is None else known):
        _keep(conn, period)


def longest_of_gates(store: Store) -> timedelta:
    """Return the longest period that a gate counts over; a store without the fact reads all runs of gates once."""
    known = store.read(_known)
    return store.transact(_find) if known is None else known


def _periods_in(conn: sa.Connection, column: sa.ColumnElement[object]) -> timedelta:
    """Return the longest period in a column of constraints as JSON."""
    stored = sa.cast(column, sa.Text)
    texts = conn.execute(sa.select(stored).where(stored.is_not(None)).distinct()).scalars()
    declared = [json.loads(text) for text in texts]
    read = [usable_constraint(one, "dag") for each in declared if isinstance(each, list) for one in each]
    return RequiredFacts.of([one for one in read if one is not None], "dag").launches_within


def _find(conn: sa.Connection) -> timedelta:
    _keep(conn, _periods_in(conn, gated_runs.c.constraints))
    found = _known(conn)
    assert found is not None, "it was written a moment ago"
    return found


def _known(conn: sa.Connection) -> timedelta | None:
    value = conn.execute(sa.select(store_facts.c.value).where(store_facts.c.name == FACT)).scalar()
    return None if value is None else timedelta(seconds=int(value))


def _keep(conn: sa.Connection, period: timedelta) -> None:
    new = insert(store_facts).values(name=FACT, value=f"{-int(-period.total_seconds() // 1):0{DIGITS}d}")
    longer = store_facts.c.value < new.excluded.value
    conn.execute(new.on_conflict_do_update(index_elements=["name"], set_={"value": new.excluded.value}, where=longer))
