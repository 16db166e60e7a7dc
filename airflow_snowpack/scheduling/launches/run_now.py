"""Starting a schedule's DAG now, because somebody says so, whatever its trigger and its constraints say.

    job = run_now(Schedules(store, catalog="lake", actor=Actor("vera", "api")), "page_views_nightly")
    job.run_id

It is a launch like any other: reserved, started exactly once, repeated while Airflow does not take it, and on record with who
asked. What waits for its trigger or its constraints goes on waiting; a suspended schedule stays suspended.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidSchedule, ScheduleNotFound, ScheduleNotReadable
from airflow_snowpack.scheduling.events.clocks import restart_periods
from airflow_snowpack.scheduling.events.event_log import number_in_turn
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.launches.reservation import Wanted, reserve_run, run_id_of
from airflow_snowpack.scheduling.pending_runs.model import PendingRun, PendingState, Reason, pending_from, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedule_writer import audit_subject
from airflow_snowpack.scheduling.schedules import Schedules
from airflow_snowpack.store import Store, new_id, storable, write_audit
from airflow_snowpack.store.tables.schedules import pending_jobs, schedules


def run_now(of: Schedules, name: str) -> PendingRun:
    """Reserve a run of its own and hand it to the launcher.

    :param of: the schedules, with the actor who asks.
    :raises ScheduleNotFound: there is none of this name.
    :raises ScheduleNotReadable: nobody knows with what it would run.
    """
    pending_id = new_id()  # before the first try, so that a repeat whose first try went through starts nothing twice
    return of.store.transact(lambda conn: _run_now(conn, of, name, pending_id))


def _run_now(conn: sa.Connection, of: Schedules, name: str, pending_id: str) -> PendingRun:
    if (before := asked_before(conn, pending_id)) is not None:
        return before
    number_in_turn(conn)  # first of all, as in every change of a schedule
    row = conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()
    if row is None:
        raise ScheduleNotFound(name)
    schedule = _read(row)
    job = ask_for(conn, of.store, Wanted.by(schedule), pending_id, row.generation, None if of.actor is None else of.actor.name)
    restart_periods(conn, of.store, schedule)
    if of.actor is not None:
        write_audit(conn, of.store, of.actor, "run_schedule", audit_subject(name), dag_id=job.dag_id, run_id=job.run_id)
    return job


def ask_for(
    conn: sa.Connection, store: Store, wanted: Wanted, pending_id: str, generation: str, asked_by: str | None
) -> PendingRun:
    """Enter a run that goes to the launcher at once, because somebody asks for it.

    :param pending_id: drawn before the transaction's first try; its run's id is made from it.
    """
    now, who = store.clock(), storable(asked_by) if asked_by is not None else "somebody"
    run_id = run_id_of(wanted.name, pending_id, now)
    values = {
        "pending_id": pending_id,
        "schedule": wanted.name,
        "generation": generation,
        "dag_id": wanted.dag_id,
        "state": PendingState.LAUNCH.value,
        "priority": wanted.priority,
        "created_at": now,
        "triggered_at": now,
        "counted_to": 0,
        "progress": {},
        "reasons": reasons_to_json((Reason("asked", f"{who} asked for it", met=True),)),
        "run_id": run_id,
    }
    conn.execute(sa.insert(pending_jobs).values(**values))
    told = {"schedule": wanted.name, "pending_id": pending_id, "asked_by": who, "event_count": 0, "events": [], "missing": []}
    reserve_run(conn, store, wanted, pending_id, run_id, told)
    note(conn, store, wanted.name, "asked_for", pending_id, by=who, run_id=run_id)
    return pending_from(conn.execute(_mine(pending_id)).one())


def asked_before(conn: sa.Connection, pending_id: str) -> PendingRun | None:
    """What a try whose answer was lost has entered."""
    row = conn.execute(_mine(pending_id)).first()
    return None if row is None else pending_from(row)


def _mine(pending_id: str) -> sa.Select[Any]:
    return sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id)


def _read(row: sa.Row[Any]) -> Schedule:
    try:
        return Schedule.from_json(row.definition)
    except InvalidSchedule as error:
        raise ScheduleNotReadable(row.name, str(error)) from error
