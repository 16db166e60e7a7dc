"""The size of the store, estimated from statistics of the database: no table is read.

    read_size(store)     # StoreSize(rows={"jobs": 120_000, ...}, bytes=73_400_320)

Postgres keeps estimates of rows and pages for its planner, updated by autovacuum. On SQLite a table counts as full from its
lowest to its highest row number; rows are deleted oldest first, so that is close to the truth for the tables that grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from airflow_snowpack.store.store import Store

POSTGRES = sa.text(
    """
    SELECT t.relname AS name,
           greatest(t.reltuples, s.n_live_tup, 0)::bigint AS rows,
           (SELECT sum(p.relpages)::bigint * current_setting('block_size')::bigint
              FROM pg_class p
             WHERE p.oid IN (t.oid, t.reltoastrelid)
                OR p.oid IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid IN (t.oid, t.reltoastrelid))) AS bytes
      FROM pg_class t LEFT JOIN pg_stat_user_tables s ON s.relid = t.oid
     WHERE t.relkind = 'r' AND t.relnamespace = current_schema()::regnamespace
     ORDER BY t.relname
    """
)
SQLITE_TABLES = sa.text(
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY name"
)
SQLITE_BYTES = sa.text("SELECT c.page_count * s.page_size FROM pragma_page_count AS c, pragma_page_size AS s")


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Estimated rows by table, and bytes of all tables and their indexes."""

    rows: Mapping[str, int]
    bytes: int


def read_size(store: Store) -> StoreSize:
    return store.read(_on_postgres if store.is_postgres else _on_sqlite)


def _on_postgres(conn: sa.Connection) -> StoreSize:
    found = conn.execute(POSTGRES).all()
    return StoreSize({row.name: row.rows for row in found}, sum(row.bytes or 0 for row in found))


def _on_sqlite(conn: sa.Connection) -> StoreSize:
    names = conn.execute(SQLITE_TABLES).scalars().all()
    # Two subqueries: SQLite finds a single min or max of the row numbers at once, but scans the table for both together.
    row = sa.literal_column("rowid", sa.Integer)
    tables = {name: sa.table(name) for name in names}
    spans = [
        sa.select(sa.literal(name), sa.select(sa.func.max(row)).select_from(table).scalar_subquery()).add_columns(
            sa.select(sa.func.min(row)).select_from(table).scalar_subquery()
        )
        for name, table in tables.items()
    ]
    rows = {name: 0 if last is None else last - first + 1 for name, last, first in conn.execute(sa.union_all(*spans))}
    return StoreSize(rows, conn.execute(SQLITE_BYTES).scalar_one())
