"""All tables of a catalog.

    for table in list_tables(catalog, "lake"):
        ...

The invariant: who reads the listing to its end has seen every namespace that the catalog lets us see; whatever stands in the way
of that is an error, and never a shorter list. Tables whose names are not names of this package (with a space in them, say) are
left out and logged: no request could name them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, InvalidTableName
from airflow_snowpack.iceberg.names import LEVEL, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

Namespace = tuple[str, ...]


def list_tables(catalog: Catalog, catalog_name: str) -> Iterator[TableName]:
    """The tables of every namespace, namespaces within namespaces included.

    :param catalog_name: what this installation calls the catalog.
    :raises CatalogUnreachable: it does not answer, or lets us look into none of its namespaces.
    """
    from pydantic import ValidationError
    from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError

    # A namespace that is not there was dropped since it was listed, or somebody else answers in the catalog's place.
    unfinished: tuple[type[Exception], ...] = (NoSuchNamespaceError, ValidationError, *connection_errors())
    seen, forbidden = 0, None
    try:
        for namespace in _namespaces(catalog):
            try:
                identifiers = catalog.list_tables(namespace)
            except ForbiddenError as refusal:
                log.warning("Left out of the inventory: namespace %s, which is refused: %s", ".".join(namespace), refusal)
                forbidden = refusal
                continue
            seen += 1
            yield from (name for identifier in identifiers if (name := _name(identifier, catalog_name)) is not None)
    except unfinished as error:
        raise CatalogUnreachable(catalog.name, error) from error
    if forbidden is not None and not seen:
        raise CatalogUnreachable(catalog.name, forbidden)


def _namespaces(catalog: Catalog) -> Iterator[Namespace]:
    """Each namespace once, whether the catalog lists the direct children of one or all that are below it."""
    seen: set[Namespace] = {()}
    parents: list[Namespace] = [()]
    while parents:
        for found in catalog.list_namespaces(parents.pop()):
            namespace = tuple(found)
            if namespace in seen:
                continue
            seen.add(namespace)
            if all(LEVEL.fullmatch(level) for level in namespace):
                parents.append(namespace)
                yield namespace
            else:
                log.warning("Left out of the inventory: namespace %r, which no table name here can have", ".".join(namespace))


def _name(identifier: Namespace, catalog_name: str) -> TableName | None:
    try:
        return TableName(catalog_name, ".".join(identifier[:-1]), identifier[-1])
    except InvalidTableName as problem:
        log.warning("Left out of the inventory: %s", problem)
        return None
