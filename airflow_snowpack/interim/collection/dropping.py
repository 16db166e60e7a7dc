"""Drop one interim table: from the catalog first, then everything in its folder. No JVM is needed.

    why_not = Dropper(open_catalog, collector_store).drop(table)
    Folder("s3://lake/snowpack_interim/flights_clean_5f0c3a9e4b7d4c21a8f6", catalog.properties).delete()

Invariants: **a folder is deleted, with its content, only if its name can only have been given here**; any other location is
refused. A drop may be repeated after a kill at any point, and finds what is left. A committed table that is missing from the
catalog at the first attempt was dropped by another program: its files stay, because another catalog may have it. A table with
another store's id stays, too. The files of a table without a separate folder are deleted one by one, as its metadata lists them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.catalog import connection_errors, unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.iceberg.locations import SCHEME, normalise, scheme_of, storage_path
from airflow_snowpack.iceberg.s3_objects import s3_objects
from airflow_snowpack.iceberg.table_properties import STORE
from airflow_snowpack.interim.collection.collector_store import CollectorStore
from airflow_snowpack.interim.collection.model import TableToDrop
from airflow_snowpack.interim.errors import DropFailed
from airflow_snowpack.interim.names import is_ours

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

OpenCatalog = Callable[[str], "Catalog"]
MISSING = "The catalog {catalog!r} no longer had it. Any files that are left were not touched."
FOREIGN = "It carries the id of another store ({owner}), so it was left alone: this store is, or was, a copy of that one."
METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that may have files, on a local disk, S3, or any other storage that PyArrow supports.

    :param properties: the table's or the catalog's properties for file access; may contain secrets.
    """

    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return posixpath.basename(normalise(self.location))

    def is_own_of(self, table_name: str) -> bool:
        """Return whether it can contain nothing but this interim table."""
        return is_ours(table_name) and self.name == table_name

    def delete(self) -> bool:
        """Delete the folder with its content; return ``False`` if it does not exist.

        :raises ValueError: the name is not that of an interim table's folder.
        """
        if not is_ours(self.name):
            raise ValueError(f"{self.location!r} is not the folder of an interim table, and is not deleted.")
        # A folder on S3 is no object: its own key may be refused, as in the table buckets of SeaweedFS.
        if (objects := s3_objects(self.location, self.properties)) is not None:
            return objects.delete_folder(self.location)
        from pyarrow.fs import FileType

        system, path = self._open_path()
        if system.get_file_info(path).type is not FileType.Directory:
            return False
        system.delete_dir(path)
        return True

    def children(self) -> list[str]:
        """Return the names of the folders directly below."""
        return sorted(info.base_name for info in self._list() if info.type.name == "Directory")

    def newest(self) -> datetime | None:
        """Return when its newest file was written; without files, when the folder itself changed, if known."""
        system, path = self._open_path()
        files = [info for info in self._list(recursive=True) if info.is_file]
        if not files and scheme_of(self.location) == "s3":
            return None
        moments = [info.mtime_ns for info in files or [system.get_file_info(path)] if info.mtime_ns is not None]
        return datetime.fromtimestamp(max(moments) / 1e9, tz=UTC) if moments else None

    def table_properties(self) -> Mapping[str, str] | None:
        """Return the properties of the table with these files, from its newest metadata file; ``None`` if there is none.

        :raises OSError, ValueError: the file cannot be read.
        """
        from pyiceberg.serializers import FromInputFile

        from airflow_snowpack.iceberg.guarded_catalogs import LiteralFileIO

        names = sorted(info.base_name for info in self._list("/metadata") if METADATA_FILE.search(info.base_name))
        if not names:
            return None
        file = LiteralFileIO(dict(self.properties)).new_input(f"{self.location}/metadata/{names[-1]}")
        return FromInputFile.table_metadata(file).properties

    def _list(self, below: str = "", *, recursive: bool = False) -> Any:
        from pyarrow.fs import FileSelector

        system, path = self._open_path()
        return system.get_file_info(FileSelector(f"{path}{below}", recursive=recursive, allow_not_found=True))

    def _open_path(self) -> tuple[Any, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, authority, path = storage_path(self.location, self.properties)
        return PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, authority), path


def folder_of_namespace(catalog: Catalog, namespace: str) -> Folder | None:
    """Return the folder of a namespace's new tables, if known; Spark's and PyIceberg's SQL catalogs agree on it."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        location = catalog.load_namespace_properties(tuple(namespace.split("."))).get("location")
    except NoSuchNamespaceError:
        location = None
    warehouse = catalog.properties.get("warehouse")
    if location is None and warehouse and (SCHEME.fullmatch(warehouse) or warehouse.startswith("/")):
        location = "/".join((warehouse.rstrip("/"), *namespace.split(".")))
    return None if location is None else Folder(location.rstrip("/"), catalog.properties)


class Dropper:
    """Drops tables during one pass.

    :param open_catalog: opens a catalog by this installation's name for it.
    :param collector_store: records the folder of each table before the catalog forgets it.
    """

    def __init__(self, open_catalog: OpenCatalog, collector_store: CollectorStore) -> None:
        self._open = open_catalog
        self._collector_store = collector_store
        self._catalogs: dict[str, Catalog] = {}
        self._down: dict[str, CatalogUnreachable] = {}

    def drop(self, table: TableToDrop) -> str | None:
        """Drop a table, or what is left of it.

        :returns: why nothing was dropped, which is unexpected; ``None`` if the table is gone.
        :raises DropFailed: the table may still exist.
        """
        name = table.table.catalog
        away: tuple[type[Exception], ...] = (CatalogUnreachable, *connection_errors())
        refused: tuple[type[Exception], ...] = (SnowpackError, *unreadable_errors())
        if name in self._down:  # an unreachable catalog fails slowly; once per pass is enough
            raise DropFailed(str(table.table), self._down[name])
        try:
            if name not in self._catalogs:
                self._catalogs[name] = self._open(name)
            return self._drop(self._catalogs[name], table)
        except away as error:
            self._down[name] = error if isinstance(error, CatalogUnreachable) else CatalogUnreachable(name, error)
            raise DropFailed(str(table.table), self._down[name]) from error
        except refused as error:
            raise DropFailed(str(table.table), error) from error

    def _drop(self, catalog: Catalog, to_drop: TableToDrop) -> str | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        unknown, identifier = (NoSuchTableError, NoSuchNamespaceError), to_drop.table.identifier
        table: Table | None = None
        try:
            with suppress(*unreadable_errors()):  # if its metadata was already deleted, the record has more
                table = catalog.load_table(identifier)
        except unknown:
            # A later attempt finds what an earlier one left: perhaps only the files, without the table.
            if to_drop.committed and to_drop.drops == 1:
                return MISSING.format(catalog=to_drop.table.catalog)
        if table is not None and (owner := table.properties.get(STORE)) not in (None, self._collector_store.store.identity):
            return FOREIGN.format(owner=owner)
        folder = _folder(catalog, to_drop, table)
        own = folder if folder is not None and folder.is_own_of(to_drop.table.table) else None
        if own is not None and own.location != to_drop.location:
            self._collector_store.locate(to_drop, own.location)
        with suppress(*unknown):  # never created, or dropped by a pass that was killed
            if own is not None or folder is None:
                catalog.drop_table(identifier)
            else:
                catalog.purge_table(identifier)
        if own is not None:
            own.delete()
        return None


def _folder(catalog: Catalog, to_drop: TableToDrop, table: Table | None) -> Folder | None:
    """Return the folder of its files: from the table, else from the record, else where the catalog would have created it."""
    if table is not None:
        return Folder(table.location(), table.io.properties)
    if to_drop.location is not None:
        return Folder(to_drop.location, catalog.properties)
    around = folder_of_namespace(catalog, to_drop.table.database)
    return None if around is None else Folder(f"{around.location}/{to_drop.table.table}", catalog.properties)
