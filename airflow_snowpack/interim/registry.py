"""Who makes which interim table, who needs it, and who reads it.

    registry = InterimRegistry(store)
    writing = registry.begin(holder.slot(), holder=holder, catalog="lake")     # on record before the table exists
    df.writeTo(str(writing.table)).using("iceberg").create()
    ref = registry.hand_on(writing, snapshot_id=snapshot_id, rows=rows, consumers=task.downstream_task_ids)

    reading = registry.consume(find_refs(arguments), holder=holder)           # InterimTableGone, if it came too late
    ...
    registry.release(reading)

The invariants: **every attempt writes a table of its own**, so that no late write of a dead one reaches what its successor handed
on; a table is on record before it exists; it is handed on, with a pin for each consumer, in one transaction that carries the
attempt's fence; and who reads a table holds it, in a transaction that no drop can pass.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.errors import (
    InterimTableInUse,
    InterimTableNotFound,
    InterimTableNotStuck,
    InvalidInterimTable,
    StaleInterimAttempt,
)
from airflow_snowpack.interim.model import Holder, InterimTable, Reading, Slot, TableState, Writing
from airflow_snowpack.interim.names import Scope, name_of
from airflow_snowpack.interim.outputs import InterimHandingOn, found
from airflow_snowpack.interim.rows import (
    ABANDON,
    ADD_TABLE,
    FREED,
    IS_ON_RECORD,
    RENEW_READING,
    SUPERSEDE,
    TABLE,
    TABLES,
    TAKE_SLOT,
    nudge,
    run_key,
    slot_values,
    started,
    table_values,
    touch,
)
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import repeatable, storable
from airflow_snowpack.store.tables.interim import interim_names, interim_tables

log = logging.getLogger(__name__)

GIVEN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
LONGEST_GIVEN = 100


class InterimRegistry(InterimHandingOn):
    """Keeps the tables on record, from before they exist until they are dropped."""

    def begin(
        self,
        slot: Slot,
        *,
        holder: Holder,
        catalog: str,
        name: str | None = None,
        scope: Scope = Scope.RUN,
        preservation: Preservation = Preservation.NONE,
        ttl: timedelta | None = None,
    ) -> Writing:
        """Announce a table, and take the slot over from whichever attempt had it. The table is to be created afterwards.

        :param catalog: where the table is to be, as this installation calls the catalog.
        :param name: what others may find the table by, once it is handed on.
        :param ttl: for how long it is preserved (``FULL``), or keeps its global name; ``None``: without end. It begins when the
            table is handed on.
        :raises StaleInterimAttempt: another attempt at the same task instance, which started later, has begun.
        :raises InvalidInterimTable: a name or duration that cannot be used.
        """
        if ttl is not None and ttl <= timedelta(0):
            raise InvalidInterimTable("ttl", ttl, "it must be longer than nothing, or None for without end")
        now, table_id = self.store.clock(), self.make_id()
        writing = Writing(
            table_id=table_id,
            table=TableName(catalog, self.policy.namespace, name_of(slot, table_id)),
            slot=slot,
            holder=holder,
            attempt_id=self.make_id(),
            lease_until=now + self.policy.lease,
            name=None if name is None else check_given_name(name),
            scope=scope,
            preservation=preservation,
            ttl=ttl,
        )
        place, row = slot_values(writing), table_values(writing, now)
        newest = place | {"try_number": holder.try_number, "table_id": table_id} | started(holder.started_at)
        task = slot.task

        def write(conn: sa.Connection) -> Writing:
            if TAKE_SLOT.first(conn, newest) is None:
                raise StaleInterimAttempt(f"the output {slot}")
            SUPERSEDE.count(conn, {f"b_{name}": value for name, value in place.items()})
            ADD_TABLE.count(conn, row)
            touch(conn, task.dag_id, task.run_id, look_at=now + self.policy.first_look)
            return writing

        return self.store.transact(repeatable(write, found(IS_ON_RECORD, writing, b_table=table_id)))

    def abandon(self, writing: Writing, why: str) -> bool:
        """Give up a table that will not be handed on; ``False``: another attempt has the slot already."""
        values = {"b_table": writing.table_id, "b_attempt": writing.attempt_id, "b_now": self.store.clock()}
        given_up = False

        def write(conn: sa.Connection) -> bool:
            nonlocal given_up  # a repeat finds nothing any more when the answer alone was lost
            given_up = conn.execute(ABANDON, values).rowcount == 1 or given_up
            return given_up

        self.store.transact(write)
        log.info("interim_abandoned: %s of %s: %s", writing.table, writing.holder, why)
        return given_up

    def heartbeat(self, held: Writing | Reading) -> bool:
        """Move the end of the lease; ``False``: it is held no more, stop the work."""
        until = self.store.clock() + self.policy.lease
        if isinstance(held, Writing):
            writing = held
            return self.store.transact(lambda conn: TABLES.renew(conn, writing.table_id, writing.attempt_id, until))
        values = {"b_reading": held.reading_id, "b_until": until}
        return self.store.transact(lambda conn: conn.execute(RENEW_READING, values).rowcount) == len(held.tables)

    def nudge(self, dag_id: str, run_id: str, *, at_once: bool = True) -> bool:
        """Something ended in this run: the collector is to look at it; ``False``: it has nothing, or is due by then anyway.

        :param at_once: ``False`` for a task that is about to end and tells so itself: look a moment later.
        """
        look_at = self.store.clock() + (timedelta(0) if at_once else self.policy.nudge_after)
        return self.store.transact(lambda conn: nudge(conn, run_key(dag_id, run_id), look_at=look_at)) > 0

    def discard(self, table_id: str, *, also: Callable[[sa.Connection], None] | None = None) -> InterimTable:
        """Doom a table that is preserved or named: the collector drops it next. Nothing that is needed is doomed.

        :param also: runs in the same transaction, such as an audit entry.
        :returns: the table as it was.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableInUse: somebody needs it, or is making it.
        """
        key, now = storable(table_id), self.store.clock()
        mine = TABLE.table_id == key

        def write(conn: sa.Connection) -> InterimTable:
            table = self._locked_for_change(conn, key)
            _refuse_if_needed(table)
            if table.state is not TableState.DROPPING:
                doomed = {"state": TableState.DROPPING.value, "visible_at": now}
                conn.execute(sa.update(interim_tables).where(mine).values(FREED | doomed))
                conn.execute(sa.delete(interim_names).where(interim_names.c.table_id == key))
            if also is not None:
                also(conn)
            return table

        return self.store.transact(write)

    def forget(self, table_id: str, *, also: Callable[[sa.Connection, InterimTable], None] | None = None) -> InterimTable:
        """Take a table off the record that no collector could drop; nothing else is touched.

        For one whose catalog is gone for good. Should it come back, the sweeper finds the table in no record, and drops it.

        :param also: runs in the same transaction, such as an audit entry.
        :returns: the table as it was.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableNotStuck: no drop of it has failed, or a collector is at it.
        """
        key, now = storable(table_id), self.store.clock()

        def write(conn: sa.Connection) -> InterimTable:
            table = self._locked_for_change(conn, key)
            if table.state is not TableState.DROPPING or table.error is None:
                raise InterimTableNotStuck(str(table.table), "no drop of it has failed yet", "Let the collector try")
            if table.lease_until is not None and table.lease_until > now:
                raise InterimTableNotStuck(str(table.table), "a collector is dropping it now", "Try again in a few minutes")
            conn.execute(sa.delete(interim_tables).where(TABLE.table_id == key))
            nudge(conn, run_key(table.producer.dag_id, table.producer.run_id), look_at=now)
            if also is not None:
                also(conn, table)
            return table

        return self.store.transact(write)

    def _locked_for_change(self, conn: sa.Connection, table_id: str) -> InterimTable:
        rows = conn.execute(sa.select(interim_tables).where(TABLE.table_id == table_id).with_for_update()).all()
        if not rows:
            raise InterimTableNotFound(table_id)
        [table] = self._describe(conn, rows)
        return table


def _refuse_if_needed(table: InterimTable) -> None:
    writer = [str(table.producer)] if table.state is TableState.WRITING and table.lease_until is not None else []
    needed_by = [*table.pins, *writer] or (["a task that reads it"] if table.readers or table.silent_readers else [])
    if needed_by:
        raise InterimTableInUse(str(table.table), needed_by)


def check_given_name(name: str) -> str:
    """A name that a DAG author gives.

    :raises InvalidInterimTable: it has other characters than names of tables have.
    """
    if len(name) > LONGEST_GIVEN or not GIVEN.fullmatch(name):
        raise InvalidInterimTable(
            "name",
            name,
            "it starts with a letter or an underscore, goes on with letters, digits, underscores and hyphens, and has at most "
            f"{LONGEST_GIVEN} characters",
        )
    return name
