"""The sweeper: finds interim tables and folders that no row knows, such as a write that went through after it was given up.

    for action in sweep(registry, catalog, "lake", older_than=timedelta(days=1), dry_run=True):
        print(action.kind, action.name, action.since)

The invariants: nothing is touched whose name does not look like one that was given here, that is on record, that is younger than
the threshold, or that **another store** has marked as its own, to which what this one has on record says nothing; every action is
planned before the first is taken, and one that fails stops no other.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.catalog import connection_errors, unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.interim.collection.dropping import Folder, folder_of_namespace
from airflow_snowpack.interim.errors import ForeignNamespace
from airflow_snowpack.interim.names import is_ours
from airflow_snowpack.interim.ownership import Ownership, ownership_of
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.interim.rows import TABLE
from airflow_snowpack.store import Store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

OLDER_THAN = timedelta(days=1)
NAMES_AT_ONCE = 500
ON_RECORD: sa.Select[Any] = sa.select(TABLE.table_name).where(TABLE.table_name.in_(sa.bindparam("b_names", expanding=True)))


class SweepKind(StrEnum):
    """What is swept."""

    TABLE = "table"
    """A table of the catalog, with its folder."""
    FOLDER = "folder"
    """Files that no table has."""


@dataclass(frozen=True, slots=True)
class SweepAction:
    """One thing that is swept.

    :param name: the table's own name, which is the folder's name too.
    :param location: the folder; ``None`` when the table did not tell.
    :param since: when it was last written.
    :param error: why it is still there, after it was tried.
    """

    kind: SweepKind
    name: str
    location: str | None
    since: datetime
    error: str | None = None


def sweep(
    registry: InterimRegistry,
    catalog: Catalog,
    catalog_name: str,
    *,
    older_than: timedelta = OLDER_THAN,
    dry_run: bool = False,
) -> list[SweepAction]:
    """Drop what no row knows.

    :param catalog_name: what this installation calls the catalog.
    :param older_than: only what was last written before that.
    :param dry_run: only list it.
    :returns: the actions, each with its error if it failed.
    :raises CatalogUnreachable: the catalog does not answer.
    :raises ForeignNamespace: the namespace is another store's; nothing was touched.
    """
    before, namespace = registry.store.clock() - older_than, registry.policy.namespace
    try:
        planned = list(_plan(registry, catalog, catalog_name, before))
    except connection_errors() as error:
        raise CatalogUnreachable(catalog_name, error) from error
    return planned if dry_run else [_swept(catalog, namespace, action) for action in planned]


def _plan(registry: InterimRegistry, catalog: Catalog, catalog_name: str, before: datetime) -> Iterator[SweepAction]:
    namespace = registry.policy.namespace
    ownership = ownership_of(catalog, namespace, registry.store.identity)
    if ownership.is_foreign:
        raise ForeignNamespace(catalog_name, namespace, str(ownership.owner))
    tables = _tables(catalog, namespace)
    # Nothing speaks for a folder but the namespace around it.
    around = folder_of_namespace(catalog, namespace) if ownership.is_own else None
    folders = [] if around is None else [name for name in around.children() if is_ours(name) and name not in tables]
    known = _on_record(registry, [*tables, *folders])
    for name in tables:
        if name not in known and (action := _table(catalog, namespace, name, ownership)) is not None and action.since < before:
            yield action
    for name in folders:
        if around is None or name in known:
            continue
        folder = Folder(f"{around.location}/{name}", catalog.properties)
        since = folder.newest()
        if since is not None and since < before and _is_nobodys(folder, ownership):
            yield SweepAction(SweepKind.FOLDER, name, folder.location, since)


def _is_nobodys(folder: Folder, ownership: Ownership) -> bool:
    """Whether no table of another store can be here: one in another catalog, with the same warehouse, of the same namespace."""
    try:
        properties = folder.table_properties()
    except unreadable_errors() as error:
        log.warning("interim_not_swept: nobody can tell whose the files in %s are: %s", folder.location, error)
        return False
    return ownership.has(properties or {})


def _tables(catalog: Catalog, namespace: str) -> list[str]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        names = [identifier[-1] for identifier in catalog.list_tables(tuple(namespace.split(".")))]
    except NoSuchNamespaceError:
        return []
    return sorted(name for name in names if is_ours(name))


def _on_record(registry: InterimRegistry, names: list[str]) -> Collection[str]:
    known: set[str] = set()
    for start in range(0, len(names), NAMES_AT_ONCE):
        known.update(_known_of(registry.store, names[start : start + NAMES_AT_ONCE]))
    return known


def _known_of(store: Store, names: list[str]) -> Collection[str]:
    return store.read(lambda conn: conn.execute(ON_RECORD, {"b_names": names}).scalars().all())


def _table(catalog: Catalog, namespace: str, name: str, ownership: Ownership) -> SweepAction | None:
    """A table, and when it was last written; ``None`` when it is another store's or nobody can tell, so that it stays."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = catalog.load_table((*namespace.split("."), name))
        if not ownership.has(table.properties):
            log.info("interim_not_swept: %s.%s is another store's, or nobody's", namespace, name)
            return None
        since = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, tz=UTC)
        return SweepAction(SweepKind.TABLE, name, table.location(), since)
    except NoSuchTableError:
        return None  # dropped since it was listed
    except unreadable_errors() as error:
        around = folder_of_namespace(catalog, namespace) if ownership.is_own else None
        folder = None if around is None else Folder(f"{around.location}/{name}", catalog.properties)
        written = None if folder is None else folder.newest()
        if folder is None or written is None:
            log.warning(
                "interim_not_swept: the metadata of %s.%s cannot be read, and its age is unknown: %s", namespace, name, error
            )
            return None
        return SweepAction(SweepKind.TABLE, name, folder.location, written)


def _swept(catalog: Catalog, namespace: str, action: SweepAction) -> SweepAction:
    passing: tuple[type[Exception], ...] = (SnowpackError, *connection_errors(), *unreadable_errors())
    try:
        if action.kind is SweepKind.TABLE:
            _drop(catalog, namespace, action)
        if action.location is not None and (folder := Folder(action.location, catalog.properties)).is_own_of(action.name):
            folder.delete()
    except passing as error:
        log.warning("interim_not_swept: %s %s", action.kind, action.name, exc_info=True)
        return replace(action, error=f"{type(error).__name__}: {error}")
    log.info("interim_swept: %s %s, last written %s", action.kind, action.name, action.since)
    return action


def _drop(catalog: Catalog, namespace: str, action: SweepAction) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    with suppress(NoSuchTableError):  # somebody else swept it
        catalog.drop_table((*namespace.split("."), action.name))
