"""The sweeper finds interim tables and folders without a record: a write that succeeded after it was abandoned, for example.

    for action in sweep(registry, catalog, "lake", older_than=timedelta(days=1), dry_run=True):
        print(action.kind, action.name, action.since)

Invariants: the sweeper touches only what has a name given here, has no record, is older than the threshold, and was not marked by
**another store**. Every action is planned before the first is executed, and a failed action does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_snowpack.durations import format_duration
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.catalog import connection_errors, unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.interim.collection.dropping import Folder, folder_of_namespace
from airflow_snowpack.interim.errors import ForeignNamespace
from airflow_snowpack.interim.names import is_ours
from airflow_snowpack.interim.ownership import AUDIT_SUBJECT, Ownership, ownership_of
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.interim.rows import TABLE
from airflow_snowpack.store import Actor, write_audit

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

DEFAULT_AGE = timedelta(days=1)


class SweepKind(StrEnum):
    """What is swept."""

    TABLE = "table"
    """A table of the catalog, with its folder."""
    FOLDER = "folder"
    """Files that belong to no table."""


@dataclass(frozen=True, slots=True)
class SweepAction:
    """A table or folder to sweep.

    :param name: the table's own name, which is also the folder's name.
    :param location: the folder; ``None`` if the table does not report it.
    :param since: when it was last written.
    :param error: why it still exists after an attempt.
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
    older_than: timedelta = DEFAULT_AGE,
    dry_run: bool = False,
    actor: Actor | None = None,
) -> list[SweepAction]:
    """Drop tables and folders without a record.

    :param catalog_name: this installation's name for the catalog.
    :param older_than: only what was last written longer ago.
    :param dry_run: only list them.
    :param actor: the user who requested it, for the audit trail; the entry is written before anything is dropped.
    :returns: the actions, each with its error if it failed.
    :raises CatalogUnreachable: the catalog does not answer.
    :raises ForeignNamespace: the namespace belongs to another store; nothing was touched.
    """
    store, before = registry.store, registry.store.clock() - older_than
    if actor is not None and not dry_run:
        detail = {"older_than": format_duration(older_than)}
        store.transact(lambda conn: write_audit(conn, store, actor, "sweep_interim", AUDIT_SUBJECT, **detail))
    try:
        planned = list(_plan(registry, catalog, catalog_name, before))
    except connection_errors() as error:
        raise CatalogUnreachable(catalog_name, error) from error
    return planned if dry_run else [_sweep_one(catalog, registry.policy.namespace, action) for action in planned]


def _plan(registry: InterimRegistry, catalog: Catalog, catalog_name: str, before: datetime) -> Iterator[SweepAction]:
    namespace = registry.policy.namespace
    ownership = ownership_of(catalog, namespace, registry.store.identity)
    if ownership.is_foreign:
        raise ForeignNamespace(catalog_name, namespace, str(ownership.owner))
    tables = _tables(catalog, namespace)
    # Only the namespace determines the owner of a folder.
    around = folder_of_namespace(catalog, namespace) if ownership.is_own else None
    folders = [] if around is None else [name for name in around.children() if is_ours(name) and name not in tables]
    on_record = registry.store.all_by_key(sa.select(TABLE.table_name), TABLE.table_name, [*tables, *folders])
    known = {row.table_name for row in on_record}
    for name in tables:
        if name not in known and (action := _table_action(catalog, namespace, name, ownership, around)) and action.since < before:
            yield action
    for name in folders:
        if around is None or name in known:
            continue
        folder = Folder(f"{around.location}/{name}", catalog.properties)
        since = folder.newest()
        if since is not None and since < before and _is_own(folder, ownership):
            yield SweepAction(SweepKind.FOLDER, name, folder.location, since)


def _is_own(folder: Folder, ownership: Ownership) -> bool:
    """Return whether the folder cannot hold another store's table, from a catalog with the same warehouse and namespace."""
    try:
        properties = folder.table_properties()
    except unreadable_errors() as error:
        log.warning("interim_not_swept: the owner of the files in %s is unknown: %s", folder.location, error)
        return False
    return ownership.has(properties or {})


def _tables(catalog: Catalog, namespace: str) -> list[str]:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        names = [identifier[-1] for identifier in catalog.list_tables(tuple(namespace.split(".")))]
    except NoSuchNamespaceError:
        return []
    return sorted(name for name in names if is_ours(name))


def _table_action(catalog: Catalog, namespace: str, name: str, ownership: Ownership, around: Folder | None) -> SweepAction | None:
    """Return a table with its last write; ``None``, to keep it, if another store owns it or its age is unknown."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = catalog.load_table((*namespace.split("."), name))
        if not ownership.has(table.properties):
            log.info("interim_not_swept: %s.%s belongs to another store, or to none", namespace, name)
            return None
        since = datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, tz=UTC)
        return SweepAction(SweepKind.TABLE, name, table.location(), since)
    except NoSuchTableError:
        return None  # dropped since it was listed
    except unreadable_errors() as error:
        folder = None if around is None else Folder(f"{around.location}/{name}", catalog.properties)
        if folder is None or (written := folder.newest()) is None:
            what = "interim_not_swept: the metadata of %s.%s cannot be read, and its age is unknown: %s"
            log.warning(what, namespace, name, error)
            return None
        return SweepAction(SweepKind.TABLE, name, folder.location, written)


def _sweep_one(catalog: Catalog, namespace: str, action: SweepAction) -> SweepAction:
    from pyiceberg.exceptions import NoSuchTableError

    passing: tuple[type[Exception], ...] = (SnowpackError, *connection_errors(), *unreadable_errors())
    try:
        if action.kind is SweepKind.TABLE:
            with suppress(NoSuchTableError):  # another sweeper was faster
                catalog.drop_table((*namespace.split("."), action.name))
        if action.location is not None and (folder := Folder(action.location, catalog.properties)).is_own_of(action.name):
            folder.delete()
    except passing as error:
        log.warning("interim_not_swept: %s %s", action.kind, action.name, exc_info=True)
        return replace(action, error=f"{type(error).__name__}: {error}")
    log.info("interim_swept: %s %s, last written %s", action.kind, action.name, action.since)
    return action
