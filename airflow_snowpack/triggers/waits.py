"""The triggers of the sensors: what each waits for, as a question to the store or to the catalog."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.timed_calls import TimedCalls
from airflow_snowpack.triggers.shared_reads import SharedReads, join_tables, next_round, one_by_one, shared_reads
from airflow_snowpack.triggers.wait_for import WaitFor

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.airflow.task_ref import TaskRef
    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import JobNotFound, JobStatus, TableLock
    from airflow_snowpack.scheduling.sources.consumer import Consumer, Kept, Look, Places
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

CALL_CHECK_S = 5.0
CLOCK_CHECK_S = 60.0
"""How soon a trigger notices that the clock was set or the machine slept."""
JUDGED_AT_ONCE = 3
"""Each may open a connection to the store."""
JUDGE_LIMIT = timedelta(seconds=30)
"""How long the storage may take to return the manifests of one sensor's tables."""
CALLED = {"why": "called"}
_cancelling: set[asyncio.Task[None]] = set()
"""Keeps the tasks from being collected: the event loop has only weak references."""


@dataclass(eq=False, repr=False)
class MaintenanceJobTrigger(WaitFor):
    """Waits until a maintenance job is completed, failed or cancelled. Fires with its ``status``.

    :param owner: cancel the job under this name when the task is killed; ``None`` leaves the job alone.
    """

    job_id: str
    store_conn_id: str | None = None
    poll_seconds: float = 10.0
    owner: str | None = None

    async def ask(self) -> dict[str, Any] | None:
        status = await self.store.get(_read_statuses, self.job_id)
        return {"job_id": self.job_id, "status": status.value} if status.is_terminal else None

    async def on_kill(self) -> None:
        """Cancel the job of a task that was marked or cleared.

        Airflow also calls this when another triggerer takes over the trigger; the task is deferred then. An outage of the store
        may last longer than Airflow waits for this method: Airflow cancels a trigger again each second until it has ended.
        """
        if self.owner is not None:
            cancelling = asyncio.create_task(self._cancel_unless_deferred(self.owner))
            _cancelling.add(cancelling)
            cancelling.add_done_callback(_cancelling.discard)
            await asyncio.shield(cancelling)

    async def _cancel_unless_deferred(self, owner: str) -> None:
        if not await self._is_deferred():
            await self._cancel(owner)

    async def _is_deferred(self) -> bool:
        from airflow_snowpack.airflow.task_ref import TaskRef

        if self.task_instance is None:
            return False
        task = TaskRef.of(self.task_instance)
        try:
            states = await shared_reads("task states", _read_task_states, "Airflow").get([task])
        except Exception as problem:  # noqa: BLE001 - Airflow may raise anything here
            # A waiting task submits a cancelled job again; a job for which no task waits would stay.
            log.warning("Job %s is cancelled, although the state of its task is unknown: %s", self.job_id, problem)
            return False
        return states[task] == "deferred"

    async def _cancel(self, owner: str) -> None:
        from airflow_snowpack.connections.errors import ConnectionUnreadable
        from airflow_snowpack.store import StoreTooSlow, StoreUnreachable

        failing = Recurring(log)
        while True:
            try:
                ended = await self.store.get(_cancel_jobs, (self.job_id, owner))
            except (ConnectionUnreadable, StoreTooSlow, StoreUnreachable) as outage:
                failing.failed(outage, "Job %s is cancelled when the store answers", self.job_id)
                await next_round(self.poll_seconds)
            else:
                log.info("%s", ended)
                return


@dataclass(eq=False, repr=False)
class JobQueueTrigger(WaitFor):
    """Waits until a worker of a catalog could claim a job. Fires with the ``depth`` of its queue."""

    catalog_id: str
    store_conn_id: str | None = None
    poll_seconds: float = 1.0

    async def ask(self) -> dict[str, Any] | None:
        depth = await self.store.get(_read_depths, self.catalog_id)
        return {"depth": depth} if depth else None


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
        from airflow_snowpack.iceberg import TableName

        name = TableName.parse(self.table, catalog=self.catalog, catalog_id=self.catalog_id)
        lock = await self.store.get(_read_locks, name)
        self._holder = None if lock is None else lock.holder
        return {"table": self.table, "free": True} if lock is None else None

    def over(self) -> dict[str, Any]:
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
        from airflow_snowpack.builds.registry.current_build import WantedBuild, current_builds

        awaited = WantedBuild(self.dataset, datetime.fromisoformat(self.as_of) if self.as_of else None, self.newer_than)
        served = await self.store.get(current_builds, self.dataset)
        if served is not None and awaited.is_met(served):
            return {"dataset": self.dataset, "publication": served.publication}
        log.info("%s", awaited.unmet(served))
        return None


@dataclass(eq=False, repr=False)
class RunConstraintTrigger(WaitFor):
    """Waits until a run may be able to pass its gate: until the time that its constraints named, or for a free slot.

    Only the sensor evaluates the constraints, since they need Airflow.

    :param task_key: the waiting task, with its map index.
    :param not_before: when the constraints can be met at the earliest, as ISO 8601 text.
    :param recheck_seconds: how often the first run in the queue fires without any change.
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
        return min(CALL_CHECK_S, self.recheck_seconds)

    async def ask(self) -> dict[str, Any] | None:
        if self.not_before is not None:
            return await self._at(datetime.fromisoformat(self.not_before))
        return CALLED if await self.store.get(_called, self) else None

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
    _reading: Consumer | None = field(default=None, init=False)
    _read_tables: Callable[[], Awaitable[Mapping[TableName, Table]]] | None = field(default=None, init=False)

    async def ask(self) -> dict[str, Any] | None:
        if self.remaining_s() <= 0:
            return None
        async with asyncio.timeout(self.remaining_s()):  # a catalog may hang
            if self._read_tables is None:
                self._read_tables = await self._join_tables()
            consumer, kept = await self.store.get(_read_places, self)
            count = _Count(consumer, kept, await self._read_tables())
            look = (await self._judged.get([count]))[count]
        if look.satisfied:
            return {"why": "arrived", "explanation": look.judgement.text}
        log.info("Waiting: %s", look.judgement.text)
        return None

    def read_place(self, store: Store, places: Places) -> tuple[Consumer, Kept]:
        """Return the consumer, which remembers what it has read of its tables, and its position."""
        from airflow_snowpack.scheduling import parse_trigger
        from airflow_snowpack.scheduling.sources.consumer import Consumer
        from airflow_snowpack.setting import catalog_name

        if self._reading is None or self._reading.store is not store:
            trigger, began_at = parse_trigger(self.awaited), datetime.fromisoformat(self.began_at)
            self._reading = Consumer(store, self.consumer, trigger, catalog_name=catalog_name(), began_at=began_at)
        return self._reading, self._reading.read(self.owner, places)

    async def _join_tables(self) -> Callable[[], Awaitable[Mapping[TableName, Table]]]:
        from airflow_snowpack.scheduling import parse_trigger
        from airflow_snowpack.scheduling.sources.source import tables_of
        from airflow_snowpack.setting import catalog_name

        tables = tables_of(parse_trigger(self.awaited), catalog_name())
        return await join_tables(self.connections, self.catalog_conn_id, frozenset(tables))

    @cached_property
    def _judged(self) -> SharedReads[_Count, Look]:
        return shared_reads("arrivals", _judge_each, "what has arrived")


@dataclass(frozen=True, slots=True, eq=False)
class _Count:
    """One question of a consumer whose place and tables are read."""

    consumer: Consumer
    kept: Kept
    tables: Mapping[TableName, Table]


def _read_statuses(store: Store, job_ids: frozenset[str]) -> dict[str, JobStatus | JobNotFound]:
    from airflow_snowpack.jobs import Jobs

    return Jobs(store).statuses(job_ids)


def _read_depths(store: Store, catalog_ids: frozenset[str]) -> dict[str, int]:
    from airflow_snowpack.jobs import Jobs

    return Jobs(store).queue_depths(catalog_ids)


def _cancel_jobs(store: Store, jobs_of: frozenset[tuple[str, str]]) -> dict[tuple[str, str], str | Exception]:
    from airflow_snowpack.jobs import JobAlreadyFinished, JobNotFound, JobRunsInTask, Jobs

    jobs = Jobs(store)

    def cancel(job_of: tuple[str, str]) -> str:
        job_id, owner = job_of
        try:
            jobs.cancel(job_id, by=owner, unless_inline=True)
        except (JobAlreadyFinished, JobNotFound, JobRunsInTask) as over:
            return str(over)
        return f"Job {job_id} was cancelled, because its task has ended."

    try:
        return one_by_one(jobs_of, cancel)
    finally:
        jobs.flush()


def _read_task_states(tasks: frozenset[TaskRef]) -> Iterable[tuple[TaskRef, str | None]]:
    from airflow_snowpack.hooks.run_states import TaskRunStates

    return TaskRunStates().of_tasks(tasks).items()


def _read_locks(store: Store, tables: frozenset[TableName]) -> dict[TableName, TableLock | None]:
    from airflow_snowpack.jobs import TableLocks

    return TableLocks(store).blocking_each(tables)


def _called(store: Store, triggers: frozenset[RunConstraintTrigger]) -> dict[RunConstraintTrigger, bool | Exception]:
    from airflow_snowpack.scheduling import GatePlace, gate_is_due

    def is_called(run: RunConstraintTrigger) -> bool:
        return gate_is_due(store, GatePlace(run.dag_id, run.run_id, run.task_key), timedelta(seconds=run.recheck_seconds))

    return one_by_one(triggers, is_called)


def _read_places(
    store: Store, triggers: frozenset[DataArrivalTrigger]
) -> dict[DataArrivalTrigger, tuple[Consumer, Kept] | Exception]:
    from airflow_snowpack.scheduling.sources.consumer import read_places

    places = read_places(store, {trigger.consumer for trigger in triggers})
    return one_by_one(triggers, lambda trigger: trigger.read_place(store, places))


_judgements: TimedCalls[Consumer, Look] = TimedCalls(
    lambda consumer: f"The storage of a table of {consumer.name}", limit=JUDGE_LIMIT, concurrent=JUDGED_AT_ONCE
)


def _judge_each(counts: frozenset[_Count]) -> Iterator[tuple[_Count, Look | Exception]]:
    """Count each, apart from the reads of the store: this reads manifests from a storage that may be slow or hang."""
    of_consumers = {count.consumer: count for count in counts}
    calls = {consumer: partial(consumer.judge, count.kept, count.tables) for consumer, count in of_consumers.items()}
    for consumer, look in _judgements.run(calls):
        yield of_consumers[consumer], look
