"""The registry of interim tables: which attempt writes which, which tasks need it, and which read it.

    registry = InterimRegistry(store)
    writing = registry.begin(attempt, catalog="lake")                             # on record before the table exists
    ref = registry.commit(writing, snapshot_id=…, rows=…, consumers=task.downstream_task_ids)
    reading = registry.consume(find_refs(arguments), attempt=consumer)            # InterimTableGone, if it is too late
    registry.release(reading)
    registry.drop(table_id, actor=Actor("vera", via="cli"))

Writers use :mod:`~airflow_snowpack.interim.outputs`, readers :mod:`~airflow_snowpack.interim.readings`, and lists
:mod:`~airflow_snowpack.interim.listing`. The invariant of this module: no change by hand drops a table that a task needs, and
each such change is written together with its audit entry.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableInUse, InterimTableNotFound, InterimTableNotStuck
from airflow_snowpack.interim.model import InterimTable, Reading, TableState, Writing
from airflow_snowpack.interim.outputs import InterimOutputs
from airflow_snowpack.interim.rows import FREED, NAME, REF, TABLE, TABLES, moment, nudge, run_key
from airflow_snowpack.store import Actor, write_audit
from airflow_snowpack.store.tables.interim import interim_names, interim_refs, interim_tables

RENEW_READING = sa.update(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")).values(lease_until=moment("b_until"))


def audit_subject(table_id: str) -> str:
    """Return the audit trail's name for an interim table."""
    return f"interim:{table_id}"


class InterimRegistry(InterimOutputs):
    """Keeps the tables on record, from before they exist until they are dropped."""

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

    def _audit(self, conn: sa.Connection, actor: Actor | None, change: str, table: InterimTable, **detail: Any) -> None:
        write_audit(conn, self.store, actor, change, audit_subject(table.table_id), table=str(table.table), **detail)


def _refuse_if_needed(table: InterimTable) -> None:
    writer = [str(table.producer)] if table.state is TableState.WRITING and table.lease_until is not None else []
    needed_by = [*table.pins, *writer] or (["a task that reads it"] if table.readers or table.silent_readers else [])
    if needed_by:
        raise InterimTableInUse(str(table.table), needed_by)
