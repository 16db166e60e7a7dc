"""The stores that a triggerer has open: one for all triggers that look at the same database.

A triggerer runs hundreds of triggers in one process, and a connection pool for each of them would use up Postgres. The
stores live as long as the process; nothing closes them in between, since the next trigger would open them again.

    store = await shared_store(store_conn_id)
    job = await asyncio.to_thread(Jobs(store).get, job_id)
"""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING

from airflow_snowpack.hooks.store import SnowpackHook

if TYPE_CHECKING:
    from airflow_snowpack.store import Store

_stores: dict[str, Store] = {}
_opening = Lock()


async def shared_store(store_conn_id: str | None) -> Store:
    """The store of a connection; ``None`` for the installation's.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: from the Airflow connection.
    :raises StoreUnreachable, SchemaOutOfDate, UnknownRevision: from the store.
    """
    url = await SnowpackHook(store_conn_id).url_in_trigger()
    return await asyncio.to_thread(_open, url.render_as_string(hide_password=False))


def _open(url: str) -> Store:
    from airflow_snowpack.store import open_store

    with _opening:
        if url not in _stores:
            _stores[url] = open_store(url)
        return _stores[url]
