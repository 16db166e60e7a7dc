"""What is on record: tables, who needs them, and what names point to. It reads, and never writes.

registry.tables(dag_id="flights", limit=20)
registry.table("lake.snowpack_interim.flights_clean_5f0c3a9e4b7d4c21a8f6").pins
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableNotFound
from airflow_snowpack.interim.model import InterimPolicy, InterimTable, TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.rows import READY, RUN, TABLE, run_key, table_from
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.tables.interim import interim_names, interim_pins, interim_refs, interim_runs, interim_tables

SILENT_AFTER = 3
"""So many heartbeats a reading misses before it is reported as silent."""
ID = re.compile(r"[0-9a-f]{32}")
IDS: sa.BindParameter[Any] = sa.bindparam("b_ids", expanding=True)
NAMED = (
    sa.select(interim_tables)
    .join(interim_names, interim_names.c.table_id == TABLE.table_id)
    .where(interim_names.c.name == sa.bindparam("b_name"), interim_names.c.run_key == sa.bindparam("b_run_key"), READY)
)
PINS_OF = (
    sa.select(interim_pins.c.table_id, RUN.dag_id, RUN.run_id, interim_pins.c.task_id)
    .join(interim_runs, RUN.run_key == interim_pins.c.run_key)
    .where(interim_pins.c.table_id.in_(IDS))
)
READERS_OF = sa.select(interim_refs.c.table_id, interim_refs.c.lease_until).where(interim_refs.c.table_id.in_(IDS))
NAMES_OF = sa.select(interim_names.c.table_id).where(interim_names.c.table_id.in_(IDS))
LOOKS_AT = sa.select(RUN.run_key, RUN.check_at).where(RUN.run_key.in_(sa.bindparam("b_run_keys", expanding=True)))


class InterimListing:
    """Reads what is on record."""

    def __init__(self, store: Store, policy: InterimPolicy | None = None) -> None:
        self.store = store
        self.policy = policy or InterimPolicy()

    def tables(
        self,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
        state: TableState | None = None,
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> list[InterimTable]:
        """The newest first.

        :param before: ``(created_at, table_id)`` of the last one of the page before.
        """
        query = sa.select(interim_tables).order_by(TABLE.created_at.desc(), TABLE.table_id.desc()).limit(limit)
        if dag_id is not None and run_id is not None:
            query = query.where(TABLE.run_key == run_key(dag_id, run_id))
        elif dag_id is not None:
            query = query.where(TABLE.dag_id == storable(dag_id))
        elif run_id is not None:
            query = query.where(TABLE.run_id == storable(run_id))
        if state is not None:
            query = query.where(TABLE.state == state.value)
        if before is not None:
            at, table_id = before
            query = query.where(TABLE.created_at <= at, sa.or_(TABLE.created_at < at, TABLE.table_id < storable(table_id)))
        return self._described(query)

    def table(self, asked: str) -> InterimTable:
        """One table, by its id, its own name or its whole name.

        :raises InterimTableNotFound: there is none.
        """
        text = storable(asked)
        is_id = ID.fullmatch(text) is not None
        found = self._described(
            sa.select(interim_tables).where(TABLE.table_id == text if is_id else TABLE.table_name == text.rpartition(".")[2])
        )
        # The own name is unique over all catalogs and namespaces; who says more has to say it right.
        if not found or not (is_id or f".{found[0].table}".endswith(f".{text}")):
            raise InterimTableNotFound(asked)
        return found[0]

    def named(self, name: str, *, scope: Scope = Scope.RUN, dag_id: str = "", run_id: str = "") -> TableRef:
        """The table that a name points to now; ``consume_named`` also keeps it from going.

        :param dag_id, run_id: the run whose name it is, for :attr:`Scope.RUN`.
        :raises InterimTableNotFound: the name points to nothing.
        """
        row = self.store.read(lambda conn: find_named(conn, name, scope, dag_id, run_id))
        if row is None:
            raise InterimTableNotFound(name, "" if scope is Scope.GLOBAL else f" in the run {run_id!r} of the DAG {dag_id!r}")
        return table_from(row).ref

    def _described(self, query: sa.Select[Any]) -> list[InterimTable]:
        return self.store.read(lambda conn: self._describe(conn, conn.execute(query).all()))

    def _describe(self, conn: sa.Connection, rows: Sequence[Any]) -> list[InterimTable]:
        """Return the tables of these rows with the tasks that need them, without readings that missed three heartbeats."""
        heard_of = self.store.clock() + self.policy.lease - SILENT_AFTER * self.policy.heartbeat
        return describe(conn, rows, heard_of=max(heard_of, self.store.clock()))


def find_named(conn: sa.Connection, name: str, scope: Scope, dag_id: str, run_id: str) -> Any:
    """The row of the table that a name points to, if it is there."""
    return conn.execute(NAMED, {"b_name": storable(name), "b_run_key": name_key(scope, dag_id, run_id)}).first()


def name_key(scope: Scope, dag_id: str, run_id: str) -> str:
    """Whose name it is: a run's, or everybody's."""
    return "" if scope is Scope.GLOBAL else run_key(dag_id, run_id)


def describe(conn: sa.Connection, rows: Sequence[Any], *, heard_of: datetime) -> list[InterimTable]:
    """Return the tables of these rows with the tasks that need them.

    :param heard_of: the lease of a reading whose task still renews it ends after this moment.
    """
    if not rows:
        return []
    ids = {"b_ids": [row.table_id for row in rows]}
    pins: dict[str, list[str]] = defaultdict(list)
    for pin in conn.execute(PINS_OF, ids):
        pins[pin.table_id].append(f"{pin.dag_id}/{pin.run_id}/{pin.task_id}")
    readings = conn.execute(READERS_OF, ids).all()
    readers = Counter(each.table_id for each in readings if each.lease_until > heard_of)
    silent = Counter(each.table_id for each in readings if each.lease_until <= heard_of)
    named = set(conn.execute(NAMES_OF, ids).scalars())
    keys = {"b_run_keys": sorted({row.run_key for row in rows})}
    looks: dict[str, datetime | None] = {row.run_key: row.check_at for row in conn.execute(LOOKS_AT, keys)}
    return [
        table_from(
            row,
            pins=pins[row.table_id],
            readers=readers[row.table_id],
            silent_readers=silent[row.table_id],
            is_named=row.table_id in named,
            check_at=looks.get(row.run_key),
        )
        for row in rows
    ]
