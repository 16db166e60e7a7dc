"""The services that routes use: the installation, the list of tables, and threads for calls that may not return in time.

They are opened when the server starts. If the store does not answer, a later request opens them: the app starts without the store
and recovers. A thread that keeps the list of tables current starts with them.

    @router.post("/jobs/{job_id}/cancel")
    def cancel(job_id: str, actor: Acting, services: Open) -> …:
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as TooSlow
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from airflow_snowpack.api.auth import editor_of, no_dag, reader_of
from airflow_snowpack.api.problems import CatalogTooSlow, StorageTooSlow
from airflow_snowpack.api.roles import DagStates, no_dag_states
from airflow_snowpack.api.routing import in_thread
from airflow_snowpack.builds.manager import BuildManager
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import CatalogUnreachable
from airflow_snowpack.installation import Installation
from airflow_snowpack.inventory import Inventory, refresher
from airflow_snowpack.inventory.inventory import REFRESH_EVERY
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.planning import Planner
from airflow_snowpack.scheduling import RegisteredRuns, Schedules
from airflow_snowpack.scheduling.permission import MayStart
from airflow_snowpack.store import Actor
from airflow_snowpack.store.deadlines import REQUEST_TIMEOUT
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.store.worker import Worker

T = TypeVar("T")

log = logging.getLogger(__name__)

CATALOG_SHARE = 0.6
CATALOG_THREADS = 4
STORAGE_SHARE = 0.7
STORAGE_THREADS = 8
LOCK_WAIT = timedelta(seconds=1)
"""How long a request waits for a dataset that another process publishes or cleans up."""
FAILURE_REPEATED_FOR = timedelta(seconds=0.5)


@dataclass(frozen=True, slots=True)
class StartingActor(Actor):
    """The user of a change that makes something start a DAG.

    :param may_start: whether the user may start a DAG.
    """

    may_start: MayStart


def _may_start(actor: Actor | None) -> MayStart:
    return actor.may_start if isinstance(actor, StartingActor) else no_dag


@dataclass(frozen=True, slots=True)
class Services:
    """The open store, the services on it, and the list of tables.

    :param installation: on a store with ``Deadlines`` and with :data:`LOCK_WAIT`, so that no request waits for long.
    :param order: the installation's order of actions.
    :param refresh_every: the period on which the list of tables is read again.
    :param open_storage: opens the storage of builds at a URL; by default without options: the process has the credentials.
    :param sign: the sign of life of this process.
    :param dag_states: returns the state of DAGs in Airflow by id, as far as this process can read it.
    :param timeout: how long a request may take; the catalog and the storage get a share of it each.
    :param iceberg: the version that Spark runs with; ``None``: unknown here.
    """

    installation: Installation
    inventory: Inventory
    order: tuple[str, ...]
    refresh_every: timedelta = REFRESH_EVERY
    open_storage: Callable[[str], Storage] | None = None
    sign: SignOfLife | None = None
    dag_states: DagStates = no_dag_states
    timeout: timedelta = REQUEST_TIMEOUT
    iceberg: str | None = None
    _catalog_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CATALOG_THREADS, "snowpack-catalog"), repr=False
    )
    _storage_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(STORAGE_THREADS, "snowpack-storage"), repr=False
    )

    def __post_init__(self) -> None:
        # Built before requests come in on several threads: each instance writes its own batches of the history.
        self.installation.jobs  # noqa: B018 - built by being read

    @property
    def jobs(self) -> Jobs:
        return self.installation.jobs

    def planner(self) -> Planner:
        return self.installation.planner(self.order)

    def schedules(self, actor: Actor | None = None) -> Schedules:
        """Return the schedules; ``actor`` is recorded for each change, and only a :class:`StartingActor` may start DAGs."""
        return self.installation.schedules(actor, _may_start(actor))

    def registered_runs(self, actor: Actor | None = None) -> RegisteredRuns:
        """Return the catalogue of registered runs, with ``actor`` as in :meth:`schedules`."""
        return self.installation.registered_runs(actor, _may_start(actor))

    def builds(self) -> BuildManager:
        return BuildManager(self.installation.builds, self.open_storage or Storage)

    def ask_storage(self, dataset: str, question: Callable[[], T]) -> T:
        """Return the result of a read from a storage, which may not answer.

        :raises StorageTooSlow: it took longer than a request may wait.
        """
        answer = self.begin_at_storage(question)
        if answer is None:
            raise StorageTooSlow(dataset, self.timeout * STORAGE_SHARE)
        return answer.result()

    def begin_at_storage(self, work: Callable[[], T]) -> Future[T] | None:
        """Run work on the storage; return it if it ends in time. Otherwise it continues, and its failure is logged."""
        future = self._storage_threads.submit(work)
        try:
            future.exception((self.timeout * STORAGE_SHARE).total_seconds())
        except TooSlow:
            future.add_done_callback(_log_failure)
            return None
        return future

    def ask_catalog(self, question: Callable[[], T]) -> T:
        """Return the result of a read from the catalog, which may not answer. A late result is discarded.

        :raises CatalogTooSlow: it took longer than a request may wait.
        """
        patience = self.timeout * CATALOG_SHARE
        future = self._catalog_threads.submit(question)
        try:
            return future.result(patience.total_seconds())
        except TooSlow:
            future.cancel()
            raise CatalogTooSlow(self.inventory.catalog_name, patience) from None

    def load_ahead(self) -> Future[None]:
        """Load PyIceberg and the planner, for which the first question would wait longer than a request may wait."""

        def load() -> None:
            import_module("airflow_snowpack.maintenance.plan")
            with suppress(CatalogUnreachable):  # the refresher, which asks it as well, has logged it
                self.inventory.catalog()

        return self._catalog_threads.submit(load)

    def close(self) -> None:
        self._catalog_threads.shutdown(wait=False, cancel_futures=True)
        self._storage_threads.shutdown(wait=False, cancel_futures=True)
        self.installation.close()


def _log_failure(work: Future[Any]) -> None:
    failure = None if work.cancelled() else work.exception()
    if failure is not None:
        log.error("What a request had begun at the storage of builds failed after it was answered.", exc_info=failure)


class LazyServices:
    """Opens the services once, when they are first needed.

    :param open_services: may raise, as while the store is down; a later request tries again.
    """

    def __init__(self, open_services: Callable[[], Services]) -> None:
        self._open = open_services
        self._services: Services | None = None
        self._refresher: Worker | None = None
        self._warm: Future[None] | None = None
        self._failure: tuple[float, Exception] | None = None
        self._guard = threading.Lock()

    def if_open(self) -> Services | None:
        """The services, if they are open."""
        return self._services

    def get(self) -> Services:
        """:raises SnowpackError: whatever keeps them from being opened."""
        if self._services is None:
            with self._guard:
                if self._services is None:
                    self._repeat_recent_failure()
                    self._services = self._opened()
        return self._services

    def warm_up(self) -> None:
        """Open the services, and return when the catalog has been reached too, or found out of reach."""
        self.get()
        if self._warm is not None:
            self._warm.result()

    def close(self) -> None:
        with self._guard:
            services, self._services = self._services, None
            if self._refresher is not None:
                self._refresher.stop()
        if services is not None:
            services.close()

    def _opened(self) -> Services:
        try:
            services = self._open()
        except Exception as failure:
            self._failure = (time.monotonic(), failure)
            raise
        self._refresher = refresher(services.inventory, services.refresh_every, services.sign)
        self._refresher.start()
        self._warm = services.load_ahead()
        return services

    def _repeat_recent_failure(self) -> None:
        """Raise the error of a failed attempt again for a moment, so that waiting requests do not each repeat it."""
        if self._failure is not None and time.monotonic() - self._failure[0] < FAILURE_REPEATED_FOR.total_seconds():
            raise self._failure[1]


async def services_of(request: Request) -> Services:
    """Return the open services, for a user who may read. Only an authenticated request opens them."""
    await reader_of(request)
    lazy: LazyServices = request.app.state.services
    services: Services = lazy.if_open() or await in_thread(lazy.get)
    return services


async def actor_of(request: Request) -> Actor:
    """Return the user of the request, who may change things, for the audit trail."""
    return Actor((await editor_of(request)).name, door_of(request))


async def starting_actor_of(request: Request) -> StartingActor:
    """Return the user of the request, who may change things, and with it the DAGs that the user may start."""
    user = await editor_of(request)
    return StartingActor(user.name, door_of(request), user.may_start)


def door_of(request: Request) -> str:
    """``page`` for what the pages' script sends, ``api`` for the rest."""
    return "page" if request.headers.get("x-snowpack-page") == "1" else "api"


Open = Annotated[Services, Depends(services_of)]
Acting = Annotated[Actor, Depends(actor_of)]
Starting = Annotated[StartingActor, Depends(starting_actor_of)]
