"""Services of an installation outside of Airflow's tasks, built from its connections and settings: the API, the collector of
interim tables, the scheduler's poller and its schedule files, and the signs of life of processes.

    app = build_app(partial(open_services, dag_states=DagStatesInTime()), auth, request_timeout())
    collector = open_collector(hook, TaskRunStates(), IcebergCatalogHook(), holder="collect")
    deploy(store, settings, dags_folder(), by="dispatcher")

The API opens its services when the server starts, and again for the next request if that failed: a server that starts while the
store is down recovers without a restart. A page or a probe neither fails nor hangs because Airflow's database does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, TimeoutError as TooSlow
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_snowpack.airflow_versions import TASKS_READ_DAG_RUNS, require
from airflow_snowpack.api.roles import DagState, DagStates, no_dag_states
from airflow_snowpack.connections.spark import known_iceberg
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.build_storage import BuildStorageHook
from airflow_snowpack.hooks.dag_runs import AirflowDagRuns, RestDagRuns
from airflow_snowpack.hooks.errors import OtherCatalog
from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook, reach_catalog, read_catalog_id
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.interim.collection.collector import Collector
from airflow_snowpack.interim.collection.model import RunStates
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.scheduling import (
    InvalidSchedule,
    KeptByRun,
    Poller,
    ScheduleExists,
    ScheduleNotFound,
    ScheduleOrigin,
    Schedules,
    SyncReport,
    collect,
    sync,
)
from airflow_snowpack.settings import InvalidSetting, Settings
from airflow_snowpack.store import Deadlines, Store
from airflow_snowpack.store.deadlines import REQUEST_TIMEOUT
from airflow_snowpack.store.signs_of_life import BEAT, Role, SignOfLife

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

    from airflow_snowpack.api.services import Services

log = logging.getLogger(__name__)

DAG_STATES_TIMEOUT = timedelta(seconds=1)
POLLER_PATIENCE = timedelta(seconds=5)


def sign_of_process(
    store: Store,
    role: Role,
    catalog: IcebergCatalogHook | None = None,
    *,
    period: timedelta | None = None,
    instance: str | None = None,
) -> SignOfLife:
    """Record a sign of life of this process and return it for later beats.

    :param catalog: recorded as well, for `airflow snowpack doctor` to compare; empty if its connection is not valid.
    :param period: the time between two signs; ``None`` for a process that runs all the time.
    :param instance: the name; ``None`` for host and process id.
    """
    detail = {} if catalog is None else catalog_facts(catalog)
    sign = SignOfLife(store, role, instance, period=period or BEAT, detail=detail)
    sign.beat()
    return sign


def catalog_facts(catalog: IcebergCatalogHook) -> dict[str, str]:
    """Return the identity and the warehouse of the catalog, without secrets."""
    try:
        return catalog.config.facts
    except SnowpackError:
        return {"catalog_id": "", "warehouse": ""}


def open_collector(
    hook: SnowpackHook,
    run_states: RunStates,
    catalog_hook: IcebergCatalogHook,
    *,
    holder: str | None = None,
    sign: SignOfLife | None = None,
) -> Collector:
    """Return the collector on the hook's store.

    :param holder: the collector's name, for people; ``None`` for this process.
    :param sign: its sign of life.
    """
    return Collector(hook.interim(), run_states, catalog_opener(catalog_hook), holder=holder, sign=sign)


def catalog_opener(catalog_hook: IcebergCatalogHook) -> Callable[[str], Catalog]:
    """Return a function that opens the installation's catalog by its name."""

    def open_catalog(name: str) -> Catalog:
        known = catalog_hook.settings.catalog_name
        if name != known:
            raise OtherCatalog(name, known)
        return catalog_hook.config.load()

    return open_catalog


def request_timeout() -> timedelta:
    """Return how long a request may take; the default if the setting is invalid, which :func:`open_services` reports."""
    try:
        return Settings.load().request_timeout
    except InvalidSetting:
        return REQUEST_TIMEOUT


def open_services(
    store_conn_id: str | None = None, catalog_conn_id: str | None = None, *, dag_states: DagStates | None = None
) -> Services:
    """Open the store, and describe the catalog, whose connection is read again each time that it is reached.

    :param store_conn_id, catalog_conn_id: ``None`` for the installation's.
    :param dag_states: returns the states of Airflow's DAGs; ``None`` if they are unknown.
    :raises SnowpackError: a setting or the store's connection cannot be used, or the store does not answer.
    """
    from airflow_snowpack.api.services import LOCK_WAIT, Services  # loads FastAPI

    settings = Settings.load()
    patience = Deadlines.within(settings.request_timeout)
    installation = SnowpackHook(store_conn_id, deadlines=patience, lock_wait=LOCK_WAIT, ends_orphans=False).installation
    sign = sign_of_process(installation.store, Role.API, IcebergCatalogHook(catalog_conn_id), period=settings.table_cache_refresh)
    return Services(
        installation,
        Inventory(
            installation.store,
            settings.catalog_name,
            partial(reach_catalog, catalog_conn_id),
            partial(read_catalog_id, catalog_conn_id),
        ),
        settings.action_order,
        settings.table_cache_refresh,
        BuildStorageHook().storage,
        sign=sign,
        dag_states=dag_states or no_dag_states,
        timeout=settings.request_timeout,
        iceberg=known_iceberg(settings),
    )


def dag_states(dag_ids: Collection[str]) -> Mapping[str, DagState]:
    """Return the state of each DAG; empty if Airflow's database cannot be read."""
    try:
        import sqlalchemy as sa
        from airflow.models.dag import DagModel
        from airflow.utils.session import create_session

        with create_session() as session:
            query = sa.select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids), ~DagModel.is_stale)
            found = {row.dag_id: DagState.PAUSED if row.is_paused else DagState.ACTIVE for row in session.execute(query)}
    except Exception as problem:  # noqa: BLE001 - Airflow may raise anything here
        log.info("The states of DAGs are unknown: %s", problem)
        return {}
    return {dag_id: found.get(dag_id, DagState.MISSING) for dag_id in dag_ids}


class DagStatesInTime:
    """Reads the states in a thread, one read at a time: pages and probes do not hang with Airflow's database.

    :param timeout: the longest wait of a call; while a read hangs, further calls return at once.
    """

    def __init__(self, read: DagStates = dag_states, timeout: timedelta = DAG_STATES_TIMEOUT) -> None:
        self._read = read
        self._timeout_s = timeout.total_seconds()
        self._reading: Future[Mapping[str, DagState]] | None = None

    def __call__(self, dag_ids: Collection[str]) -> Mapping[str, DagState]:
        if self._reading is not None and not self._reading.done():
            return {}
        reading: Future[Mapping[str, DagState]] = Future()
        self._reading = reading
        # A daemon thread does not keep the process alive while the database hangs.
        threading.Thread(target=self._answer, args=(reading, dag_ids), name="snowpack-dag-states", daemon=True).start()
        try:
            return reading.result(self._timeout_s)
        except TooSlow:
            return {}

    def _answer(self, reading: Future[Mapping[str, DagState]], dag_ids: Collection[str]) -> None:
        try:
            reading.set_result(self._read(dag_ids))
        except BaseException as problem:
            reading.set_exception(problem)
            raise


def open_poller(store: Store, settings: Settings, broker: Broker) -> Poller:
    return Poller(store, catalog_name=settings.catalog_name, broker=broker, every=settings.table_poll, patience=POLLER_PATIENCE)


def runs_for_a_task(settings: Settings, airflow_conn_id: str | None = None, patience: timedelta | None = None) -> AirflowDagRuns:
    """Return Airflow's runs for a task: through the Task SDK, and pools through the REST API if it is configured.

    :param airflow_conn_id: of the REST API; ``None`` for the installation's.
    :param patience: see :class:`.AirflowDagRuns`.
    :raises NeedsNewerAirflow: tasks of this Airflow need the REST API, and it is not configured.
    """
    conn_id = airflow_conn_id or settings.airflow_conn_id
    if conn_id is None:
        require("Reading DAG runs from a task", (3, 2), "Set [snowpack] airflow_conn_id to a connection to Airflow's REST API.")
    rest = None if conn_id is None else RestDagRuns(AirflowRest.from_connection(conn_id), patience)
    return TaskDagRuns(rest, patience) if rest is None or TASKS_READ_DAG_RUNS else rest


def deploy(store: Store, settings: Settings, root: Path, *, by: str | None = None) -> SyncReport | None:
    """Update the schedules in the store to match the files that declare them.

    :param root: the folder that ``[snowpack] schedule_files`` is relative to.
    :returns: the changes; ``None`` if the files are invalid, which is logged, or another process deploys them. If there are
        schedules from files but no files at all, the folder is considered missing and nothing changes.
    """
    try:
        declared = collect(root, settings.schedule_files)
        schedules = Schedules(store, catalog=settings.catalog_name, probes=settings.load_probes)
        if not declared and (left := _of_files(schedules)):
            log.error(
                "schedules_not_deployed: no file below %s declares a schedule, but the store has %s schedules from files, which "
                "are kept. Run `airflow snowpack schedules sync` to delete them.", root, len(left),
            )  # fmt: skip
            return None
        report = sync(schedules, declared, update=settings.update_schedules, by=by)
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
    return [one.name for one in schedules.list(limit=1_000_000) if one.origin in (ScheduleOrigin.FILE, ScheduleOrigin.EDITED)]
