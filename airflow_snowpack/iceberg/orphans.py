"""Orphan files: files below a table's location that no metadata names.

    >>> conflicts = location_conflicts(catalog, name)  # doctest: +SKIP
    >>> orphans = [] if conflicts else find_orphans(table, older_than=utc_now() - timedelta(days=3))  # doctest: +SKIP

The invariant: what one table does not name may belong to another one. Iceberg's ``remove_orphan_files`` removes every file below
the location that this table does not name, including live files of a table that shares or nests in the location. It must not run
where :func:`~airflow_snowpack.iceberg.foreign_files.location_conflicts` finds anything. A file younger than the cut-off may
belong to a commit in progress.
"""

from __future__ import annotations

import posixpath
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.errors import LocationOutsideTable
from airflow_snowpack.iceberg.locations import is_inside, normalise, storage_path
from airflow_snowpack.iceberg.metadata_reader import MetadataReader
from airflow_snowpack.iceberg.s3_objects import s3_objects

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileInfo
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import Table


STAT_THREADS = 16
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?=/)")
WITHOUT_AUTHORITY = ("hdfs", "viewfs")
"""The schemes whose file systems take paths that do not begin with the authority."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as the storage has it; ``modified_at`` is ``None`` if the storage does not report it."""

    path: str
    bytes: int
    modified_at: datetime | None


@dataclass(frozen=True, slots=True)
class StorageListing:
    """How many files a table's storage has, and which of them are orphans: old enough, and named by no metadata."""

    files: int
    orphans: tuple[StoredFile, ...]


def find_orphans(
    table: Table, *, older_than: datetime, location: str | None = None, reader: MetadataReader | None = None
) -> tuple[StoredFile, ...]:
    """List what ``remove_orphan_files`` would remove, as :func:`list_storage` does."""
    return list_storage(reader or MetadataReader(table), older_than=older_than, location=location).orphans


def list_storage(reader: MetadataReader, *, older_than: datetime, location: str | None = None) -> StorageListing:
    """List the files below a table's location, and which of them ``remove_orphan_files`` would remove; nothing is deleted.

    :param older_than: only files that were last modified before.
    :param location: a folder inside the table's location; ``None`` for all of it.
    :raises LocationOutsideTable: the folder is not inside the table's location.
    """
    table = reader.table
    root = location or table.location()
    if not is_inside(root, table.location()):
        raise LocationOutsideTable(root, ".".join(table.name()), table.location())
    # The listing comes first: the metadata then names a file that is committed in between.
    files = list(_files_below(table, root))
    old = [file for file in files if file.modified_at is not None and file.modified_at < older_than]
    known = reader.referenced_files() if old else frozenset()
    return StorageListing(len(files), tuple(file for file in old if normalise(file.path) not in known))


def stat_files(table: Table, paths: Sequence[str]) -> list[StoredFile | None]:
    """Read the size and the modification time of files; ``None`` for a path without a file.

    The modification time of a key with an empty part, such as ``data//1.parquet``, is unknown: PyArrow cannot read it.

    :param paths: in the table's own storage; every character in them is literal.
    :raises OSError: the storage does not answer.
    """
    if (objects := s3_objects(table.location(), table.io.properties)) is not None:
        found = objects.stat(paths)
        return [StoredFile(path, *found[path]) if path in found else None for path in paths]
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileType

    scheme, authority, _ = storage_path(table.location(), table.io.properties)
    storage = _file_io(table).fs_by_scheme(scheme, authority)

    def stat(path: str) -> StoredFile | None:
        try:
            info = storage.get_file_info(inner_path(scheme, path))
        except ArrowInvalid:
            return StoredFile(path, 0, None)
        return _stored(path, info) if info.type == FileType.File else None

    # PyArrow reads a list of paths one after another, each with a request to an object store.
    with ThreadPoolExecutor(STAT_THREADS) as pool:
        return list(pool.map(stat, paths))


def inner_path(scheme: str, path: str) -> str:
    """Return a path for PyArrow without decoding it: ``#`` and ``?`` are part of a name."""
    rest = SCHEME.sub("", path, count=1)
    if not rest.startswith("//"):
        return rest
    authority, slash, tail = rest[2:].partition("/")
    return slash + tail if scheme in (*WITHOUT_AUTHORITY, "file") else authority + slash + tail


def _files_below(table: Table, root: str) -> Iterator[StoredFile]:
    """Yield the files that Iceberg would list: neither hidden nor in a hidden folder, by a leading ``_`` or ``.``."""
    from pyarrow.fs import FileSelector, FileType

    scheme, authority, path = storage_path(root, table.io.properties)
    # PyArrow's paths have no scheme, and those of HDFS no authority.
    prefix = root[: len(root) - len(path)] if root.endswith(path) else ""
    shown = {f"{field.name}=" for spec in table.specs().values() for field in spec.fields if field.name.startswith(("_", "."))}
    selector = FileSelector(path, recursive=True, allow_not_found=True)
    for info in _file_io(table).fs_by_scheme(scheme, authority).get_file_info(selector):
        inner = posixpath.relpath(info.path, path).split("/")
        hidden = any(part.startswith(("_", ".")) and not part.startswith(tuple(shown)) for part in inner)
        if info.type == FileType.File and not hidden:
            yield _stored(prefix + info.path, info)


def _stored(path: str, info: FileInfo) -> StoredFile:
    # A storage without modification times reports none, or the epoch.
    moment = datetime.fromtimestamp(info.mtime_ns / 1e9, tz=UTC) if info.mtime_ns else None
    return StoredFile(path, info.size, moment)


def _file_io(table: Table) -> PyArrowFileIO:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    return table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
