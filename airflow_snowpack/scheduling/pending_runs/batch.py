"""The pending runs of one transaction, locked with their schedules.

    locked = lock_batch(conn, pending_ids, now, definitions, failed)

The invariant: no change of a schedule commits between the evaluation of its pending run and the effect of that. What another
transaction has locked is left out instead of waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.scheduling.schedule import Definitions, Schedule
from airflow_snowpack.store.tables.schedules import pending_jobs, schedules

ERROR_LENGTH = 300
"""So many characters of an unexpected error are kept as the reason why a run waits."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A pending run whose row is locked.

    :param schedule: as it is now; ``None`` where it was changed, or cannot be read.
    :param problem: why it is set aside.
    """

    row: sa.Row[Any]
    schedule: Schedule | None = None
    problem: str | None = None


def lock_batch(
    conn: sa.Connection, pending_ids: Sequence[str], now: datetime, definitions: Definitions, failed: Mapping[str, Exception]
) -> dict[str, Locked]:
    """Lock those of these pending runs that are due, with their schedules as they are now.

    :param definitions: the schedules as they were read before.
    :param failed: the errors that evaluations raised before, by pending run.
    """
    due = (pending_jobs.c.pending_id.in_(pending_ids), is_open, pending_jobs.c.next_check_at <= now)
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)  # as in each transaction that locks several
    rows = conn.execute(sa.select(pending_jobs).where(*due).order_by(*in_order).with_for_update(skip_locked=True)).all()
    names = sorted({row.schedule for row in rows})
    named: sa.Select[Any] = sa.select(schedules.c.name, schedules.c.generation, schedules.c.definition)
    # A change of a schedule has locked its row and will want the pending run: so the run is left for later, and neither waits
    # for the other.
    shared = named.where(schedules.c.name.in_(names)).order_by(schedules.c.name).with_for_update(read=True, skip_locked=True)
    current = {row.name: row for row in conn.execute(shared)} if names else {}
    missing = [name for name in names if name not in current]
    there = sa.select(schedules.c.name).where(schedules.c.name.in_(missing))
    changing = set(conn.execute(there).scalars()) if missing else set()
    return {
        row.pending_id: _with_schedule(row, current.get(row.schedule), definitions, failed.get(row.pending_id))
        for row in rows
        if row.schedule not in changing
    }


def _with_schedule(row: sa.Row[Any], current: sa.Row[Any] | None, definitions: Definitions, failure: Exception | None) -> Locked:
    if current is None or current.generation != row.generation:
        return Locked(row)
    if failure is not None:
        return Locked(row, problem=f"it cannot be evaluated ({type(failure).__name__}: {str(failure)[:ERROR_LENGTH]})")
    try:
        return Locked(row, definitions.read(current.name, current.definition))
    except InvalidSchedule as error:
        return Locked(row, problem=f"its definition cannot be read: {error}")
