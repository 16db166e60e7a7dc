"""What a pending run leaves behind when it is skipped or expires: late events, and the progress of unmet triggers.

    expires_at = expiry(conn, pending_id, schedule, triggered_at, now)
    keep_of_expired(conn, store, row, schedule, counted, expires_at)      # in the transaction that discards the expired run
    keep_unmet(conn, store, row, schedule, counted)                       # in the transaction that skips a run

A pending run that has expired stays open until the checker evaluates it, and one whose trigger turns out to have been satisfied
long ago may have expired before it was ever evaluated. Two invariants: **a timeout discards no event that arrived after the
expiry**, and **an event belongs to one pending run**. Late events move to a new pending run of the same schedule. The events of
the triggers that satisfied the request stay with it, or the expired run would be replaced by the same one again and again. Those
of the other triggers move to a new pending run, with their sums.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.events.counting import Counted, count_all
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.pending_runs.model import PendingState, Reason, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store, new_id
from airflow_snowpack.store.tables.schedules import events, pending_events, pending_jobs


def expiry(conn: sa.Connection, pending_id: str, schedule: Schedule, triggered_at: datetime, now: datetime) -> datetime:
    """Return when a pending run expires: the timeout after its trigger was satisfied.

    After an outage, a poller or a sender records events long after they happened. Where the timeout would have ended before the
    events that satisfied the trigger were recorded, it begins when they were.
    """
    expires_at = triggered_at + schedule.timeout.period
    if expires_at > now:
        return expires_at
    in_time = count_all(conn, pending_id, schedule, before=expires_at)
    if schedule.trigger.evaluate(in_time.progress, now).satisfied:
        return expires_at
    recorded = sa.select(sa.func.max(events.c.recorded_at)).join(pending_events, pending_events.c.event_id == events.c.id)
    last: datetime | None = conn.execute(recorded.where(pending_events.c.pending_id == pending_id)).scalar()
    return expires_at if last is None else last + schedule.timeout.period


def keep_of_expired(
    conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted, expires_at: datetime
) -> None:
    """Leave the late events of a run that this transaction discarded to a new pending run, which is due at once, with what the
    unmet triggers have collected.
    """
    now, mine = store.clock(), pending_events.c.pending_id == row.pending_id
    late = sa.select(events.c.id).where(events.c.id == pending_events.c.event_id, events.c.recorded_at >= expires_at).exists()
    if conn.execute(sa.select(sa.literal(1)).where(sa.exists().where(mine, late))).first() is None:
        keep_unmet(conn, store, row, schedule, counted)
        return
    pending_id = _begin(conn, row, created_at=now, next_check_at=now, counted_to=0, progress={}, reasons=[])
    conn.execute(sa.update(pending_events).where(mine, late).values(pending_id=pending_id))
    in_time = count_all(conn, row.pending_id, schedule)
    _move_events(conn, row.pending_id, pending_id, _unmet(schedule, in_time, now))


def keep_unmet(conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted) -> None:
    """Begin a new pending run with what the unmet triggers of a discarded one have collected, if that is anything."""
    now = store.clock()
    unmet = _unmet(schedule, counted, now)
    if not unmet:
        return
    left = Counted(counted.leaves, {str(number): counted.sums[str(number)] for number in sorted(unmet)}, counted.upto)
    judgement = schedule.trigger.evaluate(left.progress, now)
    reason = Reason("trigger", judgement.text, met=False, not_before=judgement.next_at)
    next_at = now if judgement.satisfied else judgement.next_at
    pending_id = _begin(conn, row, created_at=now, next_check_at=next_at, reasons=reasons_to_json((reason,)), **left.to_row())
    _move_events(conn, row.pending_id, pending_id, unmet)
    note(conn, store, row.schedule, "progress_kept", pending_id, says=judgement.text)


def _begin(conn: sa.Connection, row: sa.Row[Any], **values: Any) -> str:
    """Begin another pending run of the same schedule."""
    same = {name: getattr(row, name) for name in ("schedule", "generation", "dag_id", "priority")}
    new = {"pending_id": new_id(), "state": PendingState.TRIGGER.value}
    conn.execute(sa.insert(pending_jobs).values(**new, **same, **values))
    return new["pending_id"]


def _unmet(schedule: Schedule, counted: Counted, now: datetime) -> set[int]:
    """The numbers of the leaves that have collected something and did not satisfy the trigger."""
    spent = set(schedule.trigger.spent(counted.progress, now))
    return {number for number, leaf in enumerate(counted.leaves) if leaf not in spent and str(number) in counted.sums}


def _move_events(conn: sa.Connection, was: str, to: str, leaves: Collection[int]) -> None:
    theirs = sa.and_(pending_events.c.pending_id == was, pending_events.c.leaf.in_(leaves))
    conn.execute(sa.update(pending_events).where(theirs).values(pending_id=to))
