"""The registry of interim tables: which attempt writes which, which tasks need it, and which read it.

    registry = InterimRegistry(store)
    writing = registry.begin(attempt, catalog="lake")                             # on record before the table exists
    [ref] = registry.commit(Output(writing, snapshot_id=…, rows=…), consumers=task.downstream_task_ids)
    reading = registry.consume(find_refs(arguments), attempt=consumer)            # InterimTableGone, if it is too late
    registry.release(reading)
    registry.page(dag_id="flights", limit=50); registry.table("flights_clean_5f0c3a9e4b7d4c21a8f6").pins
    registry.drop(table_id, actor=Actor("vera", via="cli"))

Writers use :mod:`~airflow_snowpack.interim.outputs`, and readers :mod:`~airflow_snowpack.interim.readings`. The invariant of this
module: no change by hand drops a table that a task needs, and each such change is written together with its audit entry.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableInUse, InterimTableNotFound, InterimTableNotStuck
from airflow_snowpack.interim.model import InterimTable, Reading, TableState, Writing
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.outputs import InterimOutputs
from airflow_snowpack.interim.rows import (
    FREED,
    NAME,
    PIN,
    REF,
    RUN,
    TABLE,
    TABLES,
    ids,
    moment,
    name_from,
    nudge,
    producer_from,
    run_key,
)
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Actor, storable, write_audit
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.tables.interim import interim_names, interim_refs, interim_runs, interim_tables

MISSED_HEARTBEATS = 3
"""A reading that missed this many heartbeats is reported as silent."""
NEWEST_FIRST = Keyset(TABLE.created_at, TABLE.table_id, descending=True)
ID = re.compile(r"[0-9a-f]{32}")
PINS_OF = (
    sa.select(PIN.table_id, RUN.dag_id, RUN.run_id, PIN.task_id)
    .join(interim_runs, RUN.run_key == PIN.run_key)
    .where(PIN.table_id.in_(ids()))
)
READERS_OF = sa.select(REF.table_id, REF.lease_until).where(REF.table_id.in_(ids()))
NAMES_OF = sa.select(NAME.table_id).where(NAME.table_id.in_(ids()))
LOOKS_AT = sa.select(RUN.run_key, RUN.check_at).where(RUN.run_key.in_(ids("b_run_keys")))
RENEW_READING = sa.update(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")).values(lease_until=moment("b_until"))


def audit_subject(table_id: str) -> str:
    """Return the audit trail's name for an interim table."""
    return f"interim:{table_id}"


class InterimRegistry(InterimOutputs):
    """Keeps the tables on record, from before they exist until they are dropped."""

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

    def heartbeat(self, leased: Writing | Reading) -> bool:
        """Move the end of the lease; return ``False`` if the lease is lost: stop the work."""
        until = self.store.clock() + self.policy.lease
        if isinstance(leased, Writing):
            writing = leased
            return self.store.transact(lambda conn: TABLES.renew(conn, writing.table_id, writing.attempt_id, until))
        return self.store.execute(RENEW_READING, {"b_reading": leased.reading_id, "b_until": until}) == len(leased.tables)

    def nudge(self, dag_id: str, run_id: str, *, at_once: bool = True) -> bool:
        """Have the collector check a run in which something ended.

        :param at_once: ``False`` for a task that reports its own end before it has ended: check a few seconds later.
        :returns: ``False`` if the run has no tables, or is due by then anyway.
        """
        look_at = self.store.clock() + (timedelta(0) if at_once else self.policy.nudge_after)
        return self.store.transact(lambda conn: nudge(conn, run_key(dag_id, run_id), look_at=look_at)) > 0

    def drop(self, wanted: str, *, actor: Actor | None = None) -> InterimTable:
        """Release a table that is preserved or named; the collector drops it at its next pass.

        :param wanted: the table's id, its own name or its full name.
        :param actor: the user who requests it, for the audit trail.
        :returns: the table as it is afterwards.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableInUse: a task needs it, or is writing it.
        """
        key, now = self.table(wanted).table_id, self.store.clock()

        def write(conn: sa.Connection) -> InterimTable:
            table = self._locked(conn, key, wanted)
            _refuse_if_needed(table)
            if table.state is not TableState.DROPPING:
                dropping = {"state": TableState.DROPPING.value, "visible_at": now}
                conn.execute(sa.update(interim_tables).where(TABLE.table_id == key).values(FREED | dropping))
                conn.execute(sa.delete(interim_names).where(NAME.table_id == key))
            self._audit(conn, actor, "drop_interim", table, rows=table.rows, producer=str(table.producer))
            return replace(table, state=TableState.DROPPING, is_named=False)

        return self.store.transact(write)

    def forget(self, wanted: str, *, actor: Actor | None = None) -> InterimTable:
        """Delete the record of a table that no collector could drop; nothing else is touched.

        For a table whose catalog is gone for good. If the catalog comes back, the sweeper finds a table without a record, and
        drops it.

        :param wanted: the table's id, its own name or its full name.
        :returns: the table as it was.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableNotStuck: no drop of it has failed, or a collector is dropping it now.
        """
        key, now = self.table(wanted).table_id, self.store.clock()

        def write(conn: sa.Connection) -> InterimTable:
            table = self._locked(conn, key, wanted)
            if table.state is not TableState.DROPPING or table.error is None:
                raise InterimTableNotStuck(str(table.table), "no drop of it has failed yet", "Wait for the collector")
            if table.lease_until is not None and table.lease_until > now:
                raise InterimTableNotStuck(str(table.table), "a collector is dropping it now", "Retry in a few minutes")
            conn.execute(sa.delete(interim_tables).where(TABLE.table_id == key))
            nudge(conn, run_key(table.producer.dag_id, table.producer.run_id), look_at=now)
            self._audit(conn, actor, "forget_interim", table, location=table.location, error=table.error)
            return table

        return self.store.transact(write)

    def _locked(self, conn: sa.Connection, table_id: str, wanted: str) -> InterimTable:
        rows = conn.execute(sa.select(interim_tables).where(TABLE.table_id == table_id).with_for_update()).all()
        if not rows:
            raise InterimTableNotFound(wanted)
        return self._describe(conn, rows)[0]

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

    def _audit(self, conn: sa.Connection, actor: Actor | None, change: str, table: InterimTable, **detail: Any) -> None:
        write_audit(conn, self.store, actor, change, audit_subject(table.table_id), table=str(table.table), **detail)


def _refuse_if_needed(table: InterimTable) -> None:
    writer = [str(table.producer)] if table.state is TableState.WRITING and table.lease_until is not None else []
    needed_by = [*table.pins, *writer] or (["a task that reads it"] if table.readers or table.silent_readers else [])
    if needed_by:
        raise InterimTableInUse(str(table.table), needed_by)
