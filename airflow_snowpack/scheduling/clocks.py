"""The clocks of schedules: cron ticks and elapsed periods become events.

    Clocks(store).step()

The invariant: a tick and the moment of the next one are written in one transaction, so that none is lost and none comes
twice, and a clock that is set back repeats nothing. Ticks that came while nobody was there are told apart by their age,
and the schedule's policy says what becomes of them; in any case they are on record.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.cron import next_tick
from airflow_snowpack.scheduling.events import Event, publish
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.leaves import Cron, Every
from airflow_snowpack.scheduling.pending import OPEN, PendingState
from airflow_snowpack.scheduling.schedule import Missed, Schedule
from airflow_snowpack.scheduling.trigger import Leaf, clock_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import pending_jobs, schedule_clocks, schedules

LATE = timedelta(minutes=1)
"""A tick that is noticed later than this was missed."""
MANY = 10_000
"""More missed ticks than this are not counted one by one."""
UNTIL_THE_RUN_IS_OFF = timedelta(seconds=5)


class Clocks:
    """Turns due ticks into events."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self, limit: int = 1_000) -> int:
        """Look at the clocks that are due.

        :returns: how many it looked at.
        """
        return self._store.transact(lambda conn: self._look(conn, limit))

    def _look(self, conn: sa.Connection, limit: int) -> int:
        now = self._store.clock()
        due = (
            sa.select(schedule_clocks, schedules.c.definition, schedules.c.generation)
            .join(schedules, schedules.c.name == schedule_clocks.c.schedule)
            .where(schedule_clocks.c.look_at <= now)
            .order_by(schedule_clocks.c.look_at)
            .limit(limit)
            .with_for_update(of=schedule_clocks, skip_locked=True)
        )
        rows = conn.execute(due).all()
        ticks = [tick for row in rows if (tick := self._tick(conn, row, now)) is not None]
        publish(conn, self._store, ticks)
        return len(rows)

    def _tick(self, conn: sa.Connection, row: sa.Row[Any], now: datetime) -> Event | None:
        schedule = Schedule.from_json(row.definition)
        leaf = schedule.trigger.leaves()[row.leaf]
        moments = _due_moments(leaf, row.next_at, now)
        missed = [moment for moment in moments if now - moment > LATE]
        if len(moments) > 1 and schedule.missed is Missed.ALL:
            return self._one_at_a_time(conn, row, leaf, moments, missed, now)
        self._set(conn, row, _after(leaf, now))
        if missed:
            note(conn, self._store, row.schedule, "ticks_missed", policy=str(schedule.missed), ticks=_texts(missed))
        if len(missed) == len(moments) and schedule.missed is Missed.NONE:
            return None
        return _event(row, moments)

    def _one_at_a_time(
        self, conn: sa.Connection, row: sa.Row[Any], leaf: Leaf, moments: list[datetime], missed: list[datetime], now: datetime
    ) -> Event | None:
        """Each missed tick is a run of its own: the next comes when the run of the one before is off."""
        on_its_way = sa.select(pending_jobs.c.pending_id).where(
            pending_jobs.c.schedule == row.schedule,
            pending_jobs.c.generation == row.generation,
            pending_jobs.c.state.in_([*OPEN, PendingState.LAUNCH.value]),
        )
        if conn.execute(on_its_way.limit(1)).first() is not None:
            self._set(conn, row, row.next_at, look_at=now + UNTIL_THE_RUN_IS_OFF)
            return None
        self._set(conn, row, moments[1])
        if moments[0] in missed:
            note(conn, self._store, row.schedule, "ticks_missed", policy=str(Missed.ALL), ticks=_texts(moments[:1]))
        return _event(row, moments[:1])

    def _set(self, conn: sa.Connection, row: sa.Row[Any], next_at: datetime, *, look_at: datetime | None = None) -> None:
        mine = sa.and_(schedule_clocks.c.schedule == row.schedule, schedule_clocks.c.leaf == row.leaf)
        conn.execute(sa.update(schedule_clocks).where(mine).values(next_at=next_at, look_at=look_at or next_at))


def restart_periods(conn: sa.Connection, store: Store, schedule: Schedule) -> None:
    """Let the periods of a schedule that launches begin anew."""
    for number, leaf in enumerate(schedule.trigger.leaves()):
        if isinstance(leaf, Every):
            next_at = _after(leaf, store.clock())
            mine = sa.and_(schedule_clocks.c.schedule == schedule.name, schedule_clocks.c.leaf == number)
            conn.execute(sa.update(schedule_clocks).where(mine).values(next_at=next_at, look_at=next_at))


def _due_moments(leaf: Leaf, next_at: datetime, now: datetime) -> list[datetime]:
    moments = [next_at]
    while isinstance(leaf, Cron) and len(moments) < MANY:
        following = next_tick(leaf.expression, leaf.tz, moments[-1])
        if following > now:
            break
        moments.append(following)
    return moments


def _after(leaf: Leaf, now: datetime) -> datetime:
    if isinstance(leaf, Cron):
        return next_tick(leaf.expression, leaf.tz, now)
    assert isinstance(leaf, Every), "only these have clocks"
    assert isinstance(leaf.period, timedelta), "checked when it was made"
    return now + leaf.period


def _event(row: sa.Row[Any], moments: list[datetime]) -> Event:
    key = clock_key(row.schedule, row.leaf)
    source = f"tick:{row.generation}:{row.leaf}:{moments[-1].isoformat()}"
    return Event(key, moments[-1], detail={"ticks": _texts(moments[-100:])}, source_id=source)


def _texts(moments: list[datetime]) -> list[str]:
    return [moment.isoformat() for moment in moments]
