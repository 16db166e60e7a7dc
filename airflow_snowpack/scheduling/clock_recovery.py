"""Recovers from a clock that was set back: moments that were written before lie in the future, and runs would wait for them.

    recover_from_set_back(store)     # in each round, before the sign of life

The last sign of life of a scheduler shows that the clock was set back: it lies in the future. After a leap of two days and back,
each wait, period and pause that was computed meanwhile would end two days late. The invariant: **once the clock is right again,
nothing waits longer than it would have without the leap.** Constraints are evaluated again, and moments in the future become the
present one. A clock that is off by less than :data:`TOLERANCE` is ignored, since no two hosts agree exactly; it delays by no more
than that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.events.event_log import AHEAD, number_in_turn
from airflow_snowpack.scheduling.pending_runs.gated_runs import GateState
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.triggers.trigger import clock_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schema import signs_of_life
from airflow_snowpack.store.signs_of_life import Role, last_seen
from airflow_snowpack.store.tables.schedules import (
    dag_successes,
    events,
    gated_runs,
    launches,
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

TOLERANCE = timedelta(minutes=1)
"""Clocks of several hosts may differ by so much."""

LAUNCHING = (launches.c.visible_at, schedule_runs.c.reserved_at, schedule_runs.c.launched_at)
PRESENT = (
    schedule_triggers.c.counts_from,
    dag_successes.c.ended_at,
    run_places.c.since,
    run_places.c.look_at,
    table_places.c.read_at,
    table_places.c.look_at,
    source_problems.c.asked_at,
    gated_runs.c.arrived_at,
    gated_runs.c.looked_at,
    gated_runs.c.seen_at,
    gated_runs.c.passed_at,
    signs_of_life.c.started_at,
    signs_of_life.c.seen_at,
)
"""Moments of what has happened or is due; where they lie in the future, they become the present one."""


def recover_from_set_back(store: Store) -> bool:
    """Bring all moments back if the last sign of life of a scheduler lies in the future.

    :returns: whether it did.
    """
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
    # Their ids would swallow the ticks of the days that were leapt over; within the hour, a tick does not come twice.
    ticks = sa.and_(events.c.key.startswith(clock_key("", 0).removesuffix(":0")), events.c.at > now + AHEAD)
    conn.execute(sa.update(events).where(ticks).values(source_id=None))
    _bring_back(conn, [events.c.at, events.c.recorded_at], now)
    return True


def _bring_back(conn: sa.Connection, columns: Iterable[sa.Column[Any]], now: datetime) -> None:
    for column in columns:
        conn.execute(sa.update(column.table).where(column > now).values({column.name: now}))


def _evaluate_again(conn: sa.Connection, now: datetime) -> None:
    """Evaluate everything that waits, and count its events again, since their sums keep the times of the events."""
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)  # as in each transaction that locks several
    for row in conn.execute(sa.select(pending_jobs).where(is_open).order_by(*in_order).with_for_update()).all():
        again: dict[str, Any] = {"next_check_at": now, "waits_for": None, "reasons": [], "counted_to": 0, "progress": {}}
        if row.triggered_at is not None and row.triggered_at > now:
            again |= {"triggered_at": now, "expires_at": row.expires_at - (row.triggered_at - now)}
        conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id == row.pending_id).values(**again))
    waiting = gated_runs.c.state == GateState.WAITING.value
    conn.execute(sa.update(gated_runs).where(waiting, gated_runs.c.not_before > now).values(not_before=None, reasons=[]))


def _restart_clock(conn: sa.Connection, row: sa.Row[Any], now: datetime) -> None:
    try:
        clock = Schedule.from_json(row.definition).trigger.leaves()[row.leaf].clock
    except InvalidSchedule:  # of a newer version, which a scheduler of that version will have to recover
        return
    assert clock is not None, "only these have rows"
    latest = clock.next_after(now)
    # A launch may have moved a deadline to the period after this one.
    next_at = min(row.next_at, clock.next_after(latest) if clock.is_deadline else latest)
    mine = sa.and_(schedule_clocks.c.schedule == row.schedule, schedule_clocks.c.leaf == row.leaf)
    conn.execute(sa.update(schedule_clocks).where(mine).values(next_at=next_at, look_at=next_at))
