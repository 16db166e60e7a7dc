"""List the tables of a catalog with their metadata locations, in as few requests as the catalog allows."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.errors import InvalidTableName
from airflow_snowpack.iceberg.listing import list_tables, log_left_out
from airflow_snowpack.iceberg.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_snowpack.iceberg import CatalogConfig
    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.iceberg.listing import LeftOut

log = logging.getLogger(__name__)


def list_catalog(
    broker: Broker, catalog: str, catalog_id: str, names: Callable[[], Iterable[TableName]]
) -> dict[TableName, str | None]:
    """Return all tables with the location of their metadata; takes one statement in a SQL catalog.

    :param catalog: the installation's name of the catalog; ``catalog_id`` identifies it.
    :param names: lists the tables of a catalog that only returns the location of a loaded table, such as :func:`list_names`.
    :returns: without tables whose names no request can have.
    :raises CatalogUnreachable: the catalog does not answer.
    """
    located = broker.locations()
    if located is None:
        return dict.fromkeys(names())
    listing: dict[TableName, str | None] = {}
    for (namespace, name), location in located.items():
        try:
            listing[TableName(catalog, namespace, name, catalog_id)] = location
        except InvalidTableName as problem:
            log.warning("table_left_out: %s", problem)
    return listing


def list_names(config: CatalogConfig, catalog: str, catalog_id: str) -> list[TableName]:
    """Return the tables of all namespaces of a catalog, without their metadata locations.

    :raises CatalogUnreachable: the catalog does not answer.
    """
    with closing(config.load()) as connected:
        left_out: list[LeftOut] = []
        listed = list(list_tables(connected, catalog, left_out))
        log_left_out(left_out)
        return [TableName(catalog, table.database, table.table, catalog_id) for table in listed]
