"""The clocks of schedules, which turn cron ticks and periods into events; and recovery from a host clock that was set back.

    Clocks(store).step()
    recover_from_set_back(store)     # in each round, before the sign of life

The invariant: a tick and the time of the next one are written in one transaction, so that no tick is lost or repeated, even if
the host's clock is set back. A tick's age shows whether schedulers missed it; the schedule's policy decides what happens to
missed ticks, and its history has them in any case.

If the last sign of life of a scheduler is in the future, the host's clock was set back. After a leap of two days and back, each
wait, period and pause that was computed meanwhile would end two days late. The second invariant: **once the clock is right again,
nothing waits longer than it would have without the leap.** Deviations below :data:`TOLERANCE` are ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.events.event_log import AHEAD, MATCHED_TO, Event, last_number, number_in_turn, publish
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.pending_runs.gated_runs import GateState
from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingState, is_open
from airflow_snowpack.scheduling.schedule import Missed, Schedule, readable
from airflow_snowpack.scheduling.triggers.trigger import Clock, Leaf, clock_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schema import signs_of_life
from airflow_snowpack.store.signs_of_life import Role, last_seen
from airflow_snowpack.store.tables.schedules import (
    dag_successes,
    events,
    gated_runs,
    launches,
    pending_events,
    pending_jobs,
    run_places,
    schedule_clocks,
    schedule_runs,
    schedule_triggers,
    schedules,
    source_problems,
    table_places,
)

log = logging.getLogger(__name__)

BATCH_SIZE = 1_000
LATE = timedelta(minutes=1)
"""A tick that is published later than this counts as missed."""
MAX_MISSED = 10_000
"""How many missed ticks are counted individually."""
LISTED_TICKS = 100
"""The most ticks that an event or a history entry lists."""
LAUNCH_RECHECK = timedelta(seconds=5)
"""How soon a clock checks again whether the run of its last tick was launched."""
TOLERANCE = timedelta(minutes=1)
"""Smaller differences between the clocks of two hosts are ignored."""

LAUNCHING = (launches.c.visible_at, schedule_runs.c.reserved_at, schedule_runs.c.launched_at)
PRESENT = (
    schedule_triggers.c.counts_from,
    dag_successes.c.ended_at,
    run_places.c.since,
    run_places.c.look_at,
    table_places.c.read_at,
    table_places.c.look_at,
    source_problems.c.confirmed_at,
    gated_runs.c.arrived_at,
    gated_runs.c.evaluated_at,
    gated_runs.c.seen_at,
    gated_runs.c.passed_at,
    signs_of_life.c.started_at,
    signs_of_life.c.seen_at,
)
"""Times of what has happened or is due; a time in the future is set to now."""


class Clocks:
    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self) -> int:
        """Publish the due ticks, and return the number of clocks that were due."""
        due = sa.select(schedule_clocks.c.schedule).where(schedule_clocks.c.look_at <= self._store.clock()).limit(1)
        return 0 if self._store.first(due) is None else self._store.transact(self._publish)

    def _publish(self, conn: sa.Connection) -> int:
        number_in_turn(conn)  # before any row is locked, as in every transaction that both locks rows and publishes
        now = self._store.clock()
        due = (
            sa.select(schedule_clocks, schedules.c.definition, schedules.c.generation)
            .join(schedules, schedules.c.name == schedule_clocks.c.schedule)
            .where(schedule_clocks.c.look_at <= now)
            .order_by(schedule_clocks.c.look_at)
            .limit(BATCH_SIZE)
            .with_for_update(of=schedule_clocks, skip_locked=True)
        )
        rows = conn.execute(due).all()
        ticks = [tick for row in rows if (tick := self._tick(conn, row, now)) is not None]
        publish(conn, self._store, ticks)
        return len(rows)

    def _tick(self, conn: sa.Connection, row: sa.Row[Any], now: datetime) -> Event | None:
        try:
            schedule = Schedule.from_json(row.definition)
            clock = schedule.trigger.leaves()[row.leaf].clock
            assert clock is not None, "only these have rows"
            moments, next_at = _due_moments(clock, row.next_at, now), clock.next_after(now)
        except Exception as error:  # a newer version's, or another package's fault: it waits without delaying others
            log.error("schedule_not_readable: %s: %s", row.schedule, error, exc_info=not isinstance(error, InvalidSchedule))
            _set_clock(conn, row, row.next_at, look_at=now + LATE)
            return None
        missed = [moment for moment in moments if now - moment > LATE]
        # Under every policy but NONE, missed deadlines are one run: its launch restarts their clock.
        if schedule.missed is Missed.ALL and not clock.is_deadline and (missed or len(moments) > 1):
            return self._publish_one(conn, row, clock, moments, missed, now)
        _set_clock(conn, row, next_at)
        if missed:
            self._note_missed(conn, row, schedule.missed, missed)
        if len(missed) == len(moments) and schedule.missed is Missed.NONE:
            return None
        return _event(row, clock, moments)

    def _publish_one(
        self, conn: sa.Connection, row: sa.Row[Any], clock: Clock, moments: list[datetime], missed: list[datetime], now: datetime
    ) -> Event | None:
        """Publish missed ticks one by one: the next one once the run of the previous one is launched."""
        if self._is_launching(conn, row):
            _set_clock(conn, row, row.next_at, look_at=now + LAUNCH_RECHECK)
            return None
        _set_clock(conn, row, moments[1] if len(moments) > 1 else clock.next_after(now))
        if moments[0] in missed:
            self._note_missed(conn, row, Missed.ALL, moments[:1])
        return _event(row, clock, moments[:1])

    def _is_launching(self, conn: sa.Connection, row: sa.Row[Any]) -> bool:
        """Return whether the previous tick is unmatched, or its run has not been launched yet.

        A pending run that is open for other events, such as data, delays no tick: it may need this very tick.
        """
        mine = sa.and_(pending_jobs.c.schedule == row.schedule, pending_jobs.c.generation == row.generation)
        launching = sa.exists().where(mine, pending_jobs.c.state == PendingState.LAUNCH.value)
        has_tick = sa.exists().where(
            mine,
            pending_jobs.c.state.in_(OPEN),
            pending_events.c.pending_id == pending_jobs.c.pending_id,
            pending_events.c.leaf == row.leaf,
        )
        unmatched = _unmatched(clock_key(row.schedule, row.leaf))
        return bool(conn.execute(sa.select(sa.or_(launching, has_tick, unmatched))).scalar_one())

    def _note_missed(self, conn: sa.Connection, row: sa.Row[Any], policy: Missed | str, missed: list[datetime]) -> None:
        ticks = _texts(missed[-LISTED_TICKS:])
        note(conn, self._store, row.schedule, "ticks_missed", policy=str(policy), count=len(missed), ticks=ticks)


def _set_clock(conn: sa.Connection, row: sa.Row[Any], next_at: datetime, *, look_at: datetime | None = None) -> None:
    mine = sa.and_(schedule_clocks.c.schedule == row.schedule, schedule_clocks.c.leaf == row.leaf)
    conn.execute(sa.update(schedule_clocks).where(mine).values(next_at=next_at, look_at=look_at or next_at))


def restart_periods(conn: sa.Connection, store: Store, schedule: Schedule, took: Collection[Leaf] = ()) -> None:
    """Restart the periods and deadlines of a schedule that launches with the events of the leaves in ``took``."""
    for number, leaf in enumerate(schedule.trigger.leaves()):
        if (clock := leaf.clock) is None or not clock.restarts:
            continue
        mine = sa.and_(schedule_clocks.c.schedule == schedule.name, schedule_clocks.c.leaf == number)
        row = conn.execute(sa.select(schedule_clocks).where(mine).with_for_update()).first()
        if row is None:
            continue  # a suspended schedule has no clocks
        # A period or deadline that has just ended, but whose tick is not matched yet, belongs to this launch and no longer
        # counts. The clock's row stays locked, so no tick is published that this does not see.
        if not clock.fixed or not (leaf in took or _has_unmatched(conn, row)):
            next_at = clock.next_after(max(row.next_at, store.clock()) if clock.fixed else store.clock())
            conn.execute(sa.update(schedule_clocks).where(mine).values(next_at=next_at, look_at=next_at))
        mine = sa.and_(schedule_triggers.c.schedule == schedule.name, schedule_triggers.c.leaf == number)
        conn.execute(sa.update(schedule_triggers).where(mine).values(counts_after=last_number(conn)))


def _has_unmatched(conn: sa.Connection, clock: sa.Row[Any]) -> bool:
    """Return whether an unmatched tick of a clock counts."""
    mine = sa.and_(schedule_triggers.c.schedule == clock.schedule, schedule_triggers.c.leaf == clock.leaf)
    counts_after = sa.select(schedule_triggers.c.counts_after).where(mine).scalar_subquery()
    return bool(
        conn.execute(sa.select(_unmatched(clock_key(clock.schedule, clock.leaf), events.c.id > counts_after))).scalar_one()
    )


def _unmatched(key: str, *also: sa.ColumnElement[bool]) -> sa.Exists:
    return sa.exists().where(events.c.key == key, events.c.id > MATCHED_TO, *also)


def _due_moments(clock: Clock, next_at: datetime, now: datetime) -> list[datetime]:
    moments = [next_at]
    while clock.fixed and len(moments) < MAX_MISSED and (following := clock.next_after(moments[-1])) <= now:
        moments.append(following)
    return moments


def _event(row: sa.Row[Any], clock: Clock, moments: list[datetime]) -> Event:
    # A fixed tick has one event, even if the host's clock is set back over it. Periods may then end twice at the same time.
    source = f"tick:{row.generation}:{row.leaf}:{moments[-1].isoformat()}" if clock.fixed else None
    return Event(
        clock_key(row.schedule, row.leaf), moments[-1], detail={"ticks": _texts(moments[-LISTED_TICKS:])}, source_id=source
    )


def _texts(moments: list[datetime]) -> list[str]:
    return [moment.isoformat() for moment in moments]


def recover_from_set_back(store: Store) -> bool:
    """Bring all times back if the last sign of life of a scheduler is in the future; return whether it did."""
    seen_at = store.read(lambda conn: last_seen(conn, Role.SCHEDULER))
    if seen_at is None or seen_at <= store.clock() + TOLERANCE:
        return False
    recovered = store.transact(lambda conn: _recover(conn, store))
    if recovered:
        log.warning(
            "clock_set_back: a scheduler has worked at %s, and it is %s now. Waits are computed again.", seen_at, store.clock()
        )
    return recovered


def _recover(conn: sa.Connection, store: Store) -> bool:
    number_in_turn(conn)
    now, seen_at = store.clock(), last_seen(conn, Role.SCHEDULER)
    if seen_at is None or seen_at <= now + TOLERANCE:
        return False  # another scheduler was faster
    _evaluate_again(conn, now)
    _bring_back(conn, LAUNCHING, now)
    clocks = sa.select(schedule_clocks, schedules.c.definition).where(schedule_clocks.c.next_at > now)
    clocks = clocks.join(schedules, schedules.c.name == schedule_clocks.c.schedule)
    in_order = (schedule_clocks.c.schedule, schedule_clocks.c.leaf)
    for row in conn.execute(clocks.order_by(*in_order).with_for_update(of=schedule_clocks)).all():
        _restart_clock(conn, row, now)
    _bring_back(conn, PRESENT, now)
    # Their ids would swallow the ticks of the days that were skipped; within the hour, no tick comes twice.
    ticks = sa.and_(events.c.key.startswith(clock_key("", 0).removesuffix(":0")), events.c.at > now + AHEAD)
    conn.execute(sa.update(events).where(ticks).values(source_id=None))
    _bring_back(conn, [events.c.at, events.c.recorded_at], now)
    return True


def _bring_back(conn: sa.Connection, columns: Iterable[sa.Column[Any]], now: datetime) -> None:
    for column in columns:
        conn.execute(sa.update(column.table).where(column > now).values({column.name: now}))


def _evaluate_again(conn: sa.Connection, now: datetime) -> None:
    """Make everything that waits due, and count its events again, because their sums contain the events' times."""
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)  # as in each transaction that locks several
    for row in conn.execute(sa.select(pending_jobs).where(is_open).order_by(*in_order).with_for_update()).all():
        again: dict[str, Any] = {"next_check_at": now, "waits_for": None, "reasons": [], "counted_to": 0, "progress": {}}
        if row.triggered_at is not None and row.triggered_at > now:
            again |= {"triggered_at": now, "expires_at": row.expires_at - (row.triggered_at - now)}
        conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id == row.pending_id).values(**again))
    waiting = gated_runs.c.state == GateState.WAITING.value
    conn.execute(sa.update(gated_runs).where(waiting, gated_runs.c.not_before > now).values(not_before=None, reasons=[]))


def _restart_clock(conn: sa.Connection, row: sa.Row[Any], now: datetime) -> None:
    if (schedule := readable(row.definition)) is None:
        return  # a newer version's, which a scheduler of that version recovers
    clock = schedule.trigger.leaves()[row.leaf].clock
    assert clock is not None, "only these have rows"
    latest = clock.next_after(now)
    # A launch may have moved a deadline to the next period.
    _set_clock(conn, row, min(row.next_at, clock.next_after(latest) if clock.is_deadline else latest))
