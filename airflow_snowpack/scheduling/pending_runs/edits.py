"""Apply a change that does not concern when a schedule runs, such as of its conf or priority, to what waits for the schedule.

    apply_edit(conn, store, was, schedule)      # in the transaction that changes the schedule

The invariant: no event is discarded, and a launch that a process has claimed keeps the conf that it may have been started with.
"""

from __future__ import annotations

import sqlalchemy as sa

from airflow_snowpack.scheduling.launches.launcher import close_launch
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.scheduling.pending_runs.wait_queue import wake_next
from airflow_snowpack.scheduling.schedule import LaunchBacklog, Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import launches, pending_jobs


def apply_edit(conn: sa.Connection, store: Store, was: Schedule, schedule: Schedule) -> None:
    """Give the open pending run and the unclaimed launches of a schedule its new values.

    :param was: the schedule before the change, with the same trigger, constraints and DAG.
    """
    longer = schedule.timeout.period - was.timeout.period
    mine = sa.and_(pending_jobs.c.schedule == schedule.name, is_open)
    for run in conn.execute(sa.select(pending_jobs).where(mine).with_for_update()).all():
        values = {"priority": schedule.priority}
        if run.expires_at is not None:
            values["expires_at"] = run.expires_at + longer
            if run.next_check_at is not None:
                values["next_check_at"] = min(run.next_check_at, values["expires_at"])
        conn.execute(sa.update(pending_jobs).where(pending_jobs.c.pending_id == run.pending_id).values(**values))
        if run.waits_for is not None and run.priority != schedule.priority:
            wake_next(conn, [run.waits_for], store.clock(), skip_locked=True)
    _edit_launches(conn, store, was, schedule)


def _edit_launches(conn: sa.Connection, store: Store, was: Schedule, schedule: Schedule) -> None:
    mine = sa.and_(launches.c.schedule == schedule.name, launches.c.claimed_at.is_(None))
    for launch in conn.execute(sa.select(launches).where(mine).with_for_update()).all():
        conf = dict(launch.conf if schedule.backlog is LaunchBacklog.ONE else close_launch(conn, launch, store.clock()))
        why = conf.pop("snowpack")
        if conf == was.conf:  # a run that was requested with values of its own keeps them
            changed = {**schedule.conf, "snowpack": why}
            conn.execute(sa.update(launches).where(launches.c.pending_id == launch.pending_id).values(conf=changed))
