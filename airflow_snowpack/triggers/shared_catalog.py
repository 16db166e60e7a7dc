"""How triggers reach the Iceberg catalog: the connection is read by the event loop, and tables in a thread, for all that wait.

with ExitStack() as stack:
    tables = await join_tables(stack, catalog_conn_id, names)
    found = await tables()                     # {name: table}, read together with the tables of all other triggers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.triggers.shared_reads import shared_reads

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import ExitStack

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.iceberg.names import TableName


async def join_broker(stack: ExitStack, catalog_conn_id: str | None) -> Broker:
    """Return the broker of a catalog, until the stack closes.

    :param catalog_conn_id: ``None`` for the installation's.
    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableAddress: from the Airflow connection.
    """
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
    from airflow_snowpack.iceberg.broker import brokers

    return stack.enter_context(brokers.join(await IcebergCatalogHook(catalog_conn_id).config_in_trigger()))


async def join_tables(
    stack: ExitStack, catalog_conn_id: str | None, names: frozenset[TableName]
) -> Callable[[], Awaitable[Mapping[TableName, Table]]]:
    """Return what reads tables with those of all other triggers, until the stack closes.

    It raises ``TableNotFound`` and what else is wrong with one of these tables, and ``CatalogUnreachable``, which is in the log.

    :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection, UnusableAddress: from the Airflow connection.
    """
    if not names:
        return _no_tables
    broker = await join_broker(stack, catalog_conn_id)
    stack.enter_context(broker.waiting_for(names))
    reads = shared_reads(broker, broker.tables, "the Iceberg catalog")

    async def read() -> Mapping[TableName, Table]:
        return await reads.get(names)

    return read


async def _no_tables() -> Mapping[TableName, Table]:
    return {}
