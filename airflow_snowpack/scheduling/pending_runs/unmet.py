"""What a skipped or expired request leaves behind: the progress of the triggers that were not met.

    keep_unmet(conn, store, row, schedule, counted)                      # in the transaction that discards the job
    keep_unmet_of_expired(conn, store, row, schedule, counted, late)     # likewise, after its late events have left it

The invariant: an event belongs to one pending job. The events of the triggers that satisfied the request stay with it; those
of the others move to a new pending job, with the sums that they add up to.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.counting import Counted, count_anew
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.pending_runs.model import PendingState, Reason, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store, new_id
from airflow_snowpack.store.schedule_tables import pending_events, pending_jobs


def keep_unmet(conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted) -> None:
    """Begin a new pending job with what the unmet triggers have collected, if they have collected anything.

    :param row: of the pending job, which the caller holds and has discarded.
    """
    now, unmet = store.clock(), _unmet(schedule, counted, store.clock())
    if not unmet:
        return
    left = Counted(counted.leaves, {str(number): counted.sums[str(number)] for number in sorted(unmet)}, counted.upto)
    judgement = schedule.trigger.judge(left.progress, now)
    pending_id = new_id()
    values = {
        "pending_id": pending_id,
        "schedule": row.schedule,
        "generation": row.generation,
        "dag_id": row.dag_id,
        "state": PendingState.TRIGGER.value,
        "priority": row.priority,
        "created_at": now,
        "next_check_at": now if judgement.satisfied else judgement.next_at,
        "reasons": reasons_to_json((Reason("trigger", judgement.says, met=False, not_before=judgement.next_at),)),
        **left.to_row(),
    }
    conn.execute(sa.insert(pending_jobs).values(**values))
    _move_events(conn, row.pending_id, pending_id, unmet)
    note(conn, store, row.schedule, "progress_kept", pending_id, says=judgement.says)


def keep_unmet_of_expired(
    conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted, late: str | None
) -> None:
    """Do the same for a job that has expired.

    :param late: the pending job that its late events began, which has not counted them yet; ``None`` when there were none.
    """
    if late is None:
        keep_unmet(conn, store, row, schedule, counted)
        return
    before = count_anew(conn, row.pending_id, schedule)
    _move_events(conn, row.pending_id, late, _unmet(schedule, before, store.clock()))


def _unmet(schedule: Schedule, counted: Counted, now: datetime) -> set[int]:
    """The numbers of the leaves that have collected something and did not satisfy the trigger."""
    spent = set(schedule.trigger.spent(counted.progress, now))
    return {number for number, leaf in enumerate(counted.leaves) if leaf not in spent and str(number) in counted.sums}


def _move_events(conn: sa.Connection, was: str, to: str, leaves: Collection[int]) -> None:
    theirs = sa.and_(pending_events.c.pending_id == was, pending_events.c.leaf.in_(leaves))
    conn.execute(sa.update(pending_events).where(theirs).values(pending_id=to))
