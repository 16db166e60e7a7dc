"""The history of a schedule: what was launched, discarded, skipped, missed or changed, and the DAG runs that it started.

The invariant: an entry is written in the transaction of what it reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.tables.schedules import schedule_history, schedule_runs


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One entry of a schedule's history, such as ``created``, ``triggered``, ``launched``, ``discarded`` or ``ticks_missed``."""

    id: int
    schedule: str
    at: datetime
    what: str
    pending_id: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A DAG run that a schedule started.

    :param reserved_at: when its constraints were met.
    :param launched_at: when Airflow created it; ``None`` while it is starting.
    :param state: ``success`` or ``failed``; ``None`` while unknown.
    """

    dag_id: str
    run_id: str
    reserved_at: datetime
    launched_at: datetime | None
    ended_at: datetime | None
    state: str | None


def note(conn: sa.Connection, store: Store, schedule: str, what: str, pending_id: str | None = None, **detail: Any) -> None:
    write_lines(conn, [line(store, schedule, what, pending_id, **detail)])


def line(store: Store, schedule: str, what: str, pending_id: str | None = None, **detail: Any) -> dict[str, Any]:
    """Return an entry dated now, for :func:`write_lines`."""
    return {"schedule": schedule, "at": store.clock(), "what": what, "pending_id": pending_id, "detail": detail}


def write_lines(conn: sa.Connection, lines: Sequence[Mapping[str, Any]]) -> None:
    if lines:
        conn.execute(sa.insert(schedule_history), lines)


def read_history(store: Store, schedule: str, *, before: int | None = None, limit: int = 100) -> list[ScheduleEntry]:
    """Return the entries of one schedule, newest first; for the next page only those below the number ``before``."""
    query = sa.select(schedule_history).where(schedule_history.c.schedule == schedule)
    query = query if before is None else query.where(schedule_history.c.id < before)
    rows = store.all(query.order_by(schedule_history.c.id.desc()).limit(limit))
    return [_entry_from(row) for row in rows]


def read_runs(store: Store, schedule: str, *, limit: int = 20) -> list[LaunchedRun]:
    """Return the DAG runs that a schedule started, newest first."""
    query = sa.select(schedule_runs).where(schedule_runs.c.schedule == schedule)
    rows = store.all(query.order_by(schedule_runs.c.reserved_at.desc(), schedule_runs.c.run_id).limit(limit))
    return [_run_from(row) for row in rows]


_entry_from = row_mapper(ScheduleEntry)
_run_from = row_mapper(LaunchedRun)
