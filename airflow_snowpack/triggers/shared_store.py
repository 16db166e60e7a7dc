"""The stores that a triggerer has open: one for all triggers that use the same database.

A triggerer runs hundreds of triggers in one process, and a connection pool for each of them would use up Postgres. The
stores live as long as the process; nothing closes them in between, since the next trigger would open them again. Each has one
connection, for which the threads take turns, as in the process of a task.

    store = StoreReads(store_conn_id)
    status = await store.get(read_statuses, job_id)

The invariant: **a round of triggers that wait for the same kind of thing is one read.**
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.triggers.shared_reads import SharedReads, shared_reads

if TYPE_CHECKING:
    from airflow_snowpack.store import Store

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


_stores: dict[str, Store] = {}
_opening = Lock()


async def shared_store(store_conn_id: str | None) -> Store:
    """The store of a connection; ``None`` for the installation's.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
    :raises StoreUnreachable, SchemaOutOfDate, UnknownRevision: from the store.
    """
    return await asyncio.to_thread(_open, await _url(store_conn_id))


class StoreReads:
    """What one trigger reads from the store, together with the other triggers of the process.

    :param store_conn_id: ``None`` for the installation's.
    """

    def __init__(self, store_conn_id: str | None) -> None:
        self._conn_id = store_conn_id
        self._url: str | None = None
        self._reads: dict[Any, SharedReads[Any, Any]] = {}

    async def get(self, read: Callable[[Store, frozenset[K]], Mapping[K, V | Exception]], key: K) -> V:
        """Return what is read under a key.

        :param read: a function of a module: the triggers that give the same one are served together.
        :raises StoreUnreachable: the store does not answer, which is in the log.
        """
        from airflow_snowpack.store import StoreUnreachable

        if self._url is None:
            self._url = await _url(self._conn_id)
        url, mine = self._url, (self._url, read)
        if mine not in self._reads:
            self._reads[mine] = shared_reads(mine, lambda keys: read(_open(url), keys), "the store")
        try:
            found: dict[K, V] = await self._reads[mine].get([key])
        except StoreUnreachable:
            self._url = None  # its Airflow connection may have changed
            raise
        return found[key]


def one_by_one(keys: Collection[K], read: Callable[[K], V]) -> dict[K, V | Exception]:
    """Read keys one after the other: what fails for one is the error of that one alone.

    :raises StoreUnreachable: the store does not answer, so that the others need not try.
    """
    from airflow_snowpack.store import StoreUnreachable

    found: dict[K, V | Exception] = {}
    for key in keys:
        try:
            found[key] = read(key)
        except StoreUnreachable:
            raise
        except Exception as problem:  # noqa: BLE001 - it is raised in the trigger that requested this key
            found[key] = problem
    return found


async def _url(store_conn_id: str | None) -> str:
    return (await SnowpackHook(store_conn_id).url_in_trigger()).render_as_string(hide_password=False)


def _open(url: str) -> Store:
    from airflow_snowpack.store import open_store

    with _opening:
        if url not in _stores:
            _stores[url] = open_store(url, of_a_task=True)
        return _stores[url]
