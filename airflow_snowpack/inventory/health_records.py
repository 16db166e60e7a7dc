"""Stores the health of each table, so that an unchanged table is not read again.

    records = HealthRecords(store)
    record = records.current(table, metadata_location, bounds)       # None: read the table
    records.read(table, loaded, bounds)                              # stored health of this metadata, or health read now
    records.get(tables)                                              # thousands of tables in few statements

The invariant: a table has one record, with the newest health that was read or the reason why it could not be read. Older health
never replaces newer health. The history has a row for each stored health, and only the last of each day before
:data:`THIN_AFTER`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.description import TableDescription, describe_health
from airflow_snowpack.iceberg.errors import TableUnreadable
from airflow_snowpack.iceberg.health import HealthBounds, Score, TableHealth, read_health, score
from airflow_snowpack.iceberg.health.encoding import FORMAT, decode, encode
from airflow_snowpack.iceberg.locations import is_written_once
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import OWNER
from airflow_snowpack.store import Store, row_mapper, storable, storable_error, upsert
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.fleet import fleet_tables
from airflow_snowpack.store.tables.health import table_health, table_health_history

if TYPE_CHECKING:
    from pyiceberg.table import Table

THIN_AFTER = timedelta(days=30)
OWNERS = (OWNER, f"snowpack.{OWNER}")
PLANNED = sa.select(fleet_tables.c.table_key).where(fleet_tables.c.table_key == table_health.c.table_key).scalar_subquery()
CURRENT = RetainedRows(
    table_health,
    age=table_health.c.read_at,
    order=(table_health.c.read_at, table_health.c.table_key),
    # However old a record is: a pass over the fleet does not read an unchanged table again.
    unneeded=PLANNED.is_(None),
)
HISTORY = RetainedRows(
    table_health_history,
    age=table_health_history.c.read_at,
    order=(table_health_history.c.read_at, table_health_history.c.table_key),
)
KINDS = (CURRENT, HISTORY)
"""Rows that are deleted when they are old. A table without stored health is read again when needed."""


@dataclass(frozen=True)
class HealthRecord:
    """The stored record of one table.

    :param metadata_location: the metadata file that was read; empty if the table could not be loaded.
    :param health: ``None`` if the table could not be read.
    :param problem: why it could not be read.
    """

    metadata_location: str
    read_at: datetime
    health: TableHealth | None
    problem: str | None = None

    @cached_property
    def score(self) -> Score | None:
        """The score of the health; ``None`` without health."""
        return None if self.health is None else score(self.health)


@dataclass(frozen=True, slots=True)
class HealthPoint:
    """The numbers of a table at one time, for charts."""

    read_at: datetime
    metadata_location: str
    score: int
    data_files: int
    small_files: int
    delete_files: int
    bytes: int
    records: int
    manifests: int
    snapshots: int


_record = row_mapper(HealthRecord, health=lambda row: None if row.document is None else decode(row.document))
_point = row_mapper(HealthPoint)
USABLE = sa.or_(table_health.c.format == FORMAT, table_health.c.problem.is_not(None))
"""Health in the format of another release counts as not stored."""
READ = sa.select(table_health).where(USABLE)


class HealthRecords:
    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, tables: Collection[TableName]) -> dict[TableName, HealthRecord]:
        """Return the stored records of these tables, in one statement per thousand; tables without a record are left out."""
        named = {table.lock_key: table for table in tables}
        return {named[row.table_key]: _record(row) for row in self._store.all_by_key(READ, table_health.c.table_key, named)}

    def read(self, name: TableName, table: Table, bounds: HealthBounds | None = None) -> TableHealth:
        """Return the health of a loaded table: the stored health of this metadata, or health that is read and stored now.

        :param bounds: what the health must have been read with; ``None`` accepts any, and reads with the defaults.
        :raises TableUnreadable: a file that the metadata names is missing or damaged; the reason is stored.
        """
        location = table.metadata_location
        # A name without a UUID, such as v3.metadata.json, may have been reused for another table.
        stored = self.current(name, location, bounds) if is_written_once(location) else None
        if stored is not None and stored.health is not None:
            return stored.health
        try:
            health = read_health(table, now=self._store.clock(), bounds=bounds)
        except TableUnreadable as problem:
            self.unreadable(name, location, str(problem))
            raise
        self.put(name, health)
        return health

    def described(self, table: TableName, problem: Exception) -> TableDescription:
        """Return what the stored health has of a table's metadata, which could not be read.

        :raises Exception: ``problem``, if no health is stored.
        """
        record = self.get([table]).get(table)
        if record is None or record.health is None:
            raise problem
        return describe_health(record.health)

    def current(self, table: TableName, metadata_location: str, bounds: HealthBounds | None) -> HealthRecord | None:
        """Return the stored record if it is still current.

        :param metadata_location: the table's current metadata file.
        :param bounds: what the health must have been read with; ``None`` accepts any.
        :returns: ``None`` if the table has changed, could not be read, or was read with other bounds.
        """
        same = READ.where(table_health.c.table_key == table.lock_key, table_health.c.metadata_location == metadata_location)
        row = self._store.first(same.where(table_health.c.problem.is_(None)))
        record = None if row is None else _record(row)
        if record is None or record.health is None or bounds not in (None, record.health.bounds):
            return None
        return record

    def put(self, table: TableName, health: TableHealth) -> None:
        """Store the health of a table, in one transaction, unless newer health is already stored."""
        points = score(health).total
        record = {"score": points, "problem": None, "format": FORMAT, "document": storable(encode(health))}
        owner = {name: storable(value) for name in OWNERS if (value := health.properties.get(name))} or None
        self._write(table, health.metadata_location, health.read_at, record | {"owner": owner}, history=_numbers(health, points))

    def unreadable(self, table: TableName, metadata_location: str, reason: str) -> None:
        """Store why a table cannot be read; ``metadata_location`` is empty if the table could not be loaded."""
        record = {"score": None, "problem": storable_error(reason), "format": None, "document": None}
        self._write(table, metadata_location, self._store.clock(), record)

    def history(self, table: TableName, days: int) -> list[HealthPoint]:
        """Return the table's numbers of the last ``days`` days, oldest first."""
        since = self._store.clock() - timedelta(days=days)
        h = table_health_history.c
        query = sa.select(table_health_history).where(h.table_key == table.lock_key, h.read_at >= since).order_by(h.read_at)
        return [_point(row) for row in self._store.all(query)]

    def _write(
        self,
        table: TableName,
        metadata_location: str,
        read_at: datetime,
        record: dict[str, Any],
        history: dict[str, Any] | None = None,
    ) -> None:
        key = {"table_key": table.lock_key, "read_at": read_at, "metadata_location": storable(metadata_location)}
        named = {"catalog": table.catalog_id or table.catalog, "table_name": table.dotted}
        changed = ("metadata_location", "read_at", *record)
        put = upsert(table_health, changed, where=table_health.c.read_at <= read_at).values(**key, **named, **record)

        def write(conn: sa.Connection) -> None:
            # First, because its row blocks other processes that store health of this table.
            is_newest = conn.execute(put.returning(table_health.c.table_key)).first() is not None
            if is_newest and history is not None:
                _add_to_history(conn, {**key, **history})

        self._store.transact(write)


def _add_to_history(conn: sa.Connection, point: dict[str, Any]) -> None:
    """Add the newest row of a table and thin out its old rows."""
    h, read_at = table_health_history.c, point["read_at"]
    of_table = h.table_key == point["table_key"]
    day = read_at.replace(hour=0, minute=0, second=0, microsecond=0)
    earlier = sa.update(table_health_history).where(of_table, h.read_at >= day, h.read_at < read_at, h.last_of_day)
    conn.execute(earlier.values(last_of_day=False))
    conn.execute(upsert(table_health_history, [*point, "last_of_day"]).values(**point, last_of_day=True))
    old = h.read_at < read_at - THIN_AFTER
    conn.execute(sa.delete(table_health_history).where(of_table, sa.not_(h.last_of_day), old))


def _numbers(health: TableHealth, points: int) -> dict[str, Any]:
    return {
        "score": points,
        "data_files": health.data_files,
        "small_files": health.small_files,
        "delete_files": health.delete_files,
        "bytes": health.bytes,
        "records": health.records,
        "manifests": health.data_manifests + health.delete_manifests,
        "snapshots": len(health.snapshots),
    }
