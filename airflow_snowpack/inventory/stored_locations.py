"""Remembers in the store where the tables of a catalog keep their files.

    memory = stored_locations(store, table)
    location_conflicts(catalog, table, memory)

The invariant: the rows belong to one catalog, by name and ``catalog_id``. A store that does not answer makes the check load more
tables, and never makes it less strict.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_snowpack.iceberg.locations import TableLocations
from airflow_snowpack.store import StoreError, storable, upsert
from airflow_snowpack.store.tables.jobs import table_locations

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyiceberg.typedef import Identifier

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

LEVELS = "\x1f"
"""Between the levels of an identifier, as in the addresses of REST catalogs: a name may hold a dot, and not this."""


def stored_locations(store: Store, table: TableName) -> StoredLocations | None:
    """Return the memory of the table's catalog; ``None`` for a catalog without an identity, which could be any of that name."""
    return StoredLocations(store, f"{table.catalog}@{table.catalog_id}") if table.catalog_id else None


class StoredLocations:
    """The memory of the locations of one catalog's tables, by its name and identity."""

    def __init__(self, store: Store, catalog: str) -> None:
        self._store = store
        self._catalog = catalog

    def read(self) -> Mapping[Identifier, TableLocations]:
        """Return all that is remembered: one statement, so that all of it is of one moment."""
        mine = sa.select(table_locations).where(table_locations.c.catalog == self._catalog)
        try:
            rows = self._store.all(mine)
        except StoreError as away:
            log.warning("table_locations_not_read: every table of %s is loaded instead: %s", self._catalog, away)
            return {}
        found = ((row.identifier, TableLocations(row.metadata_location, tuple(row.locations), row.read_at)) for row in rows)
        return {tuple(identifier.split(LEVELS)): locations for identifier, locations in found}

    def keep(self, learned: Mapping[Identifier, TableLocations]) -> None:
        """Replace the locations of these tables, in one transaction."""
        now = self._store.clock()
        rows = [
            {
                "catalog": self._catalog,
                "identifier": LEVELS.join(table),
                "metadata_location": found.metadata_location,
                "locations": list(found.locations),
                "read_at": now,
            }
            # In one order, so that two processes that keep the same tables wait for each other instead of blocking each other.
            for table, found in sorted(learned.items())
            if _is_storable(table, found)
        ]
        self._write(upsert(table_locations, ["metadata_location", "locations", "read_at"]), rows)

    def forget(self, gone: Collection[Identifier]) -> None:
        """Drop the rows of tables that the catalog does not have any more."""
        mine = table_locations.c.catalog == self._catalog
        statement = sa.delete(table_locations).where(mine, table_locations.c.identifier == sa.bindparam("b_identifier"))
        self._write(statement, [{"b_identifier": LEVELS.join(table)} for table in sorted(gone)])

    def _write(self, statement: sa.Executable, rows: list[dict[str, object]]) -> None:
        if not rows:
            return
        try:
            self._store.execute(statement, rows)
        except StoreError as away:
            log.warning("table_locations_not_kept: the next check of %s loads these tables again: %s", self._catalog, away)


def _is_storable(table: Identifier, found: TableLocations) -> bool:
    """Return whether the database stores the text unchanged; other text is not stored, and read each time."""
    return all(storable(text) == text and LEVELS not in text for text in (*table, found.metadata_location, *found.locations))
