"""Events that arrived after the expiry of the pending job that took them.

    expires_at = expiry(conn, pending_id, schedule, triggered_at, now)
    begin_with_late_events(conn, row, expires_at, now)     # in the transaction that discards the expired job

A pending job that has expired stays open until the checker reads it again, and one whose trigger turns out to have been satisfied
long ago may have expired before it was ever read. The invariant: **a timeout discards no event that arrived after the expiry.**
Such events move to a new pending job of the same schedule, and what stays behind has satisfied the trigger: otherwise the
expired job would be replaced by the same one again and again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.counting import count_recorded_before
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import new_id
from airflow_snowpack.store.schedule_tables import events, pending_events, pending_jobs


def expiry(conn: sa.Connection, pending_id: str, schedule: Schedule, triggered_at: datetime, now: datetime) -> datetime:
    """Return when a pending job expires: the timeout after its trigger was satisfied.

    After an outage, a poller or a sender records events long after they happened. Where the timeout would have ended before the
    events that satisfied the trigger were recorded, it begins when they were.
    """
    expires_at = triggered_at + schedule.timeout.period
    if expires_at > now:
        return expires_at
    in_time = count_recorded_before(conn, pending_id, schedule, expires_at)
    if schedule.trigger.judge(in_time.progress, now).satisfied:
        return expires_at
    recorded = sa.select(sa.func.max(events.c.recorded_at)).join(pending_events, pending_events.c.event_id == events.c.id)
    last: datetime | None = conn.execute(recorded.where(pending_events.c.pending_id == pending_id)).scalar()
    return expires_at if last is None else last + schedule.timeout.period


def begin_with_late_events(conn: sa.Connection, row: sa.Row[Any], expires_at: datetime, now: datetime) -> str | None:
    """Move the late events of a discarded pending job to a new one, which is due at once.

    :param row: the row of the job that this transaction has discarded.
    :returns: the id of the new pending job; ``None`` when no event arrived after the expiry.
    """
    mine = pending_events.c.pending_id == row.pending_id
    late = sa.select(events.c.id).where(events.c.id == pending_events.c.event_id, events.c.recorded_at >= expires_at).exists()
    if conn.execute(sa.select(sa.literal(1)).where(sa.exists().where(mine, late))).first() is None:
        return None
    pending_id = new_id()
    same = {name: getattr(row, name) for name in ("schedule", "generation", "dag_id", "priority")}
    new = {"state": PendingState.TRIGGER.value, "created_at": now, "next_check_at": now, "counted_to": 0}
    conn.execute(sa.insert(pending_jobs).values(pending_id=pending_id, **same, **new, progress={}, reasons=[]))
    conn.execute(sa.update(pending_events).where(mine, late).values(pending_id=pending_id))
    return pending_id
