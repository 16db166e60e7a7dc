"""Lets a launch that waits absorb further events of its schedule, so that a paused DAG gets one run for all of them.

    conf = close_launch(conn, row, now)     # in the transaction of the claim
    reopen_launch(conn, store, launch)      # in the transaction that releases the claim

The invariant: **no event joins a run that may exist already.** A claim closes the launch and writes the run's conf with the
events that it has then. Only a start that certainly created no run opens it again. After a lost answer or a lost lease it stays
closed, and further events begin a new pending run.

An event that arrives during a claim begins a pending run of its own. When the launch opens again, the events of that one join
it too, or a DAG that is paused for long would collect several runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import Launch
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.events.counting import count_events, fired_by, listed_events
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.launches.slot_reservations import release_slots
from airflow_snowpack.scheduling.pending_runs.model import PendingState, is_open
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import (
    launches,
    pending_events,
    pending_jobs,
    schedule_clocks,
    schedule_runs,
    schedules,
)


def close_launch(conn: sa.Connection, row: sa.Row[Any], now: datetime) -> Mapping[str, Any]:
    """Close the launch for further events, and write the conf with those that it has.

    :param row: the row of the launch, which this transaction has claimed.
    :returns: the run's conf.
    """
    if not row.absorbs:
        conf: Mapping[str, Any] = row.conf
        return conf
    why = row.conf["snowpack"]
    may_miss = why["missing"] or _has_tick(conn, row.pending_id, row.schedule)
    why = why | (_still_missing(conn, row.pending_id, now) if may_miss else listed_events(conn, row.pending_id))
    conf = {**row.conf, "snowpack": why}
    conn.execute(sa.update(launches).where(launches.c.pending_id == row.pending_id).values(absorbs=False, conf=conf))
    return conf


def _has_tick(conn: sa.Connection, pending_id: str, schedule: str) -> bool:
    """Return whether a tick of its schedule's clock joined it: that may be a deadline that passed."""
    of_clock = sa.and_(schedule_clocks.c.schedule == schedule, schedule_clocks.c.leaf == pending_events.c.leaf)
    ticks = sa.select(pending_events.c.event_id).where(pending_events.c.pending_id == pending_id, sa.exists().where(of_clock))
    return conn.execute(ticks.limit(1)).first() is not None


def _still_missing(conn: sa.Connection, pending_id: str, now: datetime) -> dict[str, Any]:
    """Return the events for the run's conf, without the inputs that were missing at its deadline and have arrived since."""
    job = conn.execute(sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id)).one()
    of_job = sa.and_(schedules.c.name == job.schedule, schedules.c.generation == job.generation)
    try:
        schedule = Schedule.from_json(conn.execute(sa.select(schedules.c.definition).where(of_job)).scalar())
    except InvalidSchedule:  # a newer version has written it, or it is being changed: only the events are known
        return listed_events(conn, pending_id)
    return fired_by(conn, pending_id, schedule, count_events(conn, job, schedule).progress, now)


def reopen_launch(conn: sa.Connection, store: Store, launch: Launch) -> None:
    """Open the launch for events again, beginning with those of the schedule's later pending runs.

    :param launch: the caller has locked its pending run.
    """
    conn.execute(sa.update(launches).where(launches.c.pending_id == launch.pending_id).values(absorbs=True))
    for job in _later_jobs(conn, launch):
        if job.state == PendingState.LAUNCH.value and not _withdraw(conn, job):
            continue
        conn.execute(
            sa.update(pending_events).where(pending_events.c.pending_id == job.pending_id).values(pending_id=launch.pending_id)
        )
        why = f"its events were added to run {launch.run_id}, which waits for its DAG"
        ended = {"state": PendingState.DISCARDED.value, "ended_at": store.clock(), "ended_because": why}
        mine = pending_jobs.c.pending_id == job.pending_id
        conn.execute(sa.update(pending_jobs).where(mine).values(**ended, next_check_at=None, waits_for=None))
        note(conn, store, job.schedule, "absorbed", job.pending_id, because=why)
        if job.waits_for is not None:
            wake_next(conn, [job.waits_for], store.clock(), skip_locked=True)


def _later_jobs(conn: sa.Connection, launch: Launch) -> Sequence[sa.Row[Any]]:
    """Lock and return the open pending run of the schedule, and those whose launch absorbs events.

    A run that another transaction has locked is left out: that one may wait for this launch, whose row is locked already. The
    next attempt that reopens the launch finds the run again.
    """
    generation = sa.select(pending_jobs.c.generation).where(pending_jobs.c.pending_id == launch.pending_id).scalar_subquery()
    mine = sa.and_(pending_jobs.c.schedule == launch.schedule, pending_jobs.c.generation == generation)
    others = sa.select(launches.c.pending_id).where(
        launches.c.schedule == launch.schedule,
        launches.c.pending_id != launch.pending_id,
        launches.c.absorbs,
        launches.c.claimed_at.is_(None),
    )
    open_one = conn.execute(sa.select(pending_jobs).where(mine, is_open).with_for_update(skip_locked=True)).all()
    sent = sa.select(pending_jobs).where(mine, pending_jobs.c.pending_id.in_(others)).order_by(pending_jobs.c.created_at)
    return [*open_one, *conn.execute(sent.with_for_update(skip_locked=True)).all()]


def _withdraw(conn: sa.Connection, job: sa.Row[Any]) -> bool:
    """Withdraw the launch of a pending run and its reservation.

    :returns: ``False`` when a launcher has claimed the launch meanwhile, or another transaction has locked it.
    """
    mine = sa.and_(launches.c.pending_id == job.pending_id, launches.c.absorbs, launches.c.claimed_at.is_(None))
    free = sa.select(launches.c.pending_id).where(mine).with_for_update(skip_locked=True)
    withdrawn = sa.delete(launches).where(launches.c.pending_id.in_(free))
    gone = conn.execute(withdrawn.returning(launches.c.dag_id, launches.c.run_id)).first()
    if gone is None:
        return False
    run = sa.and_(schedule_runs.c.dag_id == gone.dag_id, schedule_runs.c.run_id == gone.run_id)
    conn.execute(sa.delete(schedule_runs).where(run, schedule_runs.c.launched_at.is_(None)))
    release_slots(conn, gone.dag_id, gone.run_id)
    return True
