"""Connections and reads that all triggers of a process share.

    store = StoreReads(store_conn_id)
    status = await store.get(read_statuses, job_id)       # one call of read_statuses for all triggers that wait for jobs
    tables = await join_tables(stack, catalog_conn_id, names)
    found = await tables()                                # {name: table}, each table read once for all triggers
    await next_round(poll_seconds)                        # all triggers with this period continue at the same time

A triggerer runs hundreds of triggers in one event loop. The invariants: **a round of triggers is one read, however many wait**;
all triggers that use a database share one connection to it; a trigger that is cancelled, or whose table hangs, does not affect
the others; and an outage is one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from contextvars import Context
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.timed_calls import SLOW_AFTER_S

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.store import Store

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

log = logging.getLogger(__name__)

ReadBatch = Callable[[frozenset[K]], Iterable[tuple[K, "V | Exception"]]]
"""Yields the value of each key, or why it cannot be read."""

SHORTEST_ROUND_S = 0.01
CONCURRENT_BATCHES = 4


class SharedReads(Generic[K, V]):
    """Reads in a thread, one batch after the other. A batch that hangs on one of its values does not delay the others.

    :param read: reads the values of several keys; a value that is an exception is raised where it was requested.
    :param what: what is read, for the log.
    :param batches: how many may be read at a time, if some are slow: each may open a connection.
    """

    def __init__(self, read: ReadBatch[K, V], what: str, batches: int = 1) -> None:
        self._read = read
        self._what = what
        self._most = batches
        self._requested: dict[K, asyncio.Future[V]] = {}
        self._reading: asyncio.Task[None] | None = None
        self._batches: set[asyncio.Task[None]] = set()
        self._failing = Recurring(log)

    async def get(self, keys: Collection[K]) -> dict[K, V]:
        """Read the values of these keys, together with all others that are requested before the read begins.

        :raises Exception: raised by the read, or the first of these values that is an exception.
        """
        futures = {key: self._request(key) for key in keys}
        if self._requested and (self._reading is None or self._reading.done()):
            # In a separate context: its log lines belong to no single trigger.
            self._reading = asyncio.get_running_loop().create_task(self._read_batches(), context=Context())
        return {key: await asyncio.shield(future) for key, future in futures.items()}

    def _request(self, key: K) -> asyncio.Future[V]:
        if key not in self._requested:
            future = self._requested[key] = asyncio.get_running_loop().create_future()
            future.add_done_callback(_retrieve)
        return self._requested[key]

    async def _read_batches(self) -> None:
        while self._requested:
            await asyncio.sleep(0)  # after this, all triggers that continue in this round have requested their values
            batch, self._requested = self._requested, {}
            reading = asyncio.create_task(self._read_batch(batch))
            self._batches.add(reading)
            reading.add_done_callback(self._batches.discard)
            await asyncio.wait({reading}, timeout=SLOW_AFTER_S)
            while len(self._batches) >= self._most:
                await asyncio.wait(self._batches, return_when=asyncio.FIRST_COMPLETED)

    async def _read_batch(self, batch: Mapping[K, asyncio.Future[V]]) -> None:
        """Read, and set all values together: what is requested next is then one batch, too. Of a slow read, set some early."""
        found: deque[tuple[K, V | Exception]] = deque()
        reading = asyncio.create_task(asyncio.to_thread(lambda: found.extend(self._read(frozenset(batch)))))
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=SLOW_AFTER_S)
                while found:
                    key, value = found.popleft()
                    _settle(batch[key], value)
            reading.result()
        except Exception as problem:  # noqa: BLE001 - it is raised in every trigger that still waits for a value
            self._failing.failed(problem, "Triggers still wait for %s", self._what)
            for future in batch.values():
                _settle(future, problem)
        else:
            self._failing.passed()


def _settle(future: asyncio.Future[V], value: V | Exception) -> None:
    if future.done():
        return
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the exception as retrieved, in case the trigger was cancelled."""
    if not future.cancelled():
        future.exception()


_shared: WeakValueDictionary[tuple[asyncio.AbstractEventLoop, Hashable], SharedReads[Any, Any]] = WeakValueDictionary()


def shared_reads(key: Hashable, read: ReadBatch[K, V], what: str, batches: int = 1) -> SharedReads[K, V]:
    """Return the reads of this key, the same object for all triggers that use it at the same time.

    :param read, batches: see :class:`SharedReads`; those of the first trigger count.
    """
    mine = (asyncio.get_running_loop(), key)
    found = _shared.get(mine)
    if found is None:
        found = _shared[mine] = SharedReads(read, what, batches)
    return found


def _begin(begun: asyncio.Future[None]) -> None:
    if not begun.done():
        begun.set_result(None)


async def next_round(period_s: float, at_most_s: float = math.inf) -> None:
    """Sleep until the next round, which begins at the same time for all triggers with this period; ``at_most_s`` limits it."""
    loop, period = asyncio.get_running_loop(), max(SHORTEST_ROUND_S, period_s)
    now = loop.time()
    begun: asyncio.Future[None] = loop.create_future()
    timer = loop.call_at(min((now // period + 1) * period, now + at_most_s), _begin, begun)
    try:
        await begun
    finally:
        timer.cancel()


_stores: dict[str, Store] = {}
_opening = Lock()


_connections: dict[Hashable, SharedReads[Any, Any]] = {}


async def _described(read: Callable[[str | None], V], conn_id: str | None) -> V:
    """Return what an Airflow connection describes, read in a thread and once for all triggers that need it now.

    :param read: a module-level function; triggers that pass the same function share its calls.
    :raises ConnectionUnreadable: Airflow does not answer; the log has it once for all triggers.
    """
    mine = asyncio.get_running_loop(), read, conn_id
    if mine not in _connections:
        _connections[mine] = SharedReads(lambda conn_ids: one_by_one(conn_ids, read).items(), "an Airflow connection")
    found: dict[str | None, V] = await _connections[mine].get([conn_id])
    return found[conn_id]


async def shared_store(store_conn_id: str | None) -> Store:
    """Return the store of a connection, which stays open as long as the process; ``None`` for the installation's.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
    :raises ConnectionUnreadable: Airflow does not answer.
    :raises StoreUnreachable, SchemaOutOfDate, UnknownRevision: from the store.
    """
    return await asyncio.to_thread(_open, await _described(_read_url, store_conn_id))


class StoreReads:
    """The reads of one trigger from the store, shared with the other triggers of the process.

    :param store_conn_id: ``None`` for the installation's.
    """

    def __init__(self, store_conn_id: str | None) -> None:
        self._conn_id = store_conn_id
        self._url: str | None = None
        self._may_have_moved = False
        self._reads: dict[Any, SharedReads[Any, Any]] = {}

    async def get(self, read: Callable[[Store, frozenset[K]], Mapping[K, V | Exception]], key: K) -> V:
        """Return the value of a key.

        :param read: a module-level function; triggers that pass the same function share its calls.
        :raises StoreUnreachable, ConnectionUnreadable: the store or Airflow does not answer; logged once for all triggers.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from its Airflow connection.
        """
        from airflow_snowpack.connections.errors import ConnectionNotFound, ConnectionUnreadable
        from airflow_snowpack.store import StoreUnreachable

        if self._url is None or self._may_have_moved:
            try:
                self._url, self._may_have_moved = await _described(_read_url, self._conn_id), False
            except (ConnectionNotFound, ConnectionUnreadable):
                if self._url is None:
                    raise
                # Airflow's own database may be down together with the store.
        url, mine = self._url, (self._url, read)
        if mine not in self._reads:
            self._reads[mine] = shared_reads(mine, lambda keys: read(_open(url), keys).items(), "the store")
        try:
            found: dict[K, V] = await self._reads[mine].get([key])
        except StoreUnreachable:
            self._may_have_moved = True  # its Airflow connection may have changed
            raise
        return found[key]


def one_by_one(keys: Collection[K], read: Callable[[K], V]) -> dict[K, V | Exception]:
    """Read keys one after the other. An error is the value of its key alone.

    :raises StoreUnreachable, ConnectionUnreadable: the store or Airflow does not answer; no more keys are read.
    """
    from airflow_snowpack.connections.errors import ConnectionUnreadable
    from airflow_snowpack.store import StoreUnreachable

    found: dict[K, V | Exception] = {}
    for key in keys:
        try:
            found[key] = read(key)
        except (ConnectionUnreadable, StoreUnreachable):
            raise
        except Exception as problem:  # noqa: BLE001 - it is raised in the trigger that requested this key
            found[key] = problem
    return found


def _read_url(store_conn_id: str | None) -> str:
    from airflow_snowpack.hooks.store import SnowpackHook

    return SnowpackHook(store_conn_id).url().render_as_string(hide_password=False)


def _read_catalog(catalog_conn_id: str | None) -> CatalogConfig:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

    return IcebergCatalogHook(catalog_conn_id).config


def _open(url: str) -> Store:
    from airflow_snowpack.store import open_store

    with _opening:
        if url not in _stores:
            _stores[url] = open_store(url, of_a_task=True)
        return _stores[url]


async def join_broker(stack: ExitStack, catalog_conn_id: str | None) -> Broker:
    """Join the broker of a catalog until the stack closes.

    :param catalog_conn_id: ``None`` for the installation's.
    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableAddress: from the Airflow connection.
    :raises ConnectionUnreadable: Airflow does not answer; the log has it once for all triggers.
    """
    from airflow_snowpack.iceberg.broker import shared_broker

    return stack.enter_context(shared_broker(await _described(_read_catalog, catalog_conn_id)))


async def join_tables(
    stack: ExitStack, catalog_conn_id: str | None, names: frozenset[TableName]
) -> Callable[[], Awaitable[Mapping[TableName, Table]]]:
    """Return a function that reads tables together with those of all other triggers, until the stack closes.

    It raises ``TableNotFound`` and other errors of these tables, and ``CatalogUnreachable``, which the log has once.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableAddress: from the Airflow connection.
    :raises ConnectionUnreadable: Airflow does not answer; the log has it once for all triggers.
    """
    if not names:
        return _no_tables
    broker = await join_broker(stack, catalog_conn_id)
    stack.enter_context(broker.waiting_for(names))
    reads = shared_reads(broker, broker.tables, "the Iceberg catalog", CONCURRENT_BATCHES)

    async def read() -> Mapping[TableName, Table]:
        return await reads.get(names)

    return read


async def _no_tables() -> Mapping[TableName, Table]:
    return {}
