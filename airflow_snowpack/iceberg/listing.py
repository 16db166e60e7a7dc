"""All tables of a catalog.

    left_out = []
    for table in list_tables(catalog, "lake", left_out):
        ...
    [each.name for each in left_out]      # ['sales.2024 totals']

The invariant: a complete listing contains every namespace that the catalog shows to us; an obstacle
is an error, never a shorter list. Tables whose names are not names of this package (with a space, for example), and
namespaces that the catalog refuses, are logged and reported as left out: no request could name them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, InvalidTableName
from airflow_snowpack.iceberg.names import LEVEL, MAX_LENGTH, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

Namespace = tuple[str, ...]
NAMES = "Each part of a name must start with a letter or an underscore and go on with letters, digits, underscores and hyphens"
TOO_LONG = f"A name has {MAX_LENGTH} characters at most, with its catalog"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table, or a namespace with all its tables, that the listing does not have.

    :param reason: for people, without a full stop.
    """

    name: str
    reason: str


def list_tables(catalog: Catalog, catalog_name: str, left_out: list[LeftOut]) -> Iterator[TableName]:
    """The tables of every namespace, namespaces within namespaces included.

    :param catalog_name: what this installation calls the catalog.
    :param left_out: gets what the listing cannot have.
    :raises CatalogUnreachable: it does not answer, or lets us look into none of its namespaces.
    """
    from pydantic import ValidationError
    from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError

    # A missing namespace was dropped since it was listed, or another service responds at the catalog's address.
    unfinished: tuple[type[Exception], ...] = (NoSuchNamespaceError, ValidationError, *connection_errors())
    seen, forbidden = 0, None
    try:
        for namespace in _namespaces(catalog, left_out):
            try:
                identifiers = catalog.list_tables(namespace)
            except ForbiddenError as refusal:
                log.warning("Left out of the inventory: namespace %s, which is refused: %s", ".".join(namespace), refusal)
                left_out.append(LeftOut(f"{'.'.join(namespace)}.*", "The catalog refuses to list this namespace"))
                forbidden = refusal
                continue
            seen += 1
            yield from (name for identifier in identifiers if (name := _name(identifier, catalog_name, left_out)) is not None)
    except unfinished as error:
        raise CatalogUnreachable(catalog.name, error) from error
    if forbidden is not None and not seen:
        raise CatalogUnreachable(catalog.name, forbidden)


def _namespaces(catalog: Catalog, left_out: list[LeftOut]) -> Iterator[Namespace]:
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
                left_out.append(LeftOut(f"{'.'.join(namespace)}.*", NAMES))
                log.warning("Left out of the inventory: namespace %r, which no table name here can have", ".".join(namespace))


def _name(identifier: Namespace, catalog_name: str, left_out: list[LeftOut]) -> TableName | None:
    try:
        return TableName(catalog_name, ".".join(identifier[:-1]), identifier[-1])
    except InvalidTableName as problem:
        left_out.append(LeftOut(".".join(identifier), TOO_LONG if all(map(LEVEL.fullmatch, identifier)) else NAMES))
        log.warning("Left out of the inventory: %s", problem)
        return None
