"""List the tables of a catalog, and name what cannot be listed.

left_out: list[LeftOut] = []
tables = list(list_tables(catalog, "lake", left_out))
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, InvalidTableName
from airflow_snowpack.iceberg.names import LEVEL, MAX_LENGTH, TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

Namespace = tuple[str, ...]
NAMES = "Each part of a name must start with a letter or an underscore and go on with letters, digits, underscores and hyphens"
TOO_LONG = f"A name has {MAX_LENGTH} characters at most, with its catalog"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table, or a namespace with all its tables, that is missing from the listing; ``reason`` has no full stop."""

    name: str
    reason: str


def list_tables(catalog: Catalog, catalog_name: str, left_out: list[LeftOut]) -> Iterator[TableName]:
    """Yield the tables of every namespace, nested ones included.

    :param catalog_name: this installation's name for the catalog.
    :param left_out: receives what the listing cannot have.
    :raises CatalogUnreachable: the catalog does not answer, or refuses access to all of its namespaces.
    """
    from pydantic import ValidationError
    from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError

    # A missing namespace was dropped since it was listed, or the catalog's address belongs to another service.
    unfinished: tuple[type[Exception], ...] = (NoSuchNamespaceError, ValidationError, *connection_errors())
    seen, forbidden = 0, None
    try:
        for namespace in _namespaces(catalog, left_out):
            try:
                identifiers = catalog.list_tables(namespace)
            except ForbiddenError as refusal:
                left_out.append(LeftOut(f"{'.'.join(namespace)}.*", "The catalog refuses to list this namespace"))
                forbidden = refusal
                continue
            seen += 1
            yield from (name for identifier in identifiers if (name := _name(identifier, catalog_name, left_out)) is not None)
    except unfinished as error:
        raise CatalogUnreachable(catalog.name, error) from error
    if forbidden is not None and not seen:
        raise CatalogUnreachable(catalog.name, forbidden)


def log_left_out(left_out: Iterable[LeftOut]) -> None:
    """Log what a listing left out, for a caller that does not show it."""
    for each in left_out:
        log.warning("table_left_out: %s: %s", each.name, each.reason)


def _namespaces(catalog: Catalog, left_out: list[LeftOut]) -> Iterator[Namespace]:
    """Yield each namespace once; a catalog may list only the direct children of a namespace, or all its descendants."""
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


def _name(identifier: Namespace, catalog_name: str, left_out: list[LeftOut]) -> TableName | None:
    try:
        return TableName(catalog_name, ".".join(identifier[:-1]), identifier[-1])
    except InvalidTableName:
        left_out.append(LeftOut(".".join(identifier), TOO_LONG if all(map(LEVEL.fullmatch, identifier)) else NAMES))
        return None
