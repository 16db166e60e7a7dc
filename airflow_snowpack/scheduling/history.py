"""What became of a schedule's wishes, in the transaction in which it became so: launched, discarded, skipped, missed, changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import schedule_history


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One line of a schedule's life.

    :param what: such as ``created``, ``triggered``, ``launched``, ``discarded``, ``ticks_missed``.
    :param pending_id: the pending job that it is about, if any.
    """

    id: int
    schedule: str
    at: datetime
    what: str
    pending_id: str | None
    detail: dict[str, Any]


def note(conn: sa.Connection, store: Store, schedule: str, what: str, pending_id: str | None = None, **detail: Any) -> None:
    """Write one line."""
    write_lines(conn, [line(store, schedule, what, pending_id, **detail)])


def line(store: Store, schedule: str, what: str, pending_id: str | None = None, **detail: Any) -> dict[str, Any]:
    """Return one line of now, for :func:`write_lines`."""
    return {"schedule": schedule, "at": store.clock(), "what": what, "pending_id": pending_id, "detail": detail}


def write_lines(conn: sa.Connection, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write several lines, in their order."""
    if lines:
        conn.execute(sa.insert(schedule_history), lines)


def read_history(store: Store, schedule: str, *, before: int | None = None, limit: int = 100) -> list[ScheduleEntry]:
    """The newest lines of one schedule first.

    :param before: only those below this number: the next page.
    """
    query = sa.select(schedule_history).where(schedule_history.c.schedule == schedule)
    query = query.order_by(schedule_history.c.id.desc()).limit(limit)
    query = query if before is None else query.where(schedule_history.c.id < before)
    rows = store.read(lambda conn: conn.execute(query).all())
    return [ScheduleEntry(row.id, row.schedule, row.at, row.what, row.pending_id, row.detail) for row in rows]
