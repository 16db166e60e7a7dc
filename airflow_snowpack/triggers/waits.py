"""The triggers of the sensors: what each waits for, as a question to the store, or to the catalog."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.triggers.shared_reads import SharedReads, join_tables, one_by_one, shared_reads
from airflow_snowpack.triggers.wait_for import WaitFor

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import JobNotFound, JobStatus, TableLock
    from airflow_snowpack.scheduling import GatePlace
    from airflow_snowpack.scheduling.sources.consumer import Consumer, Kept, Look
    from airflow_snowpack.scheduling.triggers.trigger import Trigger
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

CALL_CHECK_S = 5.0
CLOCK_CHECK_S = 60.0
"""A clock that was set, or a machine that slept, is noticed after this time."""
CALLED = {"why": "called"}


@dataclass(eq=False, repr=False)
class MaintenanceJobTrigger(WaitFor):
    """Waits until a maintenance job is completed, failed or cancelled. Fires with its ``status``."""

    job_id: str
    store_conn_id: str | None = None
    poll_seconds: float = 10.0

    async def ask(self) -> dict[str, Any] | None:
        """Return the status of a job that has ended."""
        status = await self.store.get(_read_statuses, self.job_id)
        return {"job_id": self.job_id, "status": status.value} if status.is_terminal else None


@dataclass(eq=False, repr=False)
class TableLockTrigger(WaitFor):
    """Waits until a table is free. Fires with ``free`` and, when the time is over, the ``holder``.

    :param table: ``database.table``.
    :param catalog: the name of its catalog; ``catalog_id`` is the identity, see :class:`TableName`.
    """

    table: str
    catalog: str
    until: str | None = None
    store_conn_id: str | None = None
    poll_seconds: float = 10.0
    catalog_id: str = ""

    _holder: str | None = field(default=None, init=False)

    async def ask(self) -> dict[str, Any] | None:
        """Return whether the table is free, if it is."""
        from airflow_snowpack.iceberg import TableName

        name = TableName.parse(self.table, catalog=self.catalog, catalog_id=self.catalog_id)
        lock = await self.store.get(_read_locks, name)
        self._holder = None if lock is None else lock.holder
        return {"table": self.table, "free": True} if lock is None else None

    def over(self) -> dict[str, Any]:
        """Return the holder of the lock."""
        return {"table": self.table, "free": False, "holder": self._holder}


@dataclass(eq=False, repr=False)
class BuildPublishedTrigger(WaitFor):
    """Waits until the current build of a dataset is recent enough. Fires with its ``publication``.

    :param as_of: data as of this time or later, as ISO 8601 text.
    :param newer_than: a publication after this number.
    """

    dataset: str
    as_of: str | None = None
    newer_than: int | None = None
    store_conn_id: str | None = None
    poll_seconds: float = 10.0

    async def ask(self) -> dict[str, Any] | None:
        """Return the number of the publication that is recent enough."""
        from airflow_snowpack.builds.registry.current_build import WantedBuild, current_builds

        awaited = WantedBuild(self.dataset, datetime.fromisoformat(self.as_of) if self.as_of else None, self.newer_than)
        served = await self.store.get(current_builds, self.dataset)
        if served is not None and awaited.is_met(served):
            return {"dataset": self.dataset, "publication": served.publication}
        log.info("%s", awaited.unmet(served))
        return None


@dataclass(eq=False, repr=False)
class RunConstraintTrigger(WaitFor):
    """Waits until a run may be able to pass its gate: until the time that its constraints named, or for a free place.

    Only the sensor evaluates the constraints, since they need Airflow.

    :param task_key: the task that waits, with its map index.
    :param not_before: when the constraints can be met at the earliest, as ISO 8601 text.
    :param recheck_seconds: how often the first run in the queue fires without any news.
    """

    dag_id: str
    run_id: str
    task_key: str
    until: str
    not_before: str | None = None
    store_conn_id: str | None = None
    recheck_seconds: float = 30.0

    ends_on_errors: ClassVar[bool] = False

    @property
    def poll_seconds(self) -> float:  # type: ignore[override]  # it follows from another one
        """The time between two questions."""
        return min(CALL_CHECK_S, self.recheck_seconds)

    async def ask(self) -> dict[str, Any] | None:
        """Return whether the run is called."""
        if self.not_before is not None:
            return await self._at(datetime.fromisoformat(self.not_before))
        return CALLED if await self.store.get(_called, self._waiting) else None

    @cached_property
    def _waiting(self) -> _Waiting:
        from airflow_snowpack.scheduling import GatePlace

        return _Waiting(GatePlace(self.dag_id, self.run_id, self.task_key), timedelta(seconds=self.recheck_seconds))

    async def _at(self, named: datetime) -> dict[str, Any] | None:
        from airflow_snowpack.store import utc_now

        while (left := min(self.remaining_s(), (named - utc_now()).total_seconds())) > 0:
            await asyncio.sleep(min(CLOCK_CHECK_S, left))
        return CALLED if self.remaining_s() > 0 else None


@dataclass(eq=False, repr=False)
class DataArrivalTrigger(WaitFor):
    """Counts arrivals for a consumer until its trigger is satisfied. Fires with the ``explanation``.

    :param awaited: the trigger as JSON.
    :param began_at: when the sensor began to wait, as ISO 8601 text.
    """

    consumer: str
    owner: str
    awaited: dict[str, Any]
    began_at: str
    until: str
    store_conn_id: str | None = None
    catalog_conn_id: str | None = None
    poll_seconds: float = 10.0

    ends_on_errors: ClassVar[bool] = False
    _counter: _Counter | None = field(default=None, init=False)

    async def ask(self) -> dict[str, Any] | None:
        """Return the explanation of what has arrived, if it is enough."""
        if self.remaining_s() <= 0:
            return None
        async with asyncio.timeout(self.remaining_s()):  # a catalog may hang
            self._counter = self._counter or await self._open()
            consumer, kept = await self.store.get(_read_places, self._counter)
            look = await self._counter.judge(consumer, kept)
        if look.satisfied:
            return {"why": "arrived", "explanation": look.judgement.text}
        log.info("Waiting: %s", look.judgement.text)
        return None

    async def _open(self) -> _Counter:
        from airflow_snowpack.scheduling import parse_trigger
        from airflow_snowpack.scheduling.sources.consumer import tables_of
        from airflow_snowpack.setting import catalog_name

        trigger, catalog = parse_trigger(self.awaited), catalog_name()
        tables = await join_tables(self.connections, self.catalog_conn_id, frozenset(tables_of(trigger, catalog)))
        judged = shared_reads("arrivals", _judge_each, "what has arrived")
        return _Counter(self.consumer, self.owner, trigger, catalog, datetime.fromisoformat(self.began_at), tables, judged)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run that waits at a gate."""

    place: GatePlace
    recheck: timedelta


@dataclass(slots=True, eq=False)
class _Counter:
    """What one sensor counts, and how its tables are read: each table once for all sensors that wait for it."""

    name: str
    owner: str
    trigger: Trigger
    catalog_name: str
    began_at: datetime
    read_tables: Callable[[], Awaitable[Mapping[TableName, Table]]]
    judged: SharedReads[_Count, Look]
    _consumer: Consumer | None = None

    def consumer(self, store: Store) -> Consumer:
        """Return its consumer, which remembers what it has read of its tables."""
        from airflow_snowpack.scheduling.sources.consumer import Consumer

        if self._consumer is None or self._consumer.store is not store:
            self._consumer = Consumer(store, self.name, self.trigger, catalog_name=self.catalog_name, began_at=self.began_at)
        return self._consumer

    async def judge(self, consumer: Consumer, kept: Kept) -> Look:
        """:raises TableNotFound, CatalogUnreachable: from the catalog."""
        count = _Count(consumer, kept, await self.read_tables())
        return (await self.judged.get([count]))[count]


@dataclass(frozen=True, slots=True, eq=False)
class _Count:
    """One question of a consumer whose place and tables are read."""

    consumer: Consumer
    kept: Kept
    tables: Mapping[TableName, Table]


def _read_statuses(store: Store, job_ids: frozenset[str]) -> dict[str, JobStatus | JobNotFound]:
    from airflow_snowpack.jobs.queries import JobReader

    return JobReader(store).statuses(job_ids)


def _read_locks(store: Store, tables: frozenset[TableName]) -> dict[TableName, TableLock | None]:
    from airflow_snowpack.jobs import TableLocks

    return TableLocks(store).blocking_each(tables)


def _called(store: Store, waiting: frozenset[_Waiting]) -> dict[_Waiting, bool | Exception]:
    from airflow_snowpack.scheduling import gate_is_due

    return one_by_one(waiting, lambda each: gate_is_due(store, each.place, each.recheck))


def _read_places(store: Store, counters: frozenset[_Counter]) -> dict[_Counter, tuple[Consumer, Kept] | Exception]:
    from airflow_snowpack.scheduling.sources.consumer import read_places

    places = read_places(store, {counter.name for counter in counters})

    def read(counter: _Counter) -> tuple[Consumer, Kept]:
        consumer = counter.consumer(store)
        return consumer, consumer.read(counter.owner, places)

    return one_by_one(counters, read)


def _judge_each(counts: frozenset[_Count]) -> dict[_Count, Look | Exception]:
    """Apart from the reads of the store: this reads manifests of tables that changed, from a storage that may be slow."""
    return one_by_one(counts, lambda count: count.consumer.judge(count.kept, count.tables))
