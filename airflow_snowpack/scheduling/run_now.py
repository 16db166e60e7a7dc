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
from airflow_snowpack.scheduling.events import number_in_turn
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.pending import PendingJob, PendingState, Reason, pending_from, reasons_to_json
from airflow_snowpack.scheduling.reservation import reserve_run, run_id_of
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.schedules import Schedules, audit_subject
from airflow_snowpack.store import new_id, storable, write_audit
from airflow_snowpack.store.schedule_tables import pending_jobs, schedules


def run_now(of: Schedules, name: str) -> PendingJob:
    """Reserve a run of its own and hand it to the launcher.

    :param of: the schedules, with the actor who asks.
    :raises ScheduleNotFound: there is none of this name.
    :raises ScheduleNotReadable: nobody knows with what it would run.
    """
    pending_id = new_id()  # before the first try, so that a repeat whose first try went through starts nothing twice
    return of.store.transact(lambda conn: _run_now(conn, of, name, pending_id))


def _run_now(conn: sa.Connection, of: Schedules, name: str, pending_id: str) -> PendingJob:
    mine = sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id)
    if (before := conn.execute(mine).first()) is not None:
        return pending_from(before)
    number_in_turn(conn)  # first of all, as in every change of a schedule
    row = conn.execute(sa.select(schedules).where(schedules.c.name == name).with_for_update()).first()
    if row is None:
        raise ScheduleNotFound(name)
    schedule, now = _read(row), of.store.clock()
    who = storable(of.actor.name) if of.actor is not None else "somebody"
    run_id = run_id_of(name, pending_id, now)
    values = {
        "pending_id": pending_id,
        "schedule": name,
        "generation": row.generation,
        "dag_id": schedule.dag_id,
        "state": PendingState.LAUNCH.value,
        "priority": schedule.priority,
        "created_at": now,
        "triggered_at": now,
        "counted_to": 0,
        "progress": {},
        "reasons": reasons_to_json((Reason("asked", f"{who} asked for it", met=True),)),
        "run_id": run_id,
    }
    conn.execute(sa.insert(pending_jobs).values(**values))
    told = {"schedule": name, "pending_id": pending_id, "asked_by": who, "event_count": 0, "events": []}
    reserve_run(conn, of.store, schedule, pending_id, run_id, told)
    note(conn, of.store, name, "asked_for", pending_id, by=who, run_id=run_id)
    if of.actor is not None:
        write_audit(conn, of.store, of.actor, "run_schedule", audit_subject(name), dag_id=schedule.dag_id, run_id=run_id)
    return pending_from(conn.execute(mine).one())


def _read(row: sa.Row[Any]) -> Schedule:
    try:
        return Schedule.from_json(row.definition)
    except InvalidSchedule as error:
        raise ScheduleNotReadable(row.name, str(error)) from error
