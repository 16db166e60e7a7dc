"""Orphan files: files below a table's location that no metadata names.

    >>> conflicts = location_conflicts(catalog, name)  # doctest: +SKIP
    >>> orphans = [] if conflicts else find_orphans(table, older_than=utc_now() - timedelta(days=3))  # doctest: +SKIP

The invariant: what one table does not know may belong to another one. Iceberg's ``remove_orphan_files`` takes every file below
the location that this table does not name, live files of a table that shares or nests in the location too, so it must not run
where :func:`~airflow_snowpack.iceberg.locations.location_conflicts` finds anything. A file younger than the cut-off may
belong to a commit that is still on its way.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.errors import LocationOutsideTable
from airflow_snowpack.iceberg.locations import is_inside, normalise
from airflow_snowpack.iceberg.metadata_reader import MetadataReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the storage has it."""

    path: str
    bytes: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class StorageListing:
    """How many files a table's storage has, and which are orphans: old enough, and named by no metadata."""

    files: int
    orphans: tuple[StoredFile, ...]


def find_orphans(
    table: Table, *, older_than: datetime, location: str | None = None, reader: MetadataReader | None = None
) -> tuple[StoredFile, ...]:
    """List what ``remove_orphan_files`` would remove, as :func:`list_storage` does."""
    return list_storage(reader or MetadataReader(table), older_than=older_than, location=location).orphans


def list_storage(reader: MetadataReader, *, older_than: datetime, location: str | None = None) -> StorageListing:
    """List the files below a table's location, and what ``remove_orphan_files`` would remove of them; nothing is deleted here.

    :param older_than: only files that were last modified before.
    :param location: a folder inside the table's location; without it, all of that.
    :raises LocationOutsideTable: the folder is not inside the table's location.
    """
    table = reader.table
    root = location or table.location()
    if not is_inside(root, table.location()):
        raise LocationOutsideTable(root, ".".join(table.name()), table.location())
    # The listing comes first: a file that is committed in between is then known to the metadata.
    files = list(_files_below(table, root))
    old = [file for file in files if file.modified_at < older_than]
    known = reader.referenced_files() if old else frozenset()
    return StorageListing(len(files), tuple(file for file in old if normalise(file.path) not in known))


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
