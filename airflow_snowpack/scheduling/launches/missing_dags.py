"""Missing DAGs that schedules start: recorded for explanations, and much later the reason to delete a schedule.

    MissingDags(store, airflow).step()                              # in each round of a scheduler: a few DAGs
    delete_without_dag(schedules, older_than=timedelta(days=180))    # `airflow snowpack db prune`

The invariant: a file that is temporarily missing, or an Airflow that has lost its DAGs, deletes no schedule. A schedule is
deleted only if its DAG has been missing for at least :data:`KEEP`, and still was at the last check, less than a day ago.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.scheduling.airflow_port import AirflowPort
from airflow_snowpack.scheduling.retention import KEEP
from airflow_snowpack.scheduling.schedules import ScheduleOrigin, Schedules
from airflow_snowpack.scheduling.sources.source import ProblemKind, SourceProblem, dag_source, read_problems, record_problems
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import schedules as schedule_rows, source_problems

log = logging.getLogger(__name__)

CHECK_EVERY = timedelta(minutes=55)
DAGS_PER_ROUND = 5
"""Each costs a request to Airflow, for which the runs of the round wait."""
CHECKED_WITHIN = timedelta(days=1)


class MissingDags:
    """Checks the DAGs that schedules start, a few in each round, and all of them once in :data:`CHECK_EVERY`."""

    def __init__(self, store: Store, airflow: AirflowPort) -> None:
        self._store = store
        self._airflow = airflow
        self._after = ""
        self._next_at: datetime | None = None

    def step(self) -> None:
        now = self._store.clock()
        if self._next_at is not None and now < self._next_at:
            return
        later = sa.select(schedule_rows.c.dag_id).where(schedule_rows.c.dag_id > self._after).distinct()
        dag_ids = self._store.scalars(later.order_by(schedule_rows.c.dag_id).limit(DAGS_PER_ROUND))
        try:
            note_missing(self._store, self._airflow, dag_ids)
        except SnowpackError as problem:
            log.warning("missing_dags_not_known: the DAGs of schedules are checked again later: %s", problem)
            dag_ids = ()
        is_last = len(dag_ids) < DAGS_PER_ROUND
        self._after = "" if is_last else dag_ids[-1]
        self._next_at = now + CHECK_EVERY if is_last else None


def note_missing(store: Store, airflow: AirflowPort, dag_ids: Collection[str]) -> None:
    """Record which of these DAGs do not exist; explanations of schedules report them."""
    missing = airflow.missing_dags(dag_ids) if dag_ids else {}
    gone = SourceProblem.found(ProblemKind.MISSING, store.clock())
    found = {dag_source(dag_id): gone if is_missing else None for dag_id, is_missing in missing.items()}
    if found:
        record_problems(store, found, store.read(lambda conn: read_problems(conn, found)))


def delete_without_dag(schedules: Schedules, *, older_than: timedelta, dry_run: bool = False) -> list[str]:
    """Delete the schedules whose DAG has been missing for this long, and return their names; registered runs stay.

    :param older_than: at least :data:`KEEP`, whatever is requested.
    """
    store, now, problem = schedules.store, schedules.store.clock(), source_problems.c
    gone = sa.select(schedule_rows.c.name).join(
        source_problems, problem.key == sa.literal(dag_source("")) + schedule_rows.c.dag_id
    )
    gone = gone.where(problem.kind == ProblemKind.MISSING.value, problem.began_at < now - max(older_than, KEEP))
    gone = gone.where(problem.confirmed_at > now - CHECKED_WITHIN, schedule_rows.c.origin != ScheduleOrigin.RUN.value)
    names = list(store.scalars(gone.order_by(schedule_rows.c.name)))
    for name in () if dry_run else names:
        schedules.delete(name)
    return names
