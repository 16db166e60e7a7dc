"""Schedules, events and pending jobs in bulk: as the room itself would leave them, without its waiting for each commit.

with filled_store(url, ["event:e0", "event:e1"]) as store: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling import CustomEvents, Schedule, TimeWindow
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.schedules import (
    event_cursors,
    events,
    pending_events,
    pending_jobs,
    schedule_triggers,
    schedules,
)

AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
OPENS = AT.replace(hour=22)
ROWS_AT_ONCE = 10_000
CURSOR = "subscriber"


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: datetime = AT

    def __call__(self) -> datetime:
        return self.now


@contextmanager
def filled_store(url: str, listens_to: Sequence[str]) -> Iterator[Store]:
    """An empty store with one schedule for each of these event keys, and statistics as a store has that runs for a while."""
    with Store(open_engine(url), clock=Clock()) as store:
        upgrade_schema(store)
        add_schedules(store, listens_to)
        analyze(store)
        yield store


def add_schedules(store: Store, listens_to: Sequence[str]) -> None:
    """Schedules ``s0``, ``s1``, …, each with a window at night and a trigger for one key."""
    one = Schedule("s", dag_id="maintain", trigger=CustomEvents("x", 2), constraints=[TimeWindow("22:00", "06:00")], enabled=True)
    same = {"generation": "g", "definition": one.to_json(), "dag_id": "maintain", "enabled": True, "origin": "hand"}
    rows = [{"name": f"s{n}", **same, "created_at": AT, "changed_at": AT} for n in range(len(listens_to))]
    _insert(store, schedules, rows)
    listening = {"leaf": 0, "generation": "g", "counts_after": 0, "counts_from": AT}
    _insert(store, schedule_triggers, [{"schedule": f"s{n}", "event_key": key, **listening} for n, key in enumerate(listens_to)])


def add_events(store: Store, keys: Sequence[str]) -> None:
    """One event of each key, in this order."""
    _insert(store, events, [{"key": key, "at": AT, "recorded_at": AT, "amounts": {}, "detail": {}} for key in keys])


def add_pending(store: Store, schedule_numbers: Sequence[int], state: PendingState, next_check_at: datetime | None) -> None:
    """A pending job for each of these schedules."""
    same: dict[str, Any] = {"generation": "g", "dag_id": "maintain", "state": state.value, "priority": 0, "created_at": AT}
    same |= {"next_check_at": next_check_at, "counted_to": 0, "progress": {}, "reasons": []}
    if state is PendingState.CONSTRAINT:
        same |= {"triggered_at": AT, "expires_at": OPENS.replace(day=30)}
    _insert(
        store,
        pending_jobs,
        [{"pending_id": md5(str(n).encode()).hexdigest(), "schedule": f"s{n}", **same} for n in schedule_numbers],
    )


def forget_what_was_taken(store: Store) -> None:
    """Back to before the first event: nothing is pending, and the subscriber has read nothing."""

    def write(conn: sa.Connection) -> None:
        for table in (pending_events, pending_jobs, event_cursors):
            empty = f"TRUNCATE {table.name}" if store.is_postgres else f"DELETE FROM {table.name}"
            conn.exec_driver_sql(empty)
        conn.execute(sa.insert(event_cursors).values(name=CURSOR, position=0))

    store.transact(write)


def analyze(store: Store, table: str = "") -> None:
    """What autovacuum does in its time."""
    if store.is_postgres:
        store.single(lambda conn: conn.exec_driver_sql(f"VACUUM ANALYZE {table}"))


def _insert(store: Store, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        batch = rows[start : start + ROWS_AT_ONCE]
        store.transact(lambda conn, batch=batch: conn.execute(sa.insert(table), batch))  # type: ignore[misc]  # mypy takes the default for an argument
