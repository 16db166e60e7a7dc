"""Emit an event of an Airflow asset for each snapshot that adds data to a table.

**No arrival is lost**: the watcher's position moves only after Airflow has confirmed that it stored an event. A triggerer that is
killed in between reads the same arrivals again, and an event may come twice, with the same ``sequence_number``. Snapshots that
expired unread are events with the operation ``expired``, perhaps without a ``snapshot_id``. Rewrites and deletes are not
arrivals: a DAG that maintains the table on which it is scheduled does not start itself.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger

from airflow_snowpack.airflow_versions import SharedStreamProducer
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.shared_reads import join_tables, next_round, shared_store
from airflow_snowpack.triggers.wait_for import DataclassTrigger, event_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Sequence

    from airflow.triggers.base import TriggerEvent
    from airflow.triggers.shared_stream import AdvanceItem

    from airflow_snowpack.iceberg.arrivals import Arrival
    from airflow_snowpack.scheduling.sources.consumer import WatchedTable

log = logging.getLogger(__name__)


class ArrivalProducer(SharedStreamProducer):
    """Reads the arrivals of one table, and moves the watcher's position past those that Airflow has stored."""

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self._table = str(kwargs["table"])
        self._watcher = str(kwargs["watcher"])
        self._poll_seconds = float(kwargs["poll_seconds"])
        self._store_conn_id = kwargs["store_conn_id"]
        self._catalog_conn_id = kwargs["catalog_conn_id"]
        self._watched: WatchedTable | None = None

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield arrivals, oldest first."""
        from airflow_snowpack.connections.errors import ConnectionUnreadable
        from airflow_snowpack.iceberg import CatalogUnreachable, TableName
        from airflow_snowpack.scheduling.sources.consumer import WatchedTable
        from airflow_snowpack.setting import catalog_name

        name = TableName.parse(self._table, catalog=catalog_name())
        failing = Recurring(log)
        with ExitStack() as stack:
            read_tables = None
            while True:
                try:
                    read_tables = read_tables or await join_tables(stack, self._catalog_conn_id, frozenset([name]))
                    tables = await read_tables()
                    if self._watched is None:
                        self._watched = WatchedTable(await shared_store(self._store_conn_id), self._watcher, name)
                    found = await asyncio.to_thread(self._watched.read, tables[name])
                except (CatalogUnreachable, ConnectionUnreadable):
                    pass  # one line for all triggers is in the log
                except SnowpackError as problem:
                    failing.failed(problem, "Still watching %s", self._table)
                else:
                    failing.passed()
                    for number, arrival in enumerate(found.new):
                        yield _payload(self._table, arrival, 0 if number else found.expired), arrival.place
                await next_round(self._poll_seconds)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Move the position past processed arrivals; raise ``RuntimeError`` if Airflow failed to store one: read all again."""
        assert self._watched is not None, "it has produced them"
        if not all(item.outcome.is_clean for item in batch):
            raise RuntimeError(f"Airflow did not store an arrival in {self._table} as an event. It is read again.")
        await asyncio.to_thread(self._watched.advance, batch[-1].broker_payload)


@dataclass(eq=False, repr=False)
class TableWatcherTrigger(DataclassTrigger, BaseEventTrigger):
    """Watches one table for :class:`airflow_snowpack.assets.IcebergTableWatcher`.

    :param watcher: the name under which its position is stored.
    :param poll_seconds: the time between two checks, in seconds.
    """

    table: str
    watcher: str
    poll_seconds: float = 10.0
    store_conn_id: str | None = None
    catalog_conn_id: str | None = None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Refuse: Airflow runs the shared stream instead."""
        raise NotImplementedError("TableWatcherTrigger works through its shared stream.")
        yield  # makes this an asynchronous generator, as the base class declares it

    def shared_stream_key(self) -> Hashable:
        """Return a separate key for each watcher of each table: each has its own position."""
        return ("snowpack", self.store_conn_id, self.catalog_conn_id, self.table, self.watcher)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return ArrivalProducer(kwargs)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for payload in shared_stream:
            yield event_of(payload)


def _payload(table: str, arrival: Arrival, expired: int) -> dict[str, Any]:
    """Return the payload of an event; ``expired`` is the number of snapshots before this one that expired unread."""
    return {
        "table": table,
        "snapshot_id": arrival.snapshot_id,
        "sequence_number": arrival.sequence,
        "committed_at": arrival.committed_at.isoformat(),
        "operation": arrival.operation,
        "partitions": list(arrival.partitions),
        **{f"added_{what}": amount for what, amount in arrival.to_amounts().items()},
        **({"expired_before": expired} if expired else {}),
    }
