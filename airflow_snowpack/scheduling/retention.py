"""Forgetting: events, ended jobs and history that nobody can need any more.

    forget_old(store, keep=timedelta(days=90))

The invariant: an event stays as long as the subscriber has not passed it or an open job has it, however old it is; and what
``MaxRuns`` counts stays for the longest period that any of them has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraint import Constraint
from airflow_snowpack.scheduling.constraints import MaxRuns
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import parse_constraints
from airflow_snowpack.scheduling.subscriber import CURSOR
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import (
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
BATCH = 5_000
MOST_BATCHES = 200
"""Of one kind, in one call: a million rows. A scheduler that forgets launches nothing meanwhile."""


def forget_old(store: Store, *, keep: timedelta = KEEP) -> int:
    """Delete what is older, in batches, each a transaction of its own. Each step tells what it found, and how many rows went.

    :param keep: at least so long; what ``MaxRuns`` counts stays longer if one of them looks back further.
    :returns: how many rows went.
    """
    before, counted = store.clock() - keep, store.read(lambda conn: _counted_from(conn, store.clock(), keep))
    rows = 0
    for forget, moment in (
        (_jobs, before),
        (_events, before),
        (_history, before),
        (_runs, counted),
        (_gates, counted),
        (_problems, before),
    ):
        for _ in range(MOST_BATCHES):
            found, gone = store.transact(lambda conn, forget=forget, moment=moment: forget(conn, moment))  # type: ignore[misc]  # mypy takes the defaults for arguments
            rows += gone
            if found < BATCH:
                break
    return rows


def _jobs(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    old = sa.select(pending_jobs.c.pending_id).where(pending_jobs.c.ended_at < before).limit(BATCH)
    ended = conn.execute(old).scalars().all()
    gone = (sa.delete(table).where(table.c.pending_id.in_(ended)) for table in (pending_events, pending_jobs))
    return len(ended), sum(conn.execute(each).rowcount for each in gone)


def _events(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    """Without those that an open job has; they are found from the jobs, of which most have events that are younger."""
    passed = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery()
    old = sa.and_(events.c.recorded_at < before, events.c.id <= passed)
    newest = sa.select(sa.func.max(events.c.id)).where(old).scalar_subquery()
    had = sa.select(pending_events.c.event_id).join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id)
    held = had.where(pending_jobs.c.ended_at.is_(None), pending_events.c.event_id <= newest).distinct().subquery("held")
    # An outer join, since it is hashed, or indexed for the moment, however many are held; NOT IN is not, from some size on.
    found = sa.select(events.c.id).join(held, held.c.event_id == events.c.id, isouter=True)
    some = found.where(old, held.c.event_id.is_(None)).limit(BATCH)
    gone = conn.execute(sa.delete(events).where(events.c.id.in_(some))).rowcount
    return gone, gone


def _history(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    some = sa.select(schedule_history.c.id).where(schedule_history.c.at < before).limit(BATCH)
    gone = conn.execute(sa.delete(schedule_history).where(schedule_history.c.id.in_(some))).rowcount
    return gone, gone


def _runs(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    """All at once: there are as many as runs."""
    old = sa.and_(schedule_runs.c.ended_at.is_not(None), schedule_runs.c.reserved_at < before)
    return 0, conn.execute(sa.delete(schedule_runs).where(old)).rowcount


def _gates(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    return 0, conn.execute(sa.delete(gated_runs).where(gated_runs.c.ended_at < before)).rowcount


def _problems(conn: sa.Connection, before: datetime) -> tuple[int, int]:
    """Delete problems of sources without a listener; a problem that still exists is found again."""
    return 0, conn.execute(sa.delete(source_problems).where(source_problems.c.asked_at < before)).rowcount


def _counted_from(conn: sa.Connection, now: datetime, keep: timedelta) -> datetime:
    """Since when launches and passings may be counted."""
    longest = max((*_periods(conn), keep))
    return now - min(longest, now - datetime.min.replace(tzinfo=now.tzinfo))


def _periods(conn: sa.Connection) -> Iterable[timedelta]:
    """How far every ``MaxRuns`` looks back, of schedules and of gates."""
    for column in (schedules.c.definition["constraints"], gated_runs.c.constraints):
        said = sa.cast(column, sa.Text)
        for text in conn.execute(sa.select(said).where(said.like(f"%{MaxRuns.kind}%")).distinct()).scalars():
            for constraint in _readable(text):
                if isinstance(constraint, MaxRuns):
                    assert isinstance(constraint.per, timedelta), "checked when it was made"
                    yield constraint.per


def _readable(text: str) -> tuple[Constraint, ...]:
    """Without what a newer version wrote, which launches nothing here until somebody changes it."""
    found: list[Constraint] = []
    for each in json.loads(text):
        try:
            found += parse_constraints([each])
        except InvalidSchedule:
            continue
    return tuple(found)
