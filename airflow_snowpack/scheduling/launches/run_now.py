"""Starts a schedule's DAG now, on request, whatever its trigger and constraints require.

    pending = run_now(Schedules(store, catalog="lake", actor=Actor("vera", "api")), "page_views_nightly")
    pending = run_registered(RegisteredRuns(store, catalog="lake", actor=Actor("vera", "cli")), "features_daily", {"days": 30})
    pending.run_id

It is a launch like any other: reserved, started exactly once, repeated while Airflow refuses it, and recorded with the user who
requested it. A pending run continues to wait; a suspended schedule stays suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.preservation import Preservation
from airflow_snowpack.scheduling.errors import InvalidSchedule, ScheduleNotFound, ScheduleNotReadable
from airflow_snowpack.scheduling.events.clocks import restart_periods
from airflow_snowpack.scheduling.events.event_log import number_in_turn
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.launches.active_runs import Reservation, Wanted, reserve_runs, run_id_of
from airflow_snowpack.scheduling.pending_runs.model import PendingRun, PendingState, Reason, pending_from, reasons_to_json
from airflow_snowpack.scheduling.registered_runs import RegisteredRuns, read_given
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedules import ScheduleOrigin, Schedules, audit_subject
from airflow_snowpack.store import Actor, Store, new_id, write_audit
from airflow_snowpack.store.tables.schedules import pending_jobs, schedules


def run_now(of: Schedules, name: str) -> PendingRun:
    """Reserve a run of a schedule for the actor of the schedules, and pass it to the launcher.

    :raises ScheduleNotFound: there is no schedule with this name.
    :raises ScheduleNotReadable: this version cannot read its definition.
    :raises DagNotAllowed: the actor may not start its DAG.
    """

    def request(conn: sa.Connection, pending_id: str) -> PendingRun:
        row = conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()
        if row is None:
            raise ScheduleNotFound(name)
        of.starts.require(row.dag_id)
        try:
            schedule = Schedule.from_json(row.definition)
        except InvalidSchedule as error:
            raise ScheduleNotReadable(name, str(error)) from error
        pending = _enter(conn, of.store, schedule, pending_id, row.generation, of.actor)
        restart_periods(conn, of.store, schedule)
        detail = {"dag_id": pending.dag_id, "run_id": pending.run_id}
        write_audit(conn, of.store, of.actor, "run_schedule", audit_subject(name, row.origin), **detail)
        return pending

    return _once(of, request)


def run_registered(
    of: RegisteredRuns, name: str, conf: Mapping[str, Any] | None = None, preservation: Preservation | str | None = None
) -> PendingRun:
    """Reserve a run of a registered run and pass it to the launcher, even of a disabled one, which only stops its cron.

    :param conf: values for this run, which override the registered ones key by key. Objects are replaced as a whole.
    :param preservation: of this run's interim tables; ``None`` for the registered one. ``NONE`` overrides a registered ``FULL``.
    :raises RunNotFound: there is no registered run with this name.
    :raises InvalidRun: the conf or the preservation is invalid.
    :raises DagNotAllowed: the actor may not start its DAG.
    """
    given, asked = read_given(conf, preservation)

    def request(conn: sa.Connection, pending_id: str) -> PendingRun:
        stored, generation = of.locked(conn, name)
        of.starts.require(stored.dag_id)
        wanted = Wanted(name, stored.dag_id, stored.run.conf_of_run(given, asked))
        pending = _enter(conn, of.store, wanted, pending_id, generation, of.actor)
        detail = {"dag_id": pending.dag_id, "run_id": pending.run_id}
        write_audit(conn, of.store, of.actor, "run_registered", audit_subject(name, ScheduleOrigin.RUN), **detail)
        return pending

    return _once(of, request)


def _once(of: Schedules | RegisteredRuns, request: Callable[[sa.Connection, str], PendingRun]) -> PendingRun:
    """Make a request in one transaction; a repeat after a lost answer returns the result of the first try."""
    pending_id = new_id()  # before the first try

    def enter(conn: sa.Connection) -> PendingRun:
        before = conn.execute(sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id)).first()
        if before is not None:
            return pending_from(before)
        number_in_turn(conn)  # first of all, as in every change of a schedule
        return request(conn, pending_id)

    return of.starts.transact(of.store, enter)


def _enter(
    conn: sa.Connection, store: Store, wanted: Schedule | Wanted, pending_id: str, generation: str, actor: Actor | None
) -> PendingRun:
    """Insert a pending run that goes to the launcher at once."""
    now, by = store.clock(), "an unknown user" if actor is None else actor.name
    run_id = run_id_of(wanted.name, pending_id, now)
    named = {"pending_id": pending_id, "schedule": wanted.name, "generation": generation, "dag_id": wanted.dag_id}
    sent = {"state": PendingState.LAUNCH.value, "priority": wanted.priority, "created_at": now, "triggered_at": now}
    reasons = reasons_to_json((Reason("asked", f"requested by {by}", met=True),))
    values = {**named, **sent, "counted_to": 0, "progress": {}, "reasons": reasons, "run_id": run_id}
    row = conn.execute(sa.insert(pending_jobs).values(**values).returning(pending_jobs)).one()
    why = {"schedule": wanted.name, "pending_id": pending_id, "asked_by": by, "event_count": 0, "events": [], "missing": []}
    reserve_runs(conn, store, [Reservation(wanted, pending_id, run_id, why)])
    note(conn, store, wanted.name, "requested", pending_id, by=by, run_id=run_id)
    return pending_from(row)
