"""Drops one interim table: out of the catalog first, then everything in its own folder. No JVM is needed.

    why_not = Dropper(open_catalog, lambda: store.identity).drop(doomed, locate=partial(collector_store.locate, doomed))

The invariants: it may be done again after a kill at any moment, and finds what is left. A table that was handed on and that the
catalog does not have at the first try was dropped by nobody here: its files stay, since another catalog may have it. A table that
carries another store's id stays too. The files of a table that does not stand in a folder of its own are deleted one by one, as
its metadata names them.
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
from airflow_snowpack.iceberg.locations import SCHEME, normalise
from airflow_snowpack.interim.collection.model import Doomed
from airflow_snowpack.interim.errors import DropFailed
from airflow_snowpack.interim.names import is_ours
from airflow_snowpack.interim.ownership import STORE

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


OpenCatalog = Callable[[str], "Catalog"]
GONE = "It was already gone from the catalog {catalog!r}; what is left of its files was not touched."
FOREIGN = "It carries the id of another store ({owner}), so it was left alone: this store is a copy of that one, or was."


class Dropper:
    """Drops tables, for as long as one pass lasts.

    :param open_catalog: opens a catalog by the name that this installation has for it.
    :param store_id: gives the id of the store that has the tables on record.
    """

    def __init__(self, open_catalog: OpenCatalog, store_id: Callable[[], str]) -> None:
        self._open = open_catalog
        self._store_id = store_id
        self._catalogs: dict[str, Catalog] = {}
        self._down: dict[str, CatalogUnreachable] = {}

    def drop(self, doomed: Doomed, locate: Callable[[str], None]) -> str | None:
        """Drop a table, or what is left of it.

        :param locate: keeps the folder on record, before the catalog forgets it.
        :returns: why there was nothing to drop, which nobody expects; ``None`` when it is gone by this.
        :raises DropFailed: it may still be there.
        """
        name = doomed.table.catalog
        away: tuple[type[Exception], ...] = (CatalogUnreachable, *connection_errors())
        refused: tuple[type[Exception], ...] = (SnowpackError, *unreadable_errors())
        if name in self._down:  # a catalog that is down takes its time to say so; once a pass is enough
            raise DropFailed(str(doomed.table), self._down[name])
        try:
            return self._drop(self._catalog(name), doomed, locate)
        except away as error:
            self._down[name] = error if isinstance(error, CatalogUnreachable) else CatalogUnreachable(name, error)
            raise DropFailed(str(doomed.table), self._down[name]) from error
        except refused as error:
            raise DropFailed(str(doomed.table), error) from error

    def _catalog(self, name: str) -> Catalog:
        if name not in self._catalogs:
            self._catalogs[name] = self._open(name)
        return self._catalogs[name]

    def _drop(self, catalog: Catalog, doomed: Doomed, locate: Callable[[str], None]) -> str | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        unknown = (NoSuchTableError, NoSuchNamespaceError)
        table: Table | None = None
        try:
            with suppress(*unreadable_errors()):  # its metadata was deleted before: then the record knows more
                table = catalog.load_table(doomed.table.identifier)
        except unknown:
            # A later try finds what an earlier one has left: not the table, perhaps, but its files.
            if doomed.handed_on and doomed.drops == 1:
                return GONE.format(catalog=doomed.table.catalog)
        if table is not None and (owner := table.properties.get(STORE)) not in (None, self._store_id()):
            return FOREIGN.format(owner=owner)
        folder = _folder(catalog, doomed, table)
        own = folder is not None and folder.is_own_of(doomed.table.table)
        if own and folder is not None and folder.location != doomed.location:
            locate(folder.location)
        with suppress(*unknown):  # never created, or dropped by a pass that was killed
            if own or folder is None:
                catalog.drop_table(doomed.table.identifier)
            else:
                catalog.purge_table(doomed.table.identifier)
        if own and folder is not None:
            folder.delete()
        return None


def _folder(catalog: Catalog, doomed: Doomed, table: Table | None) -> Folder | None:
    """Where its files are: as the table itself says, else as it was on record, else where the catalog would have put it."""
    if table is not None:
        return Folder(table.location(), table.io.properties)
    if doomed.location is not None:
        return Folder(doomed.location, catalog.properties)
    around = folder_of_namespace(catalog, doomed.table.database)
    return None if around is None else Folder(f"{around.location}/{doomed.table.table}", catalog.properties)


METADATA_FILE = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")


@dataclass(frozen=True, slots=True)
class Folder:
    """A place that may hold files.

    :param properties: of the table's or the catalog's file access; may hold secrets.
    """

    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """Its last part."""
        return posixpath.basename(normalise(self.location))

    def is_own_of(self, table_name: str) -> bool:
        """Whether nothing but this interim table can be in it."""
        return is_ours(table_name) and self.name == table_name

    def delete(self) -> bool:
        """Delete it and everything below; ``False``: there was nothing.

        :raises ValueError: no interim table's folder is called like this.
        """
        if not is_ours(self.name):
            raise ValueError(f"{self.location!r} is not the folder of an interim table, and is not deleted.")
        from pyarrow.fs import FileType

        system, path = self._opened()
        if system.get_file_info(path).type is not FileType.Directory:
            return False
        system.delete_dir(path)
        return True

    def children(self) -> list[str]:
        """The names of the folders right below."""
        from pyarrow.fs import FileSelector, FileType

        system, path = self._opened()
        found = system.get_file_info(FileSelector(path, recursive=False, allow_not_found=True))
        return sorted(info.base_name for info in found if info.type is FileType.Directory)

    def newest(self) -> datetime | None:
        """When the last of its files was written; for a folder without files, when it was changed itself, if that is known."""
        from pyarrow.fs import FileSelector, FileType

        system, path = self._opened()
        below = system.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        files = [info for info in below if info.type is FileType.File]
        moments = [info.mtime_ns for info in files or [system.get_file_info(path)] if info.mtime_ns is not None]
        return datetime.fromtimestamp(max(moments) / 1e9, tz=UTC) if moments else None

    def table_properties(self) -> Mapping[str, str] | None:
        """Those of the table whose files these are, as its newest metadata file says; ``None``: no table was ever made of them.

        :raises OSError, ValueError: the file cannot be read.
        """
        from pyarrow.fs import FileSelector
        from pyiceberg.io.pyarrow import PyArrowFileIO
        from pyiceberg.serializers import FromInputFile

        system, path = self._opened()
        found = system.get_file_info(FileSelector(f"{path}/metadata", recursive=False, allow_not_found=True))
        names = sorted(info.base_name for info in found if METADATA_FILE.search(info.base_name))
        if not names:
            return None
        file = PyArrowFileIO(dict(self.properties)).new_input(f"{self.location}/metadata/{names[-1]}")
        return FromInputFile.table_metadata(file).properties

    def _opened(self) -> tuple[Any, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, authority, path = PyArrowFileIO.parse_location(self.location, dict(self.properties))
        return PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, authority), path


def folder_of_namespace(catalog: Catalog, namespace: str) -> Folder | None:
    """Where new tables of a namespace go, if the catalog tells: Spark's and PyIceberg's SQL catalogs agree on that."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        location = catalog.load_namespace_properties(tuple(namespace.split("."))).get("location")
    except NoSuchNamespaceError:
        location = None
    warehouse = catalog.properties.get("warehouse")
    if location is None and warehouse and (SCHEME.fullmatch(warehouse) or warehouse.startswith("/")):
        location = "/".join((warehouse.rstrip("/"), *namespace.split(".")))
    return None if location is None else Folder(location.rstrip("/"), catalog.properties)
