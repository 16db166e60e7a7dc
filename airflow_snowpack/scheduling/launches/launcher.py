"""The launcher: starts the DAG runs that an evaluation reserved.

    Launcher(store, starter, "dispatcher-1").step()

The invariant: **each run is started exactly once.** A launch is claimed under a lease and a fence, and the run's id derives from
the pending run, so a start whose answer was lost is repeated and finds the run. A run that cannot be started now (its DAG is
paused, missing, does not parse) is retried with back-off, with the reason on record, and never dropped. Until a launcher claims
it, further events of its schedule join it, so a paused DAG gets one run for all of them.

The second invariant: **no event joins a run that may already exist.** A claim closes the launch and writes the run's conf with
its events. Only a start that certainly created no run opens it again, and then takes in the events that began another pending run
meanwhile. After a lost answer or a lost lease it stays closed, and further events begin a new pending run.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.errors import error_text
from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling.airflow_port import Launch, NotStarted, Starter
from airflow_snowpack.scheduling.counts import launched
from airflow_snowpack.scheduling.events.clocks import TOLERANCE
from airflow_snowpack.scheduling.events.counting import count_events, listed_events, missing_inputs
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.launches.active_runs import release_slots
from airflow_snowpack.scheduling.pending_runs.model import PendingState, RoundReport, is_open, move
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.schedule import readable
from airflow_snowpack.store import Leases, Store, new_id, storable_error
from airflow_snowpack.store.counters import add_counts
from airflow_snowpack.store.tables.schedules import (
    launches,
    pending_events,
    pending_jobs,
    schedule_clocks,
    schedule_runs,
    schedules,
)
from airflow_snowpack.timed_calls import NoAnswer, TimedCalls

log = logging.getLogger(__name__)

LEASES = Leases(launches, key=launches.c.pending_id, order=[launches.c.enqueued_at])
LEASE = timedelta(minutes=2)
START_LIMIT = timedelta(seconds=60)
"""How long a start may take; less than the lease."""
CONCURRENT_STARTS = 16
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)


class Launcher:
    """Claims launches under its name and starts their runs.

    :param patience: how long one step waits for Airflow, with :data:`CONCURRENT_STARTS` at a time; a later step records starts
        that take longer. ``None``: each step starts runs one by one, and waits for each.
    """

    def __init__(self, store: Store, starter: Starter, name: str, patience: timedelta | None = None) -> None:
        self._store = store
        self._starter = starter
        self._name = name
        self._patience = patience
        self._concurrent = 1 if patience is None else CONCURRENT_STARTS
        self._calls = TimedCalls[str, NotStarted | None](lambda _: "Airflow", limit=START_LIMIT, concurrent=self._concurrent)
        self._starting: dict[str, tuple[sa.Row[Any], Launch]] = {}
        """The launches that are being started, by attempt."""

    def step(self, limit: int = 50) -> RoundReport:
        """Start at most ``limit`` of the due launches."""
        self._reclaim()
        report, begun = RoundReport(), 0
        while True:
            claimed = self._claim_some(min(self._concurrent - len(self._starting), limit - begun))
            begun += claimed
            if not self._starting:
                return report
            report += self._record_started()
            if self._starting:  # the patience is over
                return report

    def _claim_some(self, number: int) -> int:
        """Claim up to ``number`` launches, and return how many were claimed."""
        for claims in range(number):
            claimed = self._store.transact(self._claim)
            if claimed is None:
                return claims
            self._starting[claimed[0].attempt_id] = claimed
        return max(0, number)

    def _record_started(self) -> RoundReport:
        """Wait for Airflow, and record which runs it started."""
        launched, waiting = [], []
        calls = {attempt_id: partial(self._starter.start, launch) for attempt_id, (_, launch) in self._starting.items()}
        for attempt_id, result in self._calls.run(calls, patience=self._patience):
            row, launch = self._starting.pop(attempt_id)
            if result is None:
                self._finish(row)
                launched.append(row.run_id)
            else:
                self._give_back(row, result if isinstance(result, NotStarted) else _failed(launch, result))
                waiting.append(row.run_id)
        return RoundReport(launched=tuple(launched), waiting=tuple(waiting))

    def _claim(self, conn: sa.Connection) -> tuple[sa.Row[Any], Launch] | None:
        """Claim the next launch. Return its row as it was before it was closed for events, and what to start."""
        now = self._store.clock()
        values = LEASES.claim_values(self._name, new_id(), now, now + LEASE)
        while (claimed := conn.execute(LEASES.claim_next, values).first()) is not None:
            row = conn.execute(sa.select(launches).where(launches.c.pending_id == claimed.pending_id)).one()
            if self._is_wanted(conn, row.pending_id):
                return row, Launch(row.pending_id, row.schedule, row.dag_id, row.run_id, close_launch(conn, row, now))
            _withdraw(conn, launches.c.pending_id == row.pending_id)  # its schedule was changed or deleted since
        return None

    def _is_wanted(self, conn: sa.Connection, pending_id: str, *, locked: bool = False) -> bool:
        state = sa.select(pending_jobs.c.state).where(pending_jobs.c.pending_id == pending_id)
        return conn.execute(state.with_for_update() if locked else state).scalar() == PendingState.LAUNCH.value

    def _finish(self, launch: sa.Row[Any]) -> None:
        def write(conn: sa.Connection) -> bool:
            # The pending run first, then its launch, as in a change of the schedule: otherwise the two could deadlock.
            wanted = self._is_wanted(conn, launch.pending_id, locked=True)
            if not conn.execute(LEASES.release, {"b_key": launch.pending_id, "b_attempt": launch.attempt_id}).rowcount:
                return False
            now = self._store.clock()
            run = sa.and_(schedule_runs.c.dag_id == launch.dag_id, schedule_runs.c.run_id == launch.run_id)
            conn.execute(sa.update(schedule_runs).where(run).values(launched_at=now))
            if wanted:
                move(conn, launch.pending_id, PendingState.LAUNCH, PendingState.LAUNCHED, ended_at=now)
            what = "launched" if wanted else "launched_while_changed"
            note(conn, self._store, launch.schedule, what, launch.pending_id, run_id=launch.run_id)
            add_counts(conn, launched(now - launch.enqueued_at))
            return True

        if not self._store.transact(write):
            # The launcher that has claimed it since starts the same run, and finds it.
            log.warning("writeback_stale_attempt: launch %s, attempt %s", launch.run_id, launch.attempt_id)

    def _give_back(self, launch: sa.Row[Any], problem: NotStarted) -> None:
        pause = backoff(FIRST_PAUSE, launch.attempt_count - 1, LONGEST_PAUSE)
        visible_at, why = self._store.clock() + pause, storable_error(problem.why)

        def write(conn: sa.Connection) -> None:
            wanted = self._is_wanted(conn, launch.pending_id, locked=True)  # first, as in :meth:`_finish`
            if not LEASES.give_back(conn, launch.pending_id, launch.attempt_id, visible_at):
                return
            conn.execute(sa.update(launches).where(launches.c.pending_id == launch.pending_id).values(problem=why))
            if launch.absorbs and wanted and not problem.may_exist:
                reopen_launch(conn, self._store, launch)
            if launch.attempt_count == 1:
                note(conn, self._store, launch.schedule, "launch_waits", launch.pending_id, because=why)

        self._store.transact(write)

    def _reclaim(self) -> None:
        """Requeue the launches of processes that died, and those that wait longer than any back-off."""

        def write(conn: sa.Connection) -> None:
            now: datetime = self._store.clock()
            for expired in LEASES.expired(conn, now):
                LEASES.give_back(conn, expired.key, expired.attempt_id, now)
            set_back = launches.c.visible_at > now + LONGEST_PAUSE + TOLERANCE  # the clock leapt, and was set back
            conn.execute(sa.update(launches).where(set_back).values(visible_at=now))

        self._store.transact(write)


def _failed(launch: Launch, error: Exception) -> NotStarted:
    """Return why a run could not be started, whatever Airflow's client raised: it waits without blocking others."""
    if isinstance(error, NoAnswer):
        return NotStarted(f"Airflow has not answered within {duration(START_LIMIT)}", may_exist=True)
    log.warning("launch_failed: %s", launch.run_id, exc_info=error)
    return NotStarted(f"{type(error).__name__}: {error_text(error)}", may_exist=True)


def close_launch(conn: sa.Connection, row: sa.Row[Any], now: datetime) -> Mapping[str, Any]:
    """Close a launch that this transaction has claimed for further events, and return the run's conf with its events."""
    conf: Mapping[str, Any] = row.conf
    if row.absorbs:
        why = conf["snowpack"] | listed_events(conn, [row.pending_id])[row.pending_id]
        if why["missing"] or _has_tick(conn, row.pending_id, row.schedule):
            why |= _still_missing(conn, row.pending_id, now)
        conf = {**conf, "snowpack": why}
        conn.execute(sa.update(launches).where(launches.c.pending_id == row.pending_id).values(absorbs=False, conf=conf))
    return conf


def _has_tick(conn: sa.Connection, pending_id: str, schedule: str) -> bool:
    """Return whether a tick of its schedule's clock joined it, which may be a deadline that passed."""
    of_clock = sa.and_(schedule_clocks.c.schedule == schedule, schedule_clocks.c.leaf == pending_events.c.leaf)
    ticks = sa.select(pending_events.c.event_id).where(pending_events.c.pending_id == pending_id, sa.exists().where(of_clock))
    return conn.execute(ticks.limit(1)).first() is not None


def _still_missing(conn: sa.Connection, pending_id: str, now: datetime) -> dict[str, Any]:
    """Return for the run's conf which inputs that were missing at its deadline have not arrived since."""
    job = conn.execute(sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id)).one()
    of_job = sa.and_(schedules.c.name == job.schedule, schedules.c.generation == job.generation)
    schedule = readable(conn.execute(sa.select(schedules.c.definition).where(of_job)).scalar())
    if schedule is None:  # written by a newer version, or being changed: only the events are known
        return {}
    return {"missing": missing_inputs(schedule, count_events(conn, job, schedule).progress, now)}


def reopen_launch(conn: sa.Connection, store: Store, launch: sa.Row[Any]) -> None:
    """Reopen a launch, whose pending run the caller has locked, and move the events of later pending runs to it."""
    conn.execute(sa.update(launches).where(launches.c.pending_id == launch.pending_id).values(absorbs=True))
    for job in _later_jobs(conn, launch):
        # A launch that was claimed since, or is locked by another transaction, starts a separate run.
        open_one = sa.and_(launches.c.pending_id == job.pending_id, launches.c.absorbs, launches.c.claimed_at.is_(None))
        free = sa.select(launches.c.pending_id).where(open_one).with_for_update(skip_locked=True)
        if job.state == PendingState.LAUNCH.value and not _withdraw(conn, launches.c.pending_id.in_(free)):
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


def _later_jobs(conn: sa.Connection, launch: sa.Row[Any]) -> Sequence[sa.Row[Any]]:
    """Lock and return the schedule's open pending run, and those whose launch absorbs events.

    Runs locked by another transaction are skipped: it may wait for this launch, whose row is already locked. The next attempt
    that reopens the launch finds them again.
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


def _withdraw(conn: sa.Connection, which: sa.ColumnElement[bool]) -> bool:
    """Delete a launch and its reservation, if it exists."""
    gone = conn.execute(sa.delete(launches).where(which).returning(launches.c.dag_id, launches.c.run_id)).first()
    if gone is None:
        return False
    run = sa.and_(schedule_runs.c.dag_id == gone.dag_id, schedule_runs.c.run_id == gone.run_id)
    conn.execute(sa.delete(schedule_runs).where(run, schedule_runs.c.launched_at.is_(None)))
    release_slots(conn, gone.dag_id, gone.run_id)
    return True
