"""Reads what is on record: tables, the tasks that need them, and what names point to.

page = registry.page(dag_id="flights", limit=50)
registry.page(dag_id="flights", limit=50, after=page.next)
registry.table("lake.snowpack_interim.flights_clean_5f0c3a9e4b7d4c21a8f6").pins
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableNotFound
from airflow_snowpack.interim.model import InterimPolicy, InterimTable, TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.rows import NAME, PIN, READY, REF, RUN, TABLE, ids, name_from, producer_from, ref_from, run_key
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.mapping import row_mapper
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.tables.interim import interim_names, interim_runs, interim_tables

MISSED_HEARTBEATS = 3
"""A reading that missed this many heartbeats is reported as silent."""
NEWEST_FIRST = Keyset(TABLE.created_at, TABLE.table_id, descending=True)
ID = re.compile(r"[0-9a-f]{32}")
NAMED = (
    sa.select(interim_tables)
    .join(interim_names, NAME.table_id == TABLE.table_id)
    .where(NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"), READY)
)
PINS_OF = (
    sa.select(PIN.table_id, RUN.dag_id, RUN.run_id, PIN.task_id)
    .join(interim_runs, RUN.run_key == PIN.run_key)
    .where(PIN.table_id.in_(ids()))
)
READERS_OF = sa.select(REF.table_id, REF.lease_until).where(REF.table_id.in_(ids()))
NAMES_OF = sa.select(NAME.table_id).where(NAME.table_id.in_(ids()))
LOOKS_AT = sa.select(RUN.run_key, RUN.check_at).where(RUN.run_key.in_(ids("b_run_keys")))


class InterimListing:
    """Reads the registry.

    :param policy: where tables go, and how long leases last.
    """

    def __init__(self, store: Store, policy: InterimPolicy | None = None) -> None:
        self.store = store
        self.policy = policy or InterimPolicy()

    def page(
        self,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
        state: TableState | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[InterimTable]:
        """Return a page of the tables that match, the newest first.

        :param after: the ``next`` of the page before.
        :raises InvalidCursor: no page returned this cursor.
        """
        query = sa.select(interim_tables).where(*NEWEST_FIRST.beyond(after)).order_by(*NEWEST_FIRST.order()).limit(limit + 1)
        if dag_id is not None and run_id is not None:
            query = query.where(TABLE.run_key == run_key(dag_id, run_id))
        elif dag_id is not None:
            query = query.where(TABLE.dag_id == storable(dag_id))
        elif run_id is not None:
            query = query.where(TABLE.run_id == storable(run_id))
        if state is not None:
            query = query.where(TABLE.state == state.value)
        rows = self.store.all(query)
        tables = {table.table_id: table for table in self.store.read(lambda conn: self._describe(conn, rows[:limit]))}
        return NEWEST_FIRST.page(rows, limit, lambda row: tables[row.table_id])

    def tables(self, **filters: Any) -> list[InterimTable]:
        """Return the tables of one :meth:`page`."""
        return list(self.page(**filters).items)

    def table(self, wanted: str) -> InterimTable:
        """Return one table, by its id, its own name or its full name.

        :raises InterimTableNotFound: there is none.
        """
        text = storable(wanted)
        is_id = ID.fullmatch(text) is not None
        query = sa.select(interim_tables)
        rows = self.store.all(query.where(TABLE.table_id == text if is_id else TABLE.table_name == text.rpartition(".")[2]))
        # The own name is unique over all catalogs and namespaces; a longer name has to match in full.
        if not rows or not (is_id or f".{name_from(rows[0])}".endswith(f".{text}")):
            raise InterimTableNotFound(wanted)
        return self.store.read(lambda conn: self._describe(conn, rows))[0]

    def named(self, name: str, *, scope: Scope = Scope.RUN, dag_id: str = "", run_id: str = "") -> TableRef:
        """Return the table that a name points to now; ``consume_named`` also keeps it from being dropped.

        :param dag_id: of the run whose name it is, for :attr:`Scope.RUN`; likewise ``run_id``.
        :raises InterimTableNotFound: the name points to no table.
        """
        row = self.store.read(lambda conn: find_named(conn, name, scope, dag_id, run_id))
        if row is None:
            raise InterimTableNotFound(name, "" if scope is Scope.GLOBAL else f" in the run {run_id!r} of the DAG {dag_id!r}")
        return ref_from(row)

    def _describe(self, conn: sa.Connection, rows: Sequence[Any]) -> list[InterimTable]:
        """Return the tables of these rows, with pins, readers and names."""
        if not rows:
            return []
        now, these = self.store.clock(), {"b_ids": [row.table_id for row in rows]}
        # The lease of a reading that has missed no more than these heartbeats ends after this time.
        renewed = max(now, now + self.policy.lease - MISSED_HEARTBEATS * self.policy.heartbeat)
        pins: dict[str, list[str]] = defaultdict(list)
        for pin in conn.execute(PINS_OF, these):
            pins[pin.table_id].append(f"{pin.dag_id}/{pin.run_id}/{pin.task_id}")
        readings = conn.execute(READERS_OF, these).all()
        readers = Counter(each.table_id for each in readings if each.lease_until > renewed)
        silent = Counter(each.table_id for each in readings if each.lease_until <= renewed)
        named = set(conn.execute(NAMES_OF, these).scalars())
        runs = {"b_run_keys": sorted({row.run_key for row in rows})}
        checks = {row.run_key: row.check_at for row in conn.execute(LOOKS_AT, runs)}
        table_from = row_mapper(
            InterimTable,
            {"state": TableState, "preservation": Preservation, "scope": lambda scope: None if scope is None else Scope(scope)},
            table=name_from,
            producer=producer_from,
            is_named=lambda row: row.table_id in named,
            pins=lambda row: tuple(sorted(pins[row.table_id])),
            readers=lambda row: readers[row.table_id],
            silent_readers=lambda row: silent[row.table_id],
            lease_until=lambda row: row.visible_at if row.attempt_id is not None else None,
            check_at=lambda row: checks.get(row.run_key),
            drops="attempt_count",
        )
        return [table_from(row) for row in rows]


def find_named(conn: sa.Connection, name: str, scope: Scope, dag_id: str, run_id: str) -> Any:
    """Return the row of the table that a name points to, or ``None``."""
    return conn.execute(NAMED, {"b_name": storable(name), "b_run_key": name_key(scope, dag_id, run_id)}).first()


def name_key(scope: Scope, dag_id: str, run_id: str) -> str:
    """Return the key of the run that a name is valid in; empty for a global name."""
    return "" if scope is Scope.GLOBAL else run_key(dag_id, run_id)
