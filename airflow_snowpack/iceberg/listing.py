"""All tables of a catalog.

    for table in list_tables(catalog, "lake"):
        ...

Tables whose names are not names of this package (with a space in them, say) are left out and logged: no request could name them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, InvalidTableName
from airflow_snowpack.iceberg.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)


def list_tables(catalog: Catalog, catalog_name: str) -> Iterator[TableName]:
    """The tables of every namespace, namespaces within namespaces included.

    :param catalog_name: what this installation calls the catalog.
    :raises CatalogUnreachable: it does not answer.
    """
    try:
        for namespace in _namespaces(catalog, ()):
            for identifier in catalog.list_tables(namespace):
                name = _name(tuple(identifier), catalog_name)
                if name is not None:
                    yield name
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error


def _namespaces(catalog: Catalog, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for namespace in catalog.list_namespaces(parent):
        # A SQL catalog lists namespaces at all depths at once; a REST catalog the direct children.
        if len(namespace) > len(parent):
            yield tuple(namespace)
            if len(namespace) == len(parent) + 1:
                yield from _namespaces(catalog, tuple(namespace))


def _name(identifier: tuple[str, ...], catalog_name: str) -> TableName | None:
    try:
        return TableName(catalog_name, ".".join(identifier[:-1]), identifier[-1])
    except InvalidTableName as problem:
        log.warning("Left out of the inventory: %s", problem)
        return None
