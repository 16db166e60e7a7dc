"""The scheduler's parts as this installation wants them: its poller, and its declared schedules.

with open_poller(store, settings, Broker(catalog_hook.config.load)).worker(sign): ...
deploy(store, settings, dags_folder, by="dispatcher")
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_snowpack.hooks.dag_runs import AirflowDagRuns
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.scheduling import Poller, Schedules, SyncReport
    from airflow_snowpack.settings import Settings
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)


def open_poller(store: Store, settings: Settings, broker: Broker) -> Poller:
    """The poller of the tables that this installation's schedules listen to."""
    from airflow_snowpack.scheduling import Poller

    return Poller(store, catalog_name=settings.catalog_name, broker=broker, every=settings.table_poll)


def runs_for_a_task(settings: Settings, airflow_conn_id: str | None = None) -> AirflowDagRuns:
    """How a task sees Airflow's runs and starts some: through the Task SDK, and pools through the REST API, where one is named.

    :param airflow_conn_id: of the REST API; ``None`` for the installation's.
    """
    from airflow_snowpack.hooks.api_client import AirflowRest
    from airflow_snowpack.hooks.rest_dag_runs import RestDagRuns
    from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns

    conn_id = airflow_conn_id or settings.airflow_conn_id
    return TaskDagRuns(None if conn_id is None else RestDagRuns(AirflowRest.from_connection(conn_id)))


def deploy(
    store: Store, settings: Settings, root: Path, *, gone_dags: Collection[str] = (), by: str | None = None
) -> SyncReport | None:
    """Bring the schedules of the store in line with the files that declare them.

    :param root: the folder that ``[snowpack] schedule_files`` is relative to.
    :param gone_dags: the DAGs that Airflow knows to be gone; their schedules go with them.
    :returns: what was changed; ``None`` when the files could not be used, which is logged, or when somebody else was at it. No
        files at all are taken for a folder that is not there yet, as long as there are schedules of files.
    """
    from airflow_snowpack.scheduling import (
        InvalidSchedule,
        KeptByRun,
        ScheduleExists,
        ScheduleNotFound,
        Schedules,
        collect,
        sync,
    )

    try:
        declared = collect(root, settings.schedule_files)
        schedules = Schedules(store, catalog=settings.catalog_name)
        if not declared and (left := _of_files(schedules)):
            log.error(
                "schedules_not_deployed: no file below %s declares a schedule, and there are %s that files have declared; they "
                "stay. If they are to go, run `airflow snowpack schedules sync`.", root, len(left),
            )  # fmt: skip
            return None
        report = sync(schedules, declared, update=settings.update_schedules, gone_dags=gone_dags, by=by)
    except InvalidSchedule as problem:
        log.error("schedules_not_deployed: the schedules stay as they are: %s", problem)
        return None
    except (KeptByRun, ScheduleExists, ScheduleNotFound):
        log.info("Another process deploys the schedules, or registers runs, just now")
        return None
    if report.created or report.updated or report.deleted:
        log.info("Schedules created: %s, updated: %s, deleted: %s", report.created, report.updated, report.deleted)
    if report.left:
        log.info("Schedules whose files differ and were left as they are (update_schedules is off): %s", report.left)
    return report


def _of_files(schedules: Schedules) -> list[str]:
    from airflow_snowpack.scheduling import Origin

    return [one.name for one in schedules.list(limit=1_000_000) if one.origin in (Origin.FILE, Origin.EDITED)]


def dags_folder() -> Path:
    """Where this installation has its DAG files."""
    from airflow.configuration import conf

    return Path(conf.get("core", "dags_folder"))
