"""Which task reads which table, and which tasks will: a table with a reading or a pin is not dropped.

    reading = registry.consume(find_refs(arguments), attempt=attempt)     # InterimTableGone, if it is too late
    registry.pin_on(find_refs(result), consumers=task.downstream_task_ids, attempt=attempt)
    registry.release(reading)

The invariants: a reading or a pin is added in a transaction that finds the table ready and locks its row against every collector
until the commit. So either the reader is first, and the table stays; or the collector is, and the reader gets
``InterimTableGone``. A task that reads a table gets a pin on it until it has finished for good, however it got the reference. And
what is read is what is on record under a reference's id, whatever else the reference contains.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableGone, InterimTableNotFound, InvalidInterimRef
from airflow_snowpack.interim.model import InterimPolicy, Reading, TaskAttempt
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import Ref, TableRef
from airflow_snowpack.interim.rows import (
    ADD_PINS,
    NAME,
    PIN,
    READY,
    REF,
    REF_COLUMNS,
    TABLE,
    ids,
    name_key,
    nudge,
    pin_values,
    ref_from,
    run_key,
    touch,
)
from airflow_snowpack.store import IdMaker, Store, new_id, repeatable, storable
from airflow_snowpack.store.prepared import Prepared
from airflow_snowpack.store.tables.interim import interim_names, interim_pins, interim_refs

REFERENCE = sa.select(*(TABLE[name] for name in REF_COLUMNS))
NAMED = REFERENCE.join(interim_names, NAME.table_id == TABLE.table_id).where(
    NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"), READY
)


def _lock_ready(these: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """A shared lock: readers do not wait for each other, and no collector can drop the table before they have committed."""
    return REFERENCE.where(these, READY).order_by(TABLE.table_id).with_for_update(read=True)


def _keep_pins(these: sa.ColumnElement[bool]) -> sa.Update:
    """Erase a collector's mark on the pins of one consumer: it needs the tables again."""
    consumer = sa.and_(PIN.run_key == sa.bindparam("b_run_key"), PIN.task_id == sa.bindparam("b_task"))
    return sa.update(interim_pins).where(these, consumer).values(asked_by=sa.null())


LOCK_READY_TABLE = Prepared(_lock_ready(TABLE.table_id == sa.bindparam("b_table")))
LOCK_READY = _lock_ready(TABLE.table_id.in_(ids()))
KEEP_PIN = Prepared(_keep_pins(PIN.table_id == sa.bindparam("b_table")))
KEEP_PINS = _keep_pins(PIN.table_id.in_(ids()))
ADD_REFS = Prepared(sa.insert(interim_refs))
RELEASE_READING = Prepared(sa.delete(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")))
READ_BY = REFERENCE.join(interim_refs, REF.table_id == TABLE.table_id).where(REF.reading_id == sa.bindparam("b_reading"))
"""Finds the effect of a transaction whose answer was lost: no other process can have drawn the id."""


class InterimReadings:
    """Keeps tables from being dropped while tasks need them.

    :param policy: where tables go, and how long leases last.
    :param make_id: draws uuid4s in hex.
    """

    def __init__(self, store: Store, policy: InterimPolicy | None = None, *, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.policy = policy or InterimPolicy()
        self.make_id = make_id

    def consume(self, refs: Iterable[Ref], *, attempt: TaskAttempt) -> Reading:
        """Keep these tables from being dropped, all of them or none.

        :returns: the tables as they are on record. A reference may come from anywhere, such as the conf of a run: only its id
            decides what is read.
        :raises InterimTableGone: one no longer exists; the message names the task to clear.
        :raises InvalidInterimRef: one names another table than the one on record under its id.
        """
        tables, empty = _each_once(refs), self._reading(attempt)
        if not tables:
            return empty

        def write(conn: sa.Connection) -> Reading:
            reading = replace(empty, tables=_locked(conn, tables))
            self._add(conn, reading)
            return reading

        return self.store.transact(repeatable(write, lambda conn: _added(conn, empty, tables)))

    def consume_named(self, name: str, *, scope: Scope = Scope.RUN, attempt: TaskAttempt) -> Reading:
        """Find a table by its name and keep it from being dropped, in one step; ``reading.tables[0]`` is the table.

        :raises InterimTableNotFound: the name points to no table.
        """
        task, empty = attempt.task, self._reading(attempt)

        def write(conn: sa.Connection) -> Reading | None:
            row = find_named(conn, name, scope, task.dag_id, task.run_id)
            if row is None:
                raise InterimTableNotFound(name, "" if scope is Scope.GLOBAL else f" in the run {task.dag_id}/{task.run_id}")
            try:
                reading = replace(empty, tables=_locked(conn, (ref_from(row),)))
            except InterimTableGone:
                return None  # the name has moved since it was read, and the table that it pointed to is being dropped
            self._add(conn, reading)
            return reading

        once = repeatable(write, lambda conn: _added(conn, empty))
        while (reading := self.store.transact(once)) is None:
            pass
        return reading

    def release(self, reading: Reading) -> bool:
        """End a reading; return ``False`` if it had already been removed because its reader counted as dead."""
        if not reading.tables:
            return True
        task, look_at = reading.attempt.task, self.store.clock() + self.policy.nudge_after
        released = False

        def write(conn: sa.Connection) -> bool:
            nonlocal released  # a repeat finds nothing any more when the answer alone was lost
            released = RELEASE_READING.count(conn, {"b_reading": reading.reading_id}) > 0 or released
            nudge(conn, run_key(task.dag_id, task.run_id), look_at=look_at)
            return released

        return self.store.transact(write)

    def pin_on(self, refs: Iterable[Ref], *, consumers: Iterable[str], attempt: TaskAttempt) -> None:
        """Pin tables of other tasks that this attempt returns: its own consumers, in its own run, need them too.

        :raises InterimTableGone: one no longer exists.
        :raises InvalidInterimRef: one names another table than the one on record under its id.
        """
        tables, look_at = _each_once(refs), self.store.clock() + self.policy.first_look
        pins = pin_values([table.table_id for table in tables], consumers, attempt.task)
        if not pins:
            return

        def write(conn: sa.Connection) -> None:
            _locked(conn, tables)
            ADD_PINS.each(conn, pins)
            touch(conn, attempt.task, look_at=look_at)

        self.store.transact(write)

    def _reading(self, attempt: TaskAttempt) -> Reading:
        return Reading(self.make_id(), (), attempt, self.store.clock() + self.policy.lease)

    def _add(self, conn: sa.Connection, reading: Reading) -> None:
        task, now = reading.attempt.task, self.store.clock()
        key, task_id = run_key(task.dag_id, task.run_id), storable(task.task_id)
        reader = {"run_key": key, "task_id": task_id, "map_index": task.map_index, "holder": storable(reading.attempt.id)}
        each = reader | {"reading_id": reading.reading_id, "taken_at": now, "lease_until": reading.lease_until}
        ADD_REFS.each(conn, [each | {"table_id": table.table_id} for table in reading.tables])
        # A task that was cleared after it had finished has no pin any more, and needs one for its next try.
        table_ids = sorted(table.table_id for table in reading.tables)
        consumer = {"b_run_key": key, "b_task": task_id}
        if len(table_ids) == 1:
            pinned = KEEP_PIN.count(conn, consumer | {"b_table": table_ids[0]})
        else:
            pinned = conn.execute(KEEP_PINS, consumer | {"b_ids": table_ids}).rowcount
        if pinned != len(table_ids):
            ADD_PINS.each(conn, pin_values(table_ids, [task.task_id], task))
            touch(conn, task, look_at=now + self.policy.first_look)


def _each_once(refs: Iterable[Ref]) -> tuple[TableRef, ...]:
    return tuple({ref.of.table_id: ref.of for ref in refs}.values())


def _locked(conn: sa.Connection, tables: Sequence[TableRef]) -> tuple[TableRef, ...]:
    """Return these tables as they are on record; no collector drops one before the commit."""
    table_ids = sorted(table.table_id for table in tables)
    if len(table_ids) == 1:
        row = LOCK_READY_TABLE.first(conn, {"b_table": table_ids[0]})
        return _as_recorded([] if row is None else [row], tables)
    return _as_recorded(conn.execute(LOCK_READY, {"b_ids": table_ids}).all(), tables)


def _as_recorded(rows: Sequence[Any], tables: Sequence[TableRef]) -> tuple[TableRef, ...]:
    found = {row.table_id: ref_from(row) for row in rows}
    for table in tables:
        if table.table_id not in found:
            raise InterimTableGone(table.table, table.producer)
        if table.table != found[table.table_id].table:
            problem = f"it names {table.table!r}, but the table on record under its id is {found[table.table_id].table!r}"
            raise InvalidInterimRef(table.to_json(), problem)
    return tuple(found[table.table_id] for table in tables)


def _added(conn: sa.Connection, reading: Reading, tables: Sequence[TableRef] | None = None) -> Reading | None:
    """Return the reading that the previous try added, if its transaction was committed although its answer was lost."""
    rows = conn.execute(READ_BY, {"b_reading": reading.reading_id}).all()
    if not rows:
        return None
    return replace(reading, tables=_as_recorded(rows, [ref_from(row) for row in rows] if tables is None else tables))


def find_named(conn: sa.Connection, name: str, scope: Scope, dag_id: str, run_id: str) -> Any:
    """Return the row of the table that a name points to, or ``None``."""
    return conn.execute(NAMED, {"b_name": storable(name), "b_run_key": name_key(scope, dag_id, run_id)}).first()
