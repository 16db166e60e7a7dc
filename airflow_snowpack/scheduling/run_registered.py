"""Starting a registered run now, with other values than usual where somebody says so.

    job = run_registered(RegisteredRuns(store, catalog="lake", actor=Actor("vera", "cli")), "features_daily", {"days": 30})
    job.run_id

It is a launch like any other: reserved, started exactly once, repeated while Airflow does not take it, and on record with who
asked. The values given come over the registered ones key by key; a value that is an object is replaced as a whole, so that what
a key holds is always what one of the two said. Being disabled is about the cron alone: whoever asks by hand gets his run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.preservation import Preservation
from airflow_snowpack.scheduling.events.event_log import number_in_turn
from airflow_snowpack.scheduling.launches.reservation import Wanted
from airflow_snowpack.scheduling.launches.run_now import ask_for, asked_before
from airflow_snowpack.scheduling.pending_runs.model import PendingRun
from airflow_snowpack.scheduling.registered_run import read_given
from airflow_snowpack.scheduling.registered_runs import RegisteredRuns, audit_subject
from airflow_snowpack.store import new_id, write_audit
from airflow_snowpack.store.tables.schedules import schedules


def run_registered(
    of: RegisteredRuns, name: str, conf: Mapping[str, Any] | None = None, preservation: Preservation | str | None = None
) -> PendingRun:
    """Reserve a run of its own and hand it to the launcher.

    :param of: the catalogue, with the actor who asks.
    :param conf: values for this run, over the registered ones.
    :param preservation: of this run's interim tables; ``None`` for what is registered. ``NONE`` beats a registered ``FULL``.
    :raises RunNotFound: there is none of this name.
    :raises InvalidRun: the conf or the preservation cannot be used.
    """
    given, asked = read_given(conf, preservation)
    pending_id = new_id()  # before the first try, so that a repeat whose first try went through starts nothing twice

    def start(conn: sa.Connection) -> PendingRun:
        if (before := asked_before(conn, pending_id)) is not None:
            return before
        number_in_turn(conn)
        run = of.held(conn, name).run
        wanted = Wanted(name, run.dag_id, run.conf_of_run(given, asked))
        generation = conn.execute(sa.select(schedules.c.generation).where(schedules.c.name == name)).scalar()
        asked_by = None if of.actor is None else of.actor.name
        job = ask_for(conn, of.store, wanted, pending_id, generation or pending_id, asked_by)
        if of.actor is not None:
            write_audit(conn, of.store, of.actor, "run_registered", audit_subject(name), dag_id=job.dag_id, run_id=job.run_id)
        return job

    return of.store.transact(start)
