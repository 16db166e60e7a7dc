"""Fires when enough has arrived for a consumer, or when there is no time left to wait.

The event is a nudge: the sensor counts again, and takes what it then sees for considered.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.event import event_of
from airflow_snowpack.triggers.settling import Settling
from airflow_snowpack.triggers.shared_catalog import join_tables
from airflow_snowpack.triggers.shared_reads import next_round, shared_reads
from airflow_snowpack.triggers.shared_store import StoreReads, one_by_one

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from airflow.triggers.base import TriggerEvent
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.scheduling.consumer import Consumer, Kept, Look
    from airflow_snowpack.scheduling.trigger import Trigger
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)


class DataArrivalTrigger(BaseTrigger):
    """Counts for a consumer until its trigger is satisfied. What does not answer is asked again, as long as there is time.

    :param awaited: the trigger's JSON.
    :param began_at: since when the sensor waits, as ISO 8601 text; ``until``: how long it may.
    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(
        self,
        consumer: str,
        owner: str,
        awaited: dict[str, Any],
        began_at: str,
        until: str,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
        poll_seconds: float = 10.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.consumer = consumer
        self.owner = owner
        self.awaited = awaited
        self.began_at = began_at
        self.until = until
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        names = ("consumer", "owner", "awaited", "began_at", "until", "store_conn_id", "catalog_conn_id", "poll_seconds")
        return "airflow_snowpack.triggers.data_arrival.DataArrivalTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``arrived``, or ``over``."""
        await Settling().rest()
        says = await self._arrived()
        yield event_of({"why": "over"} if says is None else {"why": "arrived", "says": says})

    async def _arrived(self) -> str | None:
        """Wait; the explanation of what has arrived, or ``None`` when the time is over."""
        from airflow_snowpack.iceberg import CatalogUnreachable
        from airflow_snowpack.store import StoreUnreachable, utc_now

        until, waiter = datetime.fromisoformat(self.until), None
        failing = Recurring(log)
        with ExitStack() as stack:
            while utc_now() < until:
                try:
                    waiter = waiter or await self._open(stack)
                    async with asyncio.timeout((until - utc_now()).total_seconds()):  # also of a catalog that hangs
                        look = await waiter.look()
                except (CatalogUnreachable, StoreUnreachable):
                    pass  # one line for all triggers is in the log
                except TimeoutError as problem:
                    failing.failed(problem, "Still waiting for arrivals")
                except SnowpackError as problem:
                    failing.failed(problem, "Still waiting for arrivals")
                else:
                    failing.passed()
                    if look.satisfied:
                        return look.judgement.says
                    log.info("Waiting: %s", look.judgement.says)
                await next_round(self.poll_seconds, max(0.1, (until - utc_now()).total_seconds()))
        return None

    async def _open(self, stack: ExitStack) -> _Waiter:
        from airflow_snowpack.scheduling import parse_trigger
        from airflow_snowpack.scheduling.consumer import tables_of
        from airflow_snowpack.settings import catalog_name

        trigger = parse_trigger(self.awaited)
        return _Waiter(
            _Awaited(self.consumer, self.owner, trigger, catalog_name(), datetime.fromisoformat(self.began_at)),
            StoreReads(self.store_conn_id),
            await join_tables(stack, self.catalog_conn_id, frozenset(tables_of(trigger, catalog_name()))),
        )


@dataclass(slots=True, eq=False)
class _Awaited:
    """What one sensor waits for."""

    name: str
    owner: str
    trigger: Trigger
    catalog_name: str
    began_at: datetime
    _consumer: Consumer | None = None

    def consumer(self, store: Store) -> Consumer:
        """Its consumer, which knows what it has read of its tables."""
        from airflow_snowpack.scheduling.consumer import Consumer

        if self._consumer is None or self._consumer.store is not store:
            self._consumer = Consumer(store, self.name, self.trigger, catalog_name=self.catalog_name, began_at=self.began_at)
        return self._consumer


@dataclass(frozen=True, slots=True, eq=False)
class _Count:
    """One look of a consumer, of which all is read but what its tables got."""

    consumer: Consumer
    kept: Kept
    tables: Mapping[TableName, Table]


class _Waiter:
    """Looks for one sensor together with all others in the process: one statement for their places, one read of each table."""

    def __init__(
        self, awaited: _Awaited, store: StoreReads, read_tables: Callable[[], Awaitable[Mapping[TableName, Table]]]
    ) -> None:
        self._awaited = awaited
        self._store = store
        self._read_tables = read_tables
        self._counts = shared_reads("arrivals", _judge_each, "what has arrived")

    async def look(self) -> Look:
        """:raises TableNotFound, CatalogUnreachable, StoreUnreachable: from the catalog and the store."""
        consumer, kept = await self._store.get(_read_places, self._awaited)
        count = _Count(consumer, kept, await self._read_tables())
        return (await self._counts.get([count]))[count]


def _read_places(store: Store, waiting: frozenset[_Awaited]) -> dict[_Awaited, tuple[Consumer, Kept] | Exception]:
    from airflow_snowpack.scheduling.consumer import read_places

    places = read_places(store, {awaited.name for awaited in waiting})

    def read(awaited: _Awaited) -> tuple[Consumer, Kept]:
        consumer = awaited.consumer(store)
        return consumer, consumer.read(awaited.owner, places)

    return one_by_one(waiting, read)


def _judge_each(counts: frozenset[_Count]) -> dict[_Count, Look | Exception]:
    """Apart from the reads of the store: manifests of tables that got something are read, from a storage that may be slow."""
    return one_by_one(counts, lambda count: count.consumer.judge(count.kept, count.tables))
