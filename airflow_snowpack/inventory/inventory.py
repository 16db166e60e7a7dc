"""The tables of the catalog as last listed.

    inventory = Inventory(store, "lake", lambda: config.load(limit=ANSWER_WITHIN))
    inventory.refresh()
    inventory.require(table)          # TableNotFound, with tables of similar place
    inventory.tables(search="page")   # from the store, even while the catalog is down

The invariant: a listing replaces the previous one in one transaction, and only if it was read to its end: a failure is an error,
never a shorter list. If the catalog does not answer, the tables stay and :attr:`InventoryState.problem` has the reason. Tables
that this package cannot name (with a space, for example) and namespaces that the catalog refuses to list are logged and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.catalog import load_table
from airflow_snowpack.iceberg.errors import WrongCatalog
from airflow_snowpack.iceberg.listing import LeftOut, list_tables, log_left_out
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.store import Store, StoreError, insert, storable, storable_error, upsert
from airflow_snowpack.store.prepared import PreparedStatement
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.store.tables.jobs import inventory_refreshes, inventory_tables
from airflow_snowpack.store.worker import Worker

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

REFRESH_EVERY = timedelta(minutes=5)
ANSWER_WITHIN = timedelta(seconds=4)
"""How long a REST catalog may take for each response to an inventory: ``config.load(limit=ANSWER_WITHIN)``."""
LEFT_OUT_KEPT = 50

HAS = PreparedStatement(
    sa.select(inventory_tables.c.table_key).where(inventory_tables.c.table_key == sa.bindparam("b_key", type_=sa.Text))
)
"""Runs at each submission."""


@dataclass(frozen=True, slots=True)
class InventoryState:
    """The state of the inventory.

    :param refreshed_at: when the catalog was last listed; ``None`` for never.
    :param tried_at: when a listing was last attempted, successfully or not; ``None`` for never.
    :param problem: why the last attempt failed; ``None`` if it succeeded.
    :param left_out: the first :data:`LEFT_OUT_KEPT` of ``left_out_count`` tables and namespaces that the package cannot handle.
    """

    tables: int
    refreshed_at: datetime | None = None
    tried_at: datetime | None = None
    problem: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    left_out_count: int = 0


class Inventory:
    """The tables of one catalog.

    :param catalog_name: as in ``catalog.database.table``.
    :param load_catalog: connects to the catalog on first use; may raise ``CatalogUnreachable``.
    :param read_id: returns the catalog's ``catalog_id``; empty while it cannot be determined.
    """

    def __init__(
        self, store: Store, catalog_name: str, load_catalog: Callable[[], Catalog], read_id: Callable[[], str] = str
    ) -> None:
        self._store = store
        self.catalog_name = catalog_name
        self._load_catalog = load_catalog
        self._read_id = read_id
        self._id = ""
        self._catalog: Catalog | None = None

    @property
    def catalog_id(self) -> str:
        """The catalog's id; read once, and again after a failed listing."""
        self._id = self._id or self._read_id()
        return self._id

    @property
    def _key(self) -> str:
        """The key of the catalog's rows; the name alone is ambiguous, because two catalogs may share it."""
        return f"{self.catalog_name}@{self.catalog_id}" if self.catalog_id else self.catalog_name

    def table(self, database: str, table: str) -> TableName:
        """:raises InvalidTableName: it is not a valid name."""
        return TableName(self.catalog_name, database, table, self.catalog_id)

    def catalog(self) -> Catalog:
        """Return the catalog, connecting to it on first use.

        :raises CatalogUnreachable: it does not answer.
        """
        if self._catalog is None:
            self._catalog = self._load_catalog()
        return self._catalog

    def refresh(self) -> InventoryState:
        """List the catalog. After an error the inventory is unchanged, and its state has the problem.

        :raises CatalogUnreachable: the catalog did not answer.
        :raises SnowpackError: the catalog could not be loaded for another reason.
        """
        try:
            left_out: list[LeftOut] = []
            listed = list(list_tables(self.catalog(), self.catalog_name, left_out))
        except StoreError:
            raise
        except SnowpackError as problem:
            self._catalog, self._id = None, ""
            values = {"tried_at": self._store.clock(), "problem": storable_error(str(problem))}
            self._store.transact(lambda conn: self._write_state(conn, values))
            raise
        log_left_out(left_out)
        self._replace(listed, left_out)
        return self.state()

    def refresh_if_older(self, age: timedelta = REFRESH_EVERY) -> bool:
        """Refresh if no process that shares the store has tried for this long, or for a quarter of it after a failure.

        A first listing without a result counts as failed: its process was killed or lost the store, and no API is ready yet.

        :raises CatalogUnreachable: as :meth:`refresh`.
        """
        if not self._store.transact(lambda conn: self._claim_refresh(conn, age)):
            return False
        self.refresh()
        return True

    def require(self, table: TableName) -> str | None:
        """Check that the table exists, in the inventory or else in the catalog.

        :returns: the uuid of the table if it was looked up in the catalog.
        :raises WrongCatalog: the table is in another catalog.
        :raises TableNotFound: neither has it.
        :raises CatalogUnreachable, TableUnreadable: the inventory does not have it, and the catalog gives no useful answer.
        """
        if self.has(table):
            return None
        if table.catalog_id != self.catalog_id:
            raise WrongCatalog(table.dotted, table.catalog, table.catalog_id, self.catalog_id)
        found = load_table(self.catalog(), table)
        self._store.transact(lambda conn: self._insert(conn, [table]))
        return str(found.metadata.table_uuid)

    def has(self, table: TableName) -> bool:
        """Return whether the inventory has the table, without reading the catalog."""
        if table.catalog_id != self.catalog_id:
            return False
        key = {"b_key": self._row_key(table)}
        return self._store.read(lambda conn: HAS.first(conn, key)) is not None

    def tables(
        self, *, database: str | None = None, search: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[TableName]:
        """Return tables in the order of their names.

        :param search: part of ``database.table``, ignoring case.
        :param after: the ``database.table`` after which the page starts.
        """
        query = sa.select(inventory_tables).where(*self.conditions(database, search, after))
        rows = self._store.all(query.order_by(inventory_tables.c.table_key).limit(limit))
        return [self.table(row.database_name, row.table_name) for row in rows]

    def conditions(self, database: str | None, search: str | None, after: str | None = None) -> list[sa.ColumnElement[bool]]:
        """Return the conditions for the rows of this catalog that match the filter of :meth:`tables`."""
        t = inventory_tables.c
        where = [t.catalog == self._key]
        if database is not None:
            where.append(t.database_name == storable(database))
        if search:
            dotted = t.database_name + "." + t.table_name
            where.append(sa.func.lower(dotted).contains(storable(search).lower(), autoescape=True))
        if after is not None:
            where.append(t.table_key > f"{self._key}.{storable(after)}")
        return where

    def state(self) -> InventoryState:
        """Return the age of the listing and the problem of the last attempt."""
        mine = inventory_tables.c.catalog == self._key
        how_many = sa.select(sa.func.count()).select_from(inventory_tables).where(mine)
        latest = sa.select(inventory_refreshes).where(inventory_refreshes.c.catalog == self._key)

        def read(conn: sa.Connection) -> InventoryState:
            tables, row = conn.execute(how_many).scalar_one(), conn.execute(latest).first()
            if row is None:
                return InventoryState(tables)
            kept = row.left_out or {"count": 0, "first": []}
            left_out = tuple(LeftOut(name, reason) for name, reason in kept["first"])
            return InventoryState(tables, row.refreshed_at, row.tried_at, row.problem, left_out, kept["count"])

        return self._store.read(read)

    def _replace(self, listed: list[TableName], left_out: list[LeftOut]) -> None:
        """Replace the whole listing: tables that are gone are deleted, those that stay keep ``first_seen_at``."""
        keys = {self._row_key(table) for table in listed}
        mine = sa.select(inventory_tables.c.table_key).where(inventory_tables.c.catalog == self._key)
        ordered = sorted(left_out, key=lambda each: not each.name.endswith(".*"))  # a namespace has many tables
        first = [[storable(each.name), each.reason] for each in ordered[:LEFT_OUT_KEPT]]
        kept = {"count": len(left_out), "first": first} if left_out else None

        def write(conn: sa.Connection) -> None:
            # First, because its row makes a second listing wait; otherwise two listings could deadlock on their tables.
            now = self._store.clock()
            self._write_state(conn, {"tried_at": now, "refreshed_at": now, "problem": None, "left_out": kept})
            gone = [{"b_key": key} for key in conn.execute(mine).scalars() if key not in keys]
            if gone:
                conn.execute(sa.delete(inventory_tables).where(inventory_tables.c.table_key == sa.bindparam("b_key")), gone)
            self._insert(conn, listed)

        self._store.transact(write)

    def _claim_refresh(self, conn: sa.Connection, age: timedelta) -> bool:
        """Return whether a refresh is due and this process is the first to start it."""
        now, tried_at = self._store.clock(), inventory_refreshes.c.tried_at
        failed = sa.or_(inventory_refreshes.c.problem.is_not(None), inventory_refreshes.c.refreshed_at.is_(None))
        due = sa.or_(tried_at <= now - age, sa.and_(failed, tried_at <= now - age / 4))
        turn = upsert(inventory_refreshes, ["tried_at"], where=due).values(catalog=self._key, tried_at=now)
        return conn.execute(turn.returning(inventory_refreshes.c.catalog)).first() is not None

    def _insert(self, conn: sa.Connection, tables: list[TableName]) -> None:
        new = {"catalog": self._key, "first_seen_at": self._store.clock()}
        rows = [
            new | {"table_key": self._row_key(table), "database_name": table.database, "table_name": table.table}
            for table in tables
        ]
        if rows:
            conn.execute(insert(inventory_tables).on_conflict_do_nothing(), rows)

    def _row_key(self, table: TableName) -> str:
        return f"{self._key}.{table.dotted}"

    def _write_state(self, conn: sa.Connection, values: dict[str, Any]) -> None:
        conn.execute(upsert(inventory_refreshes, values), {"catalog": self._key, **values})


def refresher(inventory: Inventory, every: timedelta = REFRESH_EVERY, sign: SignOfLife | None = None) -> Worker:
    """Return the role that refreshes the inventory at once and then periodically, in one of the processes that share a store."""

    def refresh() -> None:
        inventory.refresh_if_older(every)

    failure = "inventory_not_refreshed"
    return Worker(refresh, name="snowpack-inventory", failure=failure, every=every / 4, sign=sign, sign_of_process=True)
