"""Forgetting: events, ended jobs and history that nobody can need any more.

    forget_old(store, keep=timedelta(days=90))

The invariant: an event stays as long as the subscriber has not passed it or an open job has it, however old it is.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

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
)

KEEP = timedelta(days=90)
BATCH = 5_000
LAG = timedelta(days=1)
"""No subscriber is so late that an event is older than the job which it begins by more than this."""


def forget_old(store: Store, *, keep: timedelta = KEEP) -> int:
    """Delete what is older, in batches.

    :param keep: longer than the longest period of any ``MaxRuns``, which counts launches.
    :returns: how many rows went.
    """
    return store.transact(lambda conn: _forget(conn, store, keep))


def _forget(conn: sa.Connection, store: Store, keep: timedelta) -> int:
    before = store.clock() - keep
    ended = sa.select(pending_jobs.c.pending_id).where(pending_jobs.c.ended_at < before).limit(BATCH)
    gone = conn.execute(ended).scalars().all()
    rows = 0
    for table in (pending_events, pending_jobs):
        rows += conn.execute(sa.delete(table).where(table.c.pending_id.in_(gone))).rowcount
    passed = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery()
    oldest = conn.execute(sa.select(sa.func.min(pending_jobs.c.created_at)).where(pending_jobs.c.ended_at.is_(None))).scalar()
    unheld = before if oldest is None else min(before, oldest - LAG)
    old = sa.select(events.c.id).where(events.c.recorded_at < unheld, events.c.id <= passed).limit(BATCH)
    rows += conn.execute(sa.delete(events).where(events.c.id.in_(old))).rowcount
    lines = sa.select(schedule_history.c.id).where(schedule_history.c.at < before).limit(BATCH)
    rows += conn.execute(sa.delete(schedule_history).where(schedule_history.c.id.in_(lines))).rowcount
    runs = sa.and_(schedule_runs.c.ended_at.is_not(None), schedule_runs.c.reserved_at < before)
    rows += conn.execute(sa.delete(schedule_runs).where(runs)).rowcount
    return rows + conn.execute(sa.delete(gated_runs).where(gated_runs.c.ended_at < before)).rowcount
