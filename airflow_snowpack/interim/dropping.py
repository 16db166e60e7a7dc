"""Drops one interim table: out of the catalog first, then everything in its own folder. No JVM is needed.

    why_not = Dropper(open_catalog, lambda: store.identity).drop(doomed, locate=partial(ledger.locate, doomed))

The invariants: it may be done again after a kill at any moment, and finds what is left. A table that was handed on and that the
catalog does not have at the first try was dropped by nobody here: its files stay, since another catalog may have it. A table that
carries another store's id stays too. The files of a table that does not stand in a folder of its own are deleted one by one, as
its metadata names them.
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
