"""Makes what arrives in a table events of an Airflow asset, one for each snapshot that added data.

It is the trigger of :class:`airflow_snowpack.assets.IcebergTableWatcher`. The invariant: **no arrival is lost.** Airflow confirms
an event only when it has stored it, and only then does the watcher's place in our store move on; a triggerer that is killed in
between reads the same arrivals again. An event may then come twice, with the same ``sequence_number``. Snapshots that were
expired before they were read are events with the operation ``expired`` and perhaps without a ``snapshot_id``. Rewrites and
deletes are no arrivals, so that a DAG which maintains the table that it is scheduled on does not start itself.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseEventTrigger
from airflow.triggers.shared_stream import SharedStreamProducer

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.shared_reads import join_tables, next_round, shared_store
from airflow_snowpack.triggers.wait_for import event_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Mapping, Sequence

    from airflow.triggers.base import TriggerEvent
    from airflow.triggers.shared_stream import AdvanceItem
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.arrivals import Arrival
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.scheduling.sources.watcher_cursor import WatchedTable

log = logging.getLogger(__name__)


class NotStored(SnowpackError, kind=Kind.FAILED):
    """Airflow did not store the event."""

    def __init__(self, table: str) -> None:
        super().__init__(f"Airflow did not store an arrival in {table} as an event. It is read again.")


class ArrivalProducer(SharedStreamProducer):
    """Reads the arrivals of one table, and moves the watcher's place behind those that Airflow has stored."""

    def __init__(self, kwargs: dict[str, Any]) -> None:
        self._table = str(kwargs["table"])
        self._watcher = str(kwargs["watcher"])
        self._poll_seconds = float(kwargs["poll_seconds"])
        self._store_conn_id = kwargs["store_conn_id"]
        self._catalog_conn_id = kwargs["catalog_conn_id"]
        self._watched: WatchedTable | None = None
        self._latest: Mapping[TableName, Table] = {}

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Arrivals as they come, oldest first."""
        from airflow_snowpack.iceberg import CatalogUnreachable
        from airflow_snowpack.scheduling.sources.watcher_cursor import place_of

        name = self._name()
        failing = Recurring(log)
        with ExitStack() as stack:
            read_tables = None
            while True:
                try:
                    read_tables = read_tables or await join_tables(stack, self._catalog_conn_id, frozenset([name]))
                    self._latest = await read_tables()
                    self._watched = self._watched or await self._open(name)
                    found = await asyncio.to_thread(self._watched.read)
                except CatalogUnreachable:
                    pass  # one line for all triggers is in the log
                except SnowpackError as problem:
                    failing.failed(problem, "Still watching %s", self._table)
                else:
                    failing.passed()
                    for number, arrival in enumerate(found.new):
                        yield _payload(self._table, arrival, 0 if number else found.expired), place_of(arrival)
                await next_round(self._poll_seconds)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Airflow has dealt with these.

        :raises NotStored: with one of them not well; then all are read again.
        """
        assert self._watched is not None, "it has produced them"
        if not all(item.outcome.is_clean for item in batch):
            raise NotStored(self._table)
        await asyncio.to_thread(self._watched.advance, batch[-1].broker_payload)

    def _name(self) -> TableName:
        from airflow_snowpack.iceberg.names import TableName
        from airflow_snowpack.settings import catalog_name

        return TableName.parse(self._table, catalog=catalog_name())

    async def _open(self, name: TableName) -> WatchedTable:
        from airflow_snowpack.scheduling.sources.watcher_cursor import WatchedTable

        store = await shared_store(self._store_conn_id)
        return WatchedTable(store, self._watcher, name, load=lambda name: self._latest[name])


class TableWatcherTrigger(BaseEventTrigger):
    """One watcher of one table.

    :param watcher: its name: it keeps its place under it.
    :param poll_seconds: the pause between two looks, in seconds (Airflow keeps a trigger's arguments as JSON).
    """

    def __init__(
        self,
        table: str,
        watcher: str,
        poll_seconds: float = 10.0,
        store_conn_id: str | None = None,
        catalog_conn_id: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.table = table
        self.watcher = watcher
        self.poll_seconds = poll_seconds
        self.store_conn_id = store_conn_id
        self.catalog_conn_id = catalog_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        names = ("table", "watcher", "poll_seconds", "store_conn_id", "catalog_conn_id")
        return "airflow_snowpack.triggers.table_watcher.TableWatcherTrigger", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Airflow runs the stream instead, since this trigger has one."""
        raise NotImplementedError("TableWatcherTrigger works through its shared stream.")
        yield  # makes it an asynchronous generator, as the base class declares it

    def shared_stream_key(self) -> Hashable:
        """A stream for each watcher of each table: each has its own place."""
        return ("snowpack", self.store_conn_id, self.catalog_conn_id, self.table, self.watcher)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        """What reads the table, and is told what Airflow has stored."""
        return ArrivalProducer(kwargs)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        """Every arrival is an event."""
        async for payload in shared_stream:
            yield event_of(payload)


def _payload(table: str, arrival: Arrival, expired: int) -> dict[str, Any]:
    """What the event tells.

    :param expired: how many snapshots before this one were expired unread.
    """
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
