"""How a trigger reaches the Iceberg catalog: the connection is read by the event loop, and the catalog is loaded in a thread.

load = await catalog_loader(catalog_conn_id)
catalog = await asyncio.to_thread(load)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog


async def catalog_loader(catalog_conn_id: str | None) -> Callable[[], Catalog]:
    """What connects to a catalog; ``None`` for the installation's.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableAddress: from the Airflow connection.
    """
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

    return (await IcebergCatalogHook(catalog_conn_id).config_in_trigger()).load
