"""Who reads which table, and who is going to: nothing that is held or pinned is dropped.

    reading = registry.consume(find_refs(arguments), holder=holder)       # InterimTableGone, if it came too late
    registry.pin_on(find_refs(result), consumers=task.downstream_task_ids, holder=holder)
    registry.release(reading)

The invariants: a hold or a pin is taken in a transaction that finds the table ready and keeps every collector off its row until
the commit. So either the reader is first, and the table stays; or the collector is, and the reader hears that it is gone. Who has
read a table is a consumer of it, pinned until he is finished for good, whoever made it and however he came by it. And what is
read is what is on record under a reference's id, whatever else the reference says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.interim.errors import InterimTableGone, InterimTableNotFound, InvalidInterimRef
from airflow_snowpack.interim.listing import InterimListing, find_named
from airflow_snowpack.interim.model import Holder, InterimPolicy, Reading
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.interim.refs import Ref, TableRef
from airflow_snowpack.interim.rows import (
    ADD_PINS,
    ADD_REFS,
    HELD_BY,
    KEEP_PIN,
    KEEP_PINS,
    LOCK_READY,
    LOCK_READY_TABLE,
    RELEASE_READING,
    nudge,
    ref_from,
    run_key,
    touch,
)
from airflow_snowpack.store import IdMaker, Store, new_id, repeatable, storable


class InterimHolding(InterimListing):
    """Keeps tables from being dropped.

    :param policy: where tables go, and how long what is held is held.
    :param make_id: draws uuid4s in hex.
    """

    def __init__(self, store: Store, policy: InterimPolicy | None = None, *, make_id: IdMaker = new_id) -> None:
        super().__init__(store, policy)
        self.make_id = make_id

    def consume(self, refs: Iterable[Ref], *, holder: Holder) -> Reading:
        """Keep these tables from being dropped, all of them or none.

        :returns: the tables as they are on record. A reference may come from anywhere, such as the conf of a run: only its id
            says what is read.
        :raises InterimTableGone: one is not there any more; the message names the task to clear.
        :raises InvalidInterimRef: one names another table than the one on record under its id.
        """
        tables, empty = _each_once(refs), self._reading(holder, ())
        if not tables:
            return empty

        def write(conn: sa.Connection) -> Reading:
            reading = replace(empty, tables=_locked(conn, tables))
            self._hold(conn, reading)
            return reading

        return self.store.transact(repeatable(write, lambda conn: _held(conn, empty, tables)))

    def consume_named(self, name: str, *, scope: Scope = Scope.RUN, holder: Holder) -> Reading:
        """Find a table by its name and keep it from being dropped, in one step; ``reading.tables[0]`` is the table.

        :raises InterimTableNotFound: the name points to nothing.
        """
        task, empty = holder.task, self._reading(holder, ())

        def write(conn: sa.Connection) -> Reading | None:
            row = find_named(conn, name, scope, task.dag_id, task.run_id)
            if row is None:
                raise InterimTableNotFound(name, "" if scope is Scope.GLOBAL else f" in the run {task.dag_id}/{task.run_id}")
            try:
                reading = replace(empty, tables=_locked(conn, (ref_from(row),)))
            except InterimTableGone:
                return None  # the name has moved since it was read, and what it pointed to is on its way out
            self._hold(conn, reading)
            return reading

        once = repeatable(write, lambda conn: _held(conn, empty))
        while (reading := self.store.transact(once)) is None:
            pass
        return reading

    def release(self, reading: Reading) -> bool:
        """The reader is through; ``False``: it had been taken for dead before."""
        if not reading.tables:
            return True
        task, look_at = reading.holder.task, self.store.clock() + self.policy.nudge_after
        held = False

        def write(conn: sa.Connection) -> bool:
            nonlocal held  # a repeat finds nothing any more when the answer alone was lost
            held = RELEASE_READING.count(conn, {"b_reading": reading.reading_id}) > 0 or held
            nudge(conn, run_key(task.dag_id, task.run_id), look_at=look_at)
            return held

        return self.store.transact(write)

    def pin_on(self, refs: Iterable[Ref], *, consumers: Iterable[str], holder: Holder) -> None:
        """A task hands tables on that others made: its own consumers, in its own run, need them too.

        :raises InterimTableGone: one is not there any more.
        :raises InvalidInterimRef: one names another table than the one on record under its id.
        """
        tables = _each_once(refs)
        pins = pin_values([table.table_id for table in tables], consumers, holder)
        if not pins:
            return
        task, look_at = holder.task, self.store.clock() + self.policy.first_look

        def write(conn: sa.Connection) -> None:
            _locked(conn, tables)
            ADD_PINS.each(conn, pins)
            touch(conn, task.dag_id, task.run_id, look_at=look_at)

        self.store.transact(write)

    def _reading(self, holder: Holder, tables: tuple[TableRef, ...]) -> Reading:
        return Reading(self.make_id(), tables, holder, self.store.clock() + self.policy.lease)

    def _hold(self, conn: sa.Connection, reading: Reading) -> None:
        task, now = reading.holder.task, self.store.clock()
        each = {
            "reading_id": reading.reading_id,
            "run_key": run_key(task.dag_id, task.run_id),
            "task_id": storable(task.task_id),
            "map_index": task.map_index,
            "holder": storable(reading.holder.attempt),
            "taken_at": now,
            "lease_until": reading.lease_until,
        }
        ADD_REFS.each(conn, [each | {"table_id": table.table_id} for table in reading.tables])
        # Who was cleared after he had finished has no pin any more, and needs one for his next try.
        ids = [table.table_id for table in reading.tables]
        if _kept(conn, ids, {"b_run_key": each["run_key"], "b_task": each["task_id"]}) != len(ids):
            ADD_PINS.each(conn, pin_values(ids, [task.task_id], reading.holder))
            touch(conn, task.dag_id, task.run_id, look_at=now + self.policy.first_look)


def pin_values(table_ids: Iterable[str], consumers: Iterable[str], holder: Holder) -> list[dict[str, Any]]:
    """A pin for each table and each consumer, in the holder's own run."""
    key = run_key(holder.task.dag_id, holder.task.run_id)
    tasks = sorted({storable(consumer) for consumer in consumers})
    new = {"run_key": key, "asked_by": None}
    return [new | {"table_id": table_id, "task_id": task_id} for table_id in sorted(table_ids) for task_id in tasks]


def _kept(conn: sa.Connection, table_ids: Sequence[str], consumer: dict[str, Any]) -> int:
    """How many pins the consumer has on these tables."""
    if len(table_ids) == 1:
        return KEEP_PIN.count(conn, consumer | {"b_table": table_ids[0]})
    return conn.execute(KEEP_PINS, consumer | {"b_ids": sorted(table_ids)}).rowcount


def _each_once(refs: Iterable[Ref]) -> tuple[TableRef, ...]:
    return tuple({ref.of.table_id: ref.of for ref in refs}.values())


def _locked(conn: sa.Connection, tables: Sequence[TableRef]) -> tuple[TableRef, ...]:
    """These tables as they are on record; no collector dooms one before the commit."""
    ids = sorted(table.table_id for table in tables)
    if len(ids) == 1:
        row = LOCK_READY_TABLE.first(conn, {"b_table": ids[0]})
        return _as_recorded([] if row is None else [row], tables)
    return _as_recorded(conn.execute(LOCK_READY, {"b_ids": ids}).all(), tables)


def _as_recorded(rows: Sequence[Any], tables: Sequence[TableRef]) -> tuple[TableRef, ...]:
    found = {row.table_id: ref_from(row) for row in rows}
    for table in tables:
        if table.table_id not in found:
            raise InterimTableGone(table.table, table.producer)
        if table.table != found[table.table_id].table:
            other = found[table.table_id].table
            raise InvalidInterimRef(
                table.to_json(), f"it names {table.table!r}, and the table on record under its id is {other!r}"
            )
    return tuple(found[table.table_id] for table in tables)


def _held(conn: sa.Connection, reading: Reading, tables: Sequence[TableRef] | None = None) -> Reading | None:
    """What the try before took, if it went through although its answer was lost."""
    rows = conn.execute(HELD_BY, {"b_reading": reading.reading_id}).all()
    if not rows:
        return None
    return replace(reading, tables=_as_recorded(rows, [ref_from(row) for row in rows] if tables is None else tables))
