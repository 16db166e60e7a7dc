"""What the scheduler needs of the installation: the poller, Airflow's runs, and the schedules that files declare.

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
    """Return the poller of the tables that schedules wait for."""
    from airflow_snowpack.scheduling import Poller

    return Poller(store, catalog_name=settings.catalog_name, broker=broker, every=settings.table_poll)


def runs_for_a_task(settings: Settings, airflow_conn_id: str | None = None) -> AirflowDagRuns:
    """Return Airflow's runs for a task: through the Task SDK, and pools through the REST API where it is configured.

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
    """Update the schedules in the store to match the files that declare them.

    :param root: the folder that ``[snowpack] schedule_files`` is relative to.
    :param gone_dags: DAGs that no longer exist; their schedules are deleted.
    :returns: the changes; ``None`` if the files are invalid, which is logged, or another process deploys them. If there are no
        files at all, but schedules from files, the folder is considered missing and nothing changes.
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
                "schedules_not_deployed: no file below %s declares a schedule, but the store has %s schedules from files, which "
                "are kept. Run `airflow snowpack schedules sync` to delete them.", root, len(left),
            )  # fmt: skip
            return None
        report = sync(schedules, declared, update=settings.update_schedules, gone_dags=gone_dags, by=by)
    except InvalidSchedule as problem:
        log.error("schedules_not_deployed: the schedules are unchanged: %s", problem)
        return None
    except (KeptByRun, ScheduleExists, ScheduleNotFound):
        log.info("Another process is deploying schedules or registering runs")
        return None
    if report.created or report.updated or report.deleted:
        log.info("Schedules created: %s, updated: %s, deleted: %s", report.created, report.updated, report.deleted)
    if report.left:
        log.info("Schedules that differ from their files and were not changed (update_schedules is off): %s", report.left)
    return report


def _of_files(schedules: Schedules) -> list[str]:
    from airflow_snowpack.scheduling import Origin

    return [one.name for one in schedules.list(limit=1_000_000) if one.origin in (Origin.FILE, Origin.EDITED)]


def dags_folder() -> Path:
    """Return the folder of the installation's DAG files."""
    from airflow.configuration import conf

    return Path(conf.get("core", "dags_folder"))
