"""Orphan files: files below a table's location that no metadata names; and the tables that make removing them unsafe.

    >>> conflicts = location_conflicts(catalog, name)  # doctest: +SKIP
    >>> orphans = [] if conflicts else find_orphans(table, older_than=utc_now() - timedelta(days=3))  # doctest: +SKIP

The invariant: what one table does not know may belong to another one. Iceberg's ``remove_orphan_files`` takes every file below
the location that this table does not name, live files of a table that shares or nests in the location too, so it must not run
where :func:`location_conflicts` finds anything. A file younger than the cut-off may belong to a commit that is still on its way.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.catalog import connection_errors, load_table, unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, LocationOutsideTable
from airflow_snowpack.iceberg.locations import Relation, is_inside, normalise, relation_of
from airflow_snowpack.iceberg.references import referenced_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from airflow_snowpack.iceberg.names import TableName

# Where a table may keep files outside its own location.
LOCATION_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the storage has it."""

    path: str
    bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class LocationConflict:
    """Another table whose files lie where this table's files lie.

    :param table: the other one, ``database.table``.
    :param location: where it keeps files; empty when its metadata cannot be read.
    :param relation: how that lies to this table's location; ``None`` when it cannot be known.
    """

    table: str
    location: str
    relation: Relation | None

    def __str__(self) -> str:
        if self.relation is None:
            return f"{self.table} (its metadata cannot be read, so where its files are is not known)"
        lies = {Relation.SAME: "at the same location", Relation.INSIDE: "inside it at", Relation.AROUND: "around it at"}
        return f"{self.table} ({lies[self.relation]} {self.location})"


def find_orphans(table: Table, *, older_than: datetime, location: str | None = None) -> tuple[StoredFile, ...]:
    """List what ``remove_orphan_files`` would remove; nothing is deleted here.

    :param older_than: only files that were last modified before.
    :param location: a folder inside the table's location; without it, all of that.
    :raises LocationOutsideTable: the folder is not inside the table's location.
    """
    root = location or table.location()
    if not is_inside(root, table.location()):
        raise LocationOutsideTable(root, ".".join(table.name()), table.location())
    # The listing comes first: a file that is committed in between is then known to the metadata.
    old = [file for file in _files_below(table, root) if file.modified_at < older_than]
    known = referenced_files(table) if old else frozenset()
    return tuple(file for file in old if normalise(file.path) not in known)


def location_conflicts(catalog: Catalog, name: TableName) -> tuple[LocationConflict, ...]:
    """The other tables of the catalog whose files share this table's location, lie inside it, or lie around it.

    Loads each table of the catalog. One that cannot be read counts as a conflict, because its files may be anywhere.

    :raises TableNotFound, TableUnreadable, CatalogUnreachable: this table, or the list of tables, cannot be had.
    """
    location = load_table(catalog, name).location()
    try:
        others = [identifier for identifier in _tables(catalog) if identifier != name.identifier]
    except connection_errors() as error:
        raise CatalogUnreachable(catalog.name, error) from error
    return tuple(conflict for other in others for conflict in _conflict(catalog, other, location))


def _conflict(catalog: Catalog, identifier: Identifier, location: str) -> Iterator[LocationConflict]:
    from pyiceberg.exceptions import NoSuchTableError

    name = ".".join(identifier)
    try:
        other = catalog.load_table(identifier)
    except NoSuchTableError:
        return  # Dropped since it was listed.
    except (*unreadable_errors(), *connection_errors()):
        yield LocationConflict(name, "", None)
        return
    places = (other.location(), *(other.properties.get(key) for key in LOCATION_PROPERTIES))
    related = ((place, relation_of(place, location)) for place in places if place)
    yield from (LocationConflict(name, place, relation) for place, relation in related if relation)


def _tables(catalog: Catalog, namespace: Identifier = ()) -> Iterator[Identifier]:
    for child in catalog.list_namespaces(namespace):
        if len(child) > len(namespace):
            yield from catalog.list_tables(child)
            yield from _tables(catalog, child)


def _files_below(table: Table, root: str) -> Iterator[StoredFile]:
    """The files that Iceberg would look at: none that is hidden, or in a hidden folder, by a leading ``_`` or ``.``."""
    from pyarrow.fs import FileSelector, FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    scheme, authority, path = PyArrowFileIO.parse_location(root, table.io.properties)
    io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    # PyArrow's paths have no scheme, and those of HDFS no authority either.
    prefix = root[: len(root) - len(path)] if root.endswith(path) else ""
    shown = {f"{field.name}=" for spec in table.specs().values() for field in spec.fields if field.name.startswith(("_", "."))}
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    for info in io.fs_by_scheme(scheme, authority).get_file_info(selector):
        inner = posixpath.relpath(info.path, path).split("/")
        hidden = any(part.startswith(("_", ".")) and not part.startswith(tuple(shown)) for part in inner)
        if info.type == FileType.File and not hidden:
            yield StoredFile(prefix + info.path, info.size, datetime.fromtimestamp(info.mtime_ns / 1e9, tz=UTC))
