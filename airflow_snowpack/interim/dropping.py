"""Drops one interim table: out of the catalog first, then everything in its own folder. No JVM is needed.

    Dropper(open_catalog).drop(doomed, locate=partial(ledger.locate, doomed))

The invariants: it may be done again after a kill at any moment, and finds what is left; what is not there is what was wanted. The
files of a table that does not stand in a folder of its own are deleted one by one, as its metadata names them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.catalog import connection_errors, unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable
from airflow_snowpack.interim.collected import Doomed
from airflow_snowpack.interim.errors import DropFailed
from airflow_snowpack.interim.folders import Folder, folder_of_namespace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

OpenCatalog = Callable[[str], "Catalog"]


class Dropper:
    """Drops tables, for as long as one pass lasts.

    :param open_catalog: opens a catalog by the name that this installation has for it.
    """

    def __init__(self, open_catalog: OpenCatalog) -> None:
        self._open = open_catalog
        self._catalogs: dict[str, Catalog] = {}
        self._down: dict[str, CatalogUnreachable] = {}

    def drop(self, doomed: Doomed, locate: Callable[[str], None]) -> None:
        """Drop a table, or what is left of it.

        :param locate: keeps the folder on record, before the catalog forgets it.
        :raises DropFailed: it may still be there.
        """
        name = doomed.table.catalog
        away: tuple[type[Exception], ...] = (CatalogUnreachable, *connection_errors())
        refused: tuple[type[Exception], ...] = (SnowpackError, *unreadable_errors())
        if name in self._down:  # a catalog that is down takes its time to say so; once a pass is enough
            raise DropFailed(str(doomed.table), self._down[name])
        try:
            self._drop(self._catalog(name), doomed, locate)
        except away as error:
            self._down[name] = error if isinstance(error, CatalogUnreachable) else CatalogUnreachable(name, error)
            raise DropFailed(str(doomed.table), self._down[name]) from error
        except refused as error:
            raise DropFailed(str(doomed.table), error) from error

    def _catalog(self, name: str) -> Catalog:
        if name not in self._catalogs:
            self._catalogs[name] = self._open(name)
        return self._catalogs[name]

    def _drop(self, catalog: Catalog, doomed: Doomed, locate: Callable[[str], None]) -> None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        folder = self._folder(catalog, doomed)
        own = folder is not None and folder.is_own_of(doomed.table.table)
        if own and folder is not None and folder.location != doomed.location:
            locate(folder.location)
        with suppress(NoSuchTableError, NoSuchNamespaceError):  # never created, or dropped by a pass that was killed
            if own or folder is None:
                catalog.drop_table(doomed.table.identifier)
            else:
                catalog.purge_table(doomed.table.identifier)
        if own and folder is not None:
            folder.delete()

    def _folder(self, catalog: Catalog, doomed: Doomed) -> Folder | None:
        """Where its files are: as the table itself says, else as it was on record, else where the catalog would have put it."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        # Not created, dropped before, or its metadata was deleted before: then the record knows more.
        unknown: tuple[type[Exception], ...] = (NoSuchTableError, NoSuchNamespaceError, *unreadable_errors())
        with suppress(*unknown):
            table = catalog.load_table(doomed.table.identifier)
            return Folder(table.location(), table.io.properties)
        if doomed.location is not None:
            return Folder(doomed.location, catalog.properties)
        around = folder_of_namespace(catalog, doomed.table.database)
        return None if around is None else Folder(f"{around.location}/{doomed.table.table}", catalog.properties)
