"""Stores where the files of tables are located.

    memory = stored_footprints(store, table)
    ForeignFiles.of(catalog, table, memory)

The invariant: the rows belong to one catalog, by name and ``catalog_id``, and include views and the tables of other catalog names
in its database. A check also reads the rows of the installation's other catalogs, which it cannot list. While the store does not
answer, a check loads more tables, and nothing is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg.footprints import Footprint, OtherTable, Remembered, TableKey
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.store import Actor, Store, StoreError, storable, upsert, write_audit
from airflow_snowpack.store.tables.jobs import table_locations

log = logging.getLogger(__name__)

STORED = ("table_uuid", "present", "former", "is_complete", "is_view", "owns_folder", "sequence")
LEVELS = "\x1f"
"""Separates the levels of an identifier, as in the URLs of REST catalogs; unlike a dot, no name contains it."""


def stored_footprints(store: Store, table: TableName) -> StoredFootprints | None:
    """Return the footprints of the table's catalog; ``None`` if it has no identity and its name alone would be ambiguous."""
    return StoredFootprints(store, table.catalog, table.catalog_id) if table.catalog_id else None


class StoredFootprints:
    def __init__(self, store: Store, name: str, catalog_id: str) -> None:
        self._store = store
        self._catalog_id = catalog_id
        self._catalog = f"{name}@{catalog_id}"

    def read(self, database: str) -> Remembered:
        """Return all stored footprints, in one statement and therefore of one moment."""
        try:
            rows = self._store.all(sa.select(table_locations))
        except StoreError as away:
            log.warning("table_footprints_not_read: every table of %s is loaded instead: %s", self._catalog, away)
            return Remembered({})
        own = {_key(row): _footprint(row) for row in rows if row.catalog == self._catalog}
        elsewhere = [_elsewhere(row) for row in rows if self._is_elsewhere(row, database)]
        return Remembered(own, elsewhere)

    def keep(self, learned: Mapping[TableKey, Footprint], database: str) -> None:
        """Replace the footprints of these tables in one transaction."""
        now = self._store.clock()
        rows = [
            {
                "catalog": self._catalog,
                "identifier": _text(key),
                "database": database,
                "metadata_location": found.metadata_location,
                "footprint": _content(found),
                "read_at": now,
            }
            # Sorted, so that two processes that store the same tables do not deadlock.
            for key, found in sorted(learned.items())
            if _is_storable(key, found)
        ]
        self._write(upsert(table_locations, ["database", "metadata_location", "footprint", "read_at"]), rows)

    def complete(self, other: OtherTable) -> None:
        """Replace the footprint of a table of another catalog, unless a check there has read it again since."""
        assert other.footprint is not None
        of = table_locations.c
        is_same = sa.and_(
            of.catalog == other.catalog,
            of.identifier == _text(other.key),
            of.metadata_location == other.footprint.metadata_location,
        )
        statement = sa.update(table_locations).where(is_same).values(footprint=sa.bindparam("b_footprint"))
        self._write(statement, [{"b_footprint": _content(other.footprint)}])

    def forget(self, gone: Collection[TableKey]) -> None:
        """Delete the rows of tables that are no longer in the catalog."""
        mine = table_locations.c.catalog == self._catalog
        statement = sa.delete(table_locations).where(mine, table_locations.c.identifier == sa.bindparam("b_identifier"))
        self._write(statement, [{"b_identifier": _text(key)} for key in sorted(gone)])

    def _is_elsewhere(self, row: Any, database: str) -> bool:
        """Return whether a row belongs to another catalog that does not share this database."""
        is_same = row.catalog.rpartition("@")[2] == self._catalog_id or (database and row.database == database)
        return not is_same

    def _write(self, statement: sa.Executable, rows: list[dict[str, object]]) -> None:
        if not rows:
            return
        try:
            self._store.execute(statement, rows)
        except StoreError as away:
            log.warning("table_footprints_not_kept: the next check of %s loads these tables again: %s", self._catalog, away)


class CatalogNotRemembered(SnowpackError, kind=Kind.NOT_FOUND):
    """Nothing is remembered of the catalog."""

    def __init__(self, catalog: str, known: Sequence[str]) -> None:
        others = f"Known are: {', '.join(known[:10])}." if known else "No catalog is known."
        super().__init__(f"This installation remembers no tables of a catalog {catalog!r:.120}. {others}")


def forget_catalog(store: Store, catalog: str, *, actor: Actor) -> int:
    """Delete what is remembered of a catalog that no longer exists, and return how many tables it had.

    A check of a catalog that still exists reads its tables again.

    :param catalog: name and identity, ``lake@3f2a91bc04de``.
    :raises CatalogNotRemembered: no table of it is stored.
    """

    def write(conn: sa.Connection) -> int:
        tables = conn.execute(sa.delete(table_locations).where(table_locations.c.catalog == storable(catalog))).rowcount
        if tables:
            write_audit(conn, store, actor, "forget_catalog", catalog, tables=tables)
        return tables

    tables = store.transact(write)
    if not tables:
        known = sa.select(table_locations.c.catalog).distinct().order_by(table_locations.c.catalog)
        raise CatalogNotRemembered(catalog, [row.catalog for row in store.all(known)])
    return tables


def _text(key: TableKey) -> str:
    return LEVELS.join((key.catalog, *key.identifier))


def _key(row: Any) -> TableKey:
    catalog, *identifier = row.identifier.split(LEVELS)
    return TableKey(catalog, tuple(identifier))


def _elsewhere(row: Any) -> OtherTable:
    key, found = _key(row), _footprint(row)
    label = f"{key.label(is_view=found.is_view)} of the catalog {row.catalog}"
    return OtherTable(label, key, found, is_current=False, is_view=found.is_view, catalog=row.catalog)


def _content(found: Footprint) -> dict[str, Any]:
    return {name: getattr(found, name) for name in STORED}


def _footprint(row: Any) -> Footprint:
    # A row of another version of this package may lack some fields and have others.
    content = {name: value for name, value in row.footprint.items() if name in STORED}
    places = {name: tuple(content[name]) for name in ("present", "former")}
    return Footprint(**{**content, **places}, metadata_location=row.metadata_location, read_at=row.read_at)


def _is_storable(key: TableKey, found: Footprint) -> bool:
    """Return whether the database stores the text unchanged; a footprint with other text is not stored, and is read each time."""
    return all(storable(text) == text and LEVELS not in text for text in _texts(key, found))


def _texts(key: TableKey, found: Footprint) -> Iterator[str]:
    yield from (key.catalog, *key.identifier, found.metadata_location, *found.places)
