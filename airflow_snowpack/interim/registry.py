"""The registry of interim tables: which attempt writes which table, and which tasks need and read it.

    registry = InterimRegistry(store)
    writing = registry.begin(attempt, catalog="lake")                             # recorded before the table exists
    [ref] = registry.commit(Output(writing, snapshot_id=…, rows=…), consumers=task.downstream_task_ids)
    reading = registry.consume(find_refs(arguments), attempt=consumer)            # InterimTableGone if it is too late
    registry.pin_on(find_refs(result), consumers=task.downstream_task_ids, attempt=attempt)
    registry.release(reading)
    registry.page(dag_id="flights", limit=50); registry.table("flights_clean_5f0c3a9e4b7d4c21a8f6").pins
    registry.drop(table_id, actor=Actor("vera", via="cli"))

Invariants of writers: **every attempt writes a separate table**, so a late write of a dead attempt never reaches what its
successor committed. One transaction makes all tables ready, each under the attempt's fence, and adds their pins, lineage and
names. A try of which any part fails has committed nothing.

Invariants of readers: a reading or a pin is added in a transaction that finds the table ready and locks its row against every
collector until the commit. Either the reader is first, and the table stays; or the collector is, and the reader gets
``InterimTableGone``. A task that reads a table gets a pin on it until it has finished for good, however it got the reference.
What is read is the record of a reference's id, whatever else the reference contains.

No manual change drops a table that a task needs, and each is written together with its audit entry.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.errors import (
    InterimTableGone,
    InterimTableInUse,
    InterimTableNotFound,
    InterimTableNotStuck,
    InvalidInterimRef,
    InvalidInterimTable,
    StaleInterimAttempt,
)
from airflow_snowpack.interim.model import InterimPolicy, InterimTable, OutputOptions, Reading, TableState, TaskAttempt, Writing
from airflow_snowpack.interim.names import DEFAULT_OUTPUT, Producer, Scope, table_name_of
from airflow_snowpack.interim.refs import Ref, TableRef
from airflow_snowpack.interim.rows import (
    ADD_PINS,
    FREED,
    NAME,
    PIN,
    READY,
    REF,
    REF_COLUMNS,
    RUN,
    SLOT,
    TABLE,
    TABLES,
    WRITING,
    ids,
    moment,
    name_from,
    name_key,
    nudge,
    pin_values,
    producer_from,
    ref_from,
    run_key,
    touch,
)
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import record_operation
from airflow_snowpack.preservation import Preservation
from airflow_snowpack.store import Actor, IdMaker, Store, new_id, repeatable, storable, write_audit
from airflow_snowpack.store.dialect import insert, row_mapper, upsert
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.prepared import PreparedStatement
from airflow_snowpack.store.tables.interim import (
    interim_names,
    interim_pins,
    interim_refs,
    interim_runs,
    interim_slots,
    interim_tables,
)

T = TypeVar("T")
log = logging.getLogger(__name__)

# -- statements of writers --------------------------------------------------------------------------------------------------

NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
CLOCK_SKEW = timedelta(minutes=1)
"""The maximum difference between the clocks of two workers."""
NOT_YET = dict.fromkeys(("ready_at", "snapshot_id", "rows", "location", "expires_at", "error"))
SLOT_KEY = ("run_key", "task_id", "map_index", "output")


def _take_slot() -> Any:
    """Give the slot to the newest attempt; return no row if a newer one has it. The row lock orders attempts.

    Try numbers alone do not order attempts: they restart at 1 in a run that is deleted and created again under its id, where a
    zombie of the first run may have a higher number than its successor. Start times alone do not either: each comes from a
    worker's clock. So the try decides between attempts that started at about the same time, and the start between others.
    """
    new = insert(interim_slots)
    is_newer = sa.or_(
        SLOT.started_at.is_(None),
        SLOT.started_at < moment("b_long_before"),
        sa.and_(SLOT.started_at < moment("b_not_long_after"), SLOT.try_number <= new.excluded.try_number),
    )
    changed = {name: new.excluded[name] for name in ("try_number", "table_id", "started_at")}
    taken = new.on_conflict_do_update(index_elements=[SLOT[name] for name in SLOT_KEY], set_=changed, where=is_newer)
    return taken.returning(SLOT.table_id)


TAKE_SLOT = PreparedStatement(_take_slot())
SUPERSEDE = PreparedStatement(
    sa.update(interim_tables)
    .where(*(TABLE[name] == sa.bindparam(f"b_{name}") for name in SLOT_KEY), WRITING, TABLE.attempt_id.is_not(None))
    .values(FREED)
)
"""Move the fence of earlier attempts that are writing in this slot; the end of their lease stays recorded."""
ADD_TABLE = PreparedStatement(sa.insert(interim_tables))

FENCED = sa.and_(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"), WRITING)
COMMITTED = ("ready_at", "snapshot_id", "rows", "location", "expires_at", "visible_at")
READY_WITH = {name: sa.bindparam(f"b_{name}", type_=TABLE[name].type) for name in COMMITTED}
COMMIT = PreparedStatement(sa.update(interim_tables).where(FENCED).values(FREED | {"state": TableState.READY.value} | READY_WITH))
"""Fenced: no row matches for an attempt that was superseded, or that a collector declared dead."""
DROP_NOW = FREED | {"state": TableState.DROPPING.value, "visible_at": moment("b_now")}
ABANDON = sa.update(interim_tables).where(FENCED).values(DROP_NOW)
POINT = PreparedStatement(upsert(interim_names, ["table_id", "moved_at"]))
"""Move the name to this table; the last commit wins."""
NAMED_BEFORE = PreparedStatement(
    sa.select(TABLE.run_key)
    .join(interim_names, NAME.table_id == TABLE.table_id)
    .where(NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"))
)
"""The run of the table to which the name has pointed; the collector checks it once the name has moved."""
# These find the effect of a transaction whose response was lost: no other process can have drawn the id.
IS_ON_RECORD = sa.select(TABLE.table_id).where(TABLE.table_id == sa.bindparam("b_table"))
IS_COMMITTED = IS_ON_RECORD.where(TABLE.ready_at.is_not(None))

# -- statements of readers --------------------------------------------------------------------------------------------------

REFERENCE = sa.select(*(TABLE[name] for name in REF_COLUMNS))
NAMED = REFERENCE.join(interim_names, NAME.table_id == TABLE.table_id).where(
    NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"), READY
)


def _lock_ready(these: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Take a shared lock: readers do not wait for each other, and no collector can drop the table before they have committed."""
    return REFERENCE.where(these, READY).order_by(TABLE.table_id).with_for_update(read=True)


def _keep_pins(these: sa.ColumnElement[bool]) -> sa.Update:
    """Erase a collector's mark on a consumer's pins: it needs the tables again."""
    consumer = sa.and_(PIN.run_key == sa.bindparam("b_run_key"), PIN.task_id == sa.bindparam("b_task"))
    return sa.update(interim_pins).where(these, consumer).values(asked_by=sa.null())


LOCK_READY_TABLE = PreparedStatement(_lock_ready(TABLE.table_id == sa.bindparam("b_table")))
LOCK_READY = _lock_ready(TABLE.table_id.in_(ids()))
KEEP_PIN = PreparedStatement(_keep_pins(PIN.table_id == sa.bindparam("b_table")))
KEEP_PINS = _keep_pins(PIN.table_id.in_(ids()))
ADD_REFS = PreparedStatement(sa.insert(interim_refs))
RELEASE_READING = PreparedStatement(sa.delete(interim_refs).where(REF.reading_id == sa.bindparam("b_reading")))
READ_BY = REFERENCE.join(interim_refs, REF.table_id == TABLE.table_id).where(REF.reading_id == sa.bindparam("b_reading"))
"""Finds the effect of a transaction whose response was lost: no other process can have drawn the id."""

# -- statements of the list -------------------------------------------------------------------------------------------------

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
    return f"interim:{table_id}"


@dataclass(frozen=True, slots=True)
class Output:
    """A completely written table, and its lineage.

    :param snapshot_id: what consumers read; ``None`` for an empty table without a snapshot.
    :param location: the table's folder, if it is known without a request.
    :param kind: what made it.
    :param inputs: what it was made from.
    :param detail: more about how it was made, as JSON.
    """

    writing: Writing
    snapshot_id: int | None
    rows: int | None
    location: str | None = None
    kind: OperationKind = OperationKind.CREATE
    inputs: Sequence[TableAt | DatasetAt] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ref(self) -> TableRef:
        """The reference for the XCom."""
        return TableRef(self.writing.table_id, str(self.writing.table), self.snapshot_id, self.rows, self.writing.producer)

    def values(self, now: datetime) -> dict[str, Any]:
        """Return the parameters of :data:`COMMIT`."""
        ttl = self.writing.options.ttl
        return {
            "b_table": self.writing.table_id,
            "b_attempt": self.writing.attempt_id,
            "b_ready_at": now,
            "b_snapshot_id": self.snapshot_id,
            "b_rows": self.rows,
            "b_location": None if self.location is None else storable(self.location),
            "b_expires_at": None if ttl is None else now + ttl,
            "b_visible_at": now,
        }

    @property
    def name_values(self) -> tuple[str, str, str]:
        """The run key of the name, the name, and the table's id."""
        writing, options = self.writing, self.writing.options
        return name_key(options.scope, writing.producer.dag_id, writing.producer.run_id), str(options.name), writing.table_id

    def operation(self, now: datetime) -> Operation:
        attempt, made = self.writing.attempt, TableAt(str(self.writing.table), self.snapshot_id, self.location)
        task = replace(attempt.task, try_number=attempt.try_number)
        return Operation(self.kind, at=now, inputs=self.inputs, outputs=[made], task=task, rows=self.rows, detail=self.detail)


class InterimRegistry:
    """Keeps the records of tables from before they exist until they are dropped; ``make_id`` draws uuid4s in hex."""

    def __init__(self, store: Store, policy: InterimPolicy | None = None, *, make_id: IdMaker = new_id) -> None:
        self.store = store
        self.policy = policy or InterimPolicy()
        self.make_id = make_id

    def begin(
        self,
        attempt: TaskAttempt,
        *,
        catalog: str,
        output: str = DEFAULT_OUTPUT,
        options: OutputOptions = OutputOptions(),  # noqa: B008 - frozen
    ) -> Writing:
        """Record a table before it is created, and take over the output from any earlier attempt.

        :param catalog: this installation's name for the table's catalog.
        :raises StaleInterimAttempt: an attempt at the same task instance that started later has begun.
        :raises InvalidInterimTable: a name or duration is not usable.
        """
        check_options(options)
        now, table_id, producer = self.store.clock(), self.make_id(), attempt.producer(output)
        table = TableName(catalog, self.policy.namespace, table_name_of(producer, table_id))
        writing = Writing(table_id, table, producer, attempt, self.make_id(), now + self.policy.lease, options)
        slot = _slot_values(producer)
        row = table_values(writing, now)
        newest = slot | {
            "try_number": attempt.try_number,
            "table_id": table_id,
            "started_at": attempt.started_at,
            "b_long_before": attempt.started_at - CLOCK_SKEW,
            "b_not_long_after": attempt.started_at + CLOCK_SKEW,
        }

        def write(conn: sa.Connection) -> Writing:
            if TAKE_SLOT.first(conn, newest) is None:
                raise StaleInterimAttempt(f"the output {producer}")
            SUPERSEDE.count(conn, {f"b_{name}": value for name, value in slot.items()})
            ADD_TABLE.count(conn, row)
            touch(conn, attempt.task, look_at=now + self.policy.first_look)
            return writing

        return self.store.transact(repeatable(write, _if_found(IS_ON_RECORD, writing, b_table=table_id)))

    def commit(self, *outputs: Output, consumers: Iterable[str]) -> list[TableRef]:
        """Make these tables of one attempt ready, all or none: from then on they never change, and their consumers may read them.

        :param consumers: the ids of the tasks directly downstream, in the same run.
        :raises StaleInterimAttempt: another attempt owns one of the outputs; nothing was committed.
        """
        if not outputs:
            return []
        now, task = self.store.clock(), outputs[0].writing.attempt.task
        in_order = sorted(outputs, key=lambda output: output.writing.table_id)
        pins = pin_values([output.writing.table_id for output in outputs], consumers, task)
        operations = [output.operation(now) for output in outputs]
        names = sorted(output.name_values for output in outputs if output.writing.options.name is not None)
        refs = [output.ref for output in outputs]

        def write(conn: sa.Connection) -> list[TableRef]:
            for output in in_order:
                if COMMIT.count(conn, output.values(now)) == 0:
                    raise StaleInterimAttempt(f"the output {output.writing.producer}")
            if pins:
                ADD_PINS.each(conn, pins)
            for operation in operations:
                record_operation(conn, operation)
            before = {key for place in names if (key := _move_name(conn, *place, now)) is not None}
            if not pins or names:
                self._check_soon(conn, task, before, now)
            return refs

        return self.store.transact(repeatable(write, _if_found(IS_COMMITTED, refs, b_table=outputs[0].writing.table_id)))

    def abandon(self, writing: Writing, why: str) -> bool:
        """Give up a table that will not be committed; return ``False`` if another attempt already owns the output."""
        values = {"b_table": writing.table_id, "b_attempt": writing.attempt_id, "b_now": self.store.clock()}
        given_up = False

        def write(conn: sa.Connection) -> bool:
            nonlocal given_up  # a retry finds nothing if only the response was lost
            given_up = conn.execute(ABANDON, values).rowcount == 1 or given_up
            return given_up

        self.store.transact(write)
        log.info("interim_abandoned: %s of %s: %s", writing.table, writing.attempt, why)
        return given_up

    def consume(self, refs: Iterable[Ref], *, attempt: TaskAttempt) -> Reading:
        """Protect these tables from being dropped, all or none.

        :returns: the tables as recorded. References may come from anywhere (a run's conf, for example): only the id decides.
        :raises InterimTableGone: one no longer exists; the message names the task to clear.
        :raises InvalidInterimRef: a reference names another table than the record of its id.
        """
        tables, empty = _distinct_tables(refs), self._reading(attempt)
        if not tables:
            return empty

        def write(conn: sa.Connection) -> Reading:
            reading = replace(empty, tables=_lock_tables(conn, tables))
            self._add(conn, reading)
            return reading

        return self.store.transact(repeatable(write, lambda conn: _added_reading(conn, empty, tables)))

    def consume_named(self, name: str, *, scope: Scope = Scope.RUN, attempt: TaskAttempt) -> Reading:
        """Find a table by name, ``tables[0]``, and protect it from being dropped, or raise :class:`InterimTableNotFound`."""
        task, empty = attempt.task, self._reading(attempt)

        def write(conn: sa.Connection) -> Reading | None:
            row = find_named(conn, name, scope, task.dag_id, task.run_id)
            if row is None:
                raise InterimTableNotFound(name, "" if scope is Scope.GLOBAL else f" in the run {task.dag_id}/{task.run_id}")
            try:
                reading = replace(empty, tables=_lock_tables(conn, (ref_from(row),)))
            except InterimTableGone:
                return None  # the name has moved since it was read, and its former table is being dropped
            self._add(conn, reading)
            return reading

        once = repeatable(write, lambda conn: _added_reading(conn, empty))
        while (reading := self.store.transact(once)) is None:
            pass
        return reading

    def release(self, reading: Reading) -> bool:
        """End a reading; return ``False`` if it was already removed because its reader counted as dead."""
        if not reading.tables:
            return True
        task, look_at = reading.attempt.task, self.store.clock() + self.policy.nudge_after
        released = False

        def write(conn: sa.Connection) -> bool:
            nonlocal released  # a retry finds nothing if only the response was lost
            released = RELEASE_READING.count(conn, {"b_reading": reading.reading_id}) > 0 or released
            nudge(conn, run_key(task.dag_id, task.run_id), look_at=look_at)
            return released

        return self.store.transact(write)

    def pin_on(self, refs: Iterable[Ref], *, consumers: Iterable[str], attempt: TaskAttempt) -> None:
        """Pin other tasks' tables that this attempt returns: its consumers need them, too. Raises like :meth:`consume`."""
        tables, look_at = _distinct_tables(refs), self.store.clock() + self.policy.first_look
        pins = pin_values([table.table_id for table in tables], consumers, attempt.task)
        if not pins:
            return

        def write(conn: sa.Connection) -> None:
            _lock_tables(conn, tables)
            ADD_PINS.each(conn, pins)
            touch(conn, attempt.task, look_at=look_at)

        self.store.transact(write)

    def page(
        self,
        *,
        dag_id: str | None = None,
        run_id: str | None = None,
        state: TableState | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[InterimTable]:
        """Return a page of the matching tables, newest first.

        :param after: ``next`` of the previous page.
        :raises InvalidCursor: no page has returned this cursor.
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
        return list(self.page(**filters).items)

    def table(self, wanted: str) -> InterimTable:
        """Return a table by its id, its own name or its full name, or raise :class:`InterimTableNotFound`."""
        text = storable(wanted)
        is_id = ID.fullmatch(text) is not None
        query = sa.select(interim_tables)
        rows = self.store.all(query.where(TABLE.table_id == text if is_id else TABLE.table_name == text.rpartition(".")[2]))
        # Its own name is unique across catalogs and namespaces; a longer name must match in full.
        if not rows or not (is_id or f".{name_from(rows[0])}".endswith(f".{text}")):
            raise InterimTableNotFound(wanted)
        return self.store.read(lambda conn: self._describe(conn, rows))[0]

    def heartbeat(self, leased: Writing | Reading) -> bool:
        """Renew a lease; return ``False`` if it is lost, and the work must stop."""
        until = self.store.clock() + self.policy.lease
        if isinstance(leased, Writing):
            writing = leased
            return self.store.transact(lambda conn: TABLES.renew(conn, writing.table_id, writing.attempt_id, until))
        return self.store.execute(RENEW_READING, {"b_reading": leased.reading_id, "b_until": until}) == len(leased.tables)

    def nudge(self, dag_id: str, run_id: str, *, at_once: bool = True) -> bool:
        """Make the collector check a run in which something ended.

        :param at_once: ``False`` for a task that reports its end before it has ended: check a few seconds later.
        :returns: ``False`` if the run has no tables, or is due by then anyway.
        """
        look_at = self.store.clock() + (timedelta(0) if at_once else self.policy.nudge_after)
        return self.store.transact(lambda conn: nudge(conn, run_key(dag_id, run_id), look_at=look_at)) > 0

    def drop(self, wanted: str, *, actor: Actor | None = None) -> InterimTable:
        """Release a preserved or named table; the collector drops it in its next pass.

        :param wanted: the table's id, its own name or its full name.
        :param actor: the user who requests it, for the audit trail.
        :returns: the table after the change.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableInUse: a task needs it, or is writing it.
        """
        key, now = self.table(wanted).table_id, self.store.clock()

        def write(conn: sa.Connection) -> InterimTable:
            table = self._lock_row(conn, key, wanted)
            _refuse_if_needed(table)
            if table.state is not TableState.DROPPING:
                dropping = {"state": TableState.DROPPING.value, "visible_at": now}
                conn.execute(sa.update(interim_tables).where(TABLE.table_id == key).values(FREED | dropping))
                conn.execute(sa.delete(interim_names).where(NAME.table_id == key))
            self._audit(conn, actor, "drop_interim", table, rows=table.rows, producer=str(table.producer))
            return replace(table, state=TableState.DROPPING, is_named=False)

        return self.store.transact(write)

    def forget(self, wanted: str, *, actor: Actor | None = None) -> InterimTable:
        """Delete the record of a table that no collector could drop, and nothing else.

        Use it for a table whose catalog is gone for good. If the catalog comes back, the sweeper drops the table.

        :param wanted: the table's id, its own name or its full name.
        :returns: the table before the change.
        :raises InterimTableNotFound: there is no such table.
        :raises InterimTableNotStuck: no drop of it has failed, or a collector is dropping it now.
        """
        key, now = self.table(wanted).table_id, self.store.clock()

        def write(conn: sa.Connection) -> InterimTable:
            table = self._lock_row(conn, key, wanted)
            if table.state is not TableState.DROPPING or table.error is None:
                raise InterimTableNotStuck(str(table.table), "no drop of it has failed yet", "Wait for the collector")
            if table.lease_until is not None and table.lease_until > now:
                raise InterimTableNotStuck(str(table.table), "a collector is dropping it now", "Retry in a few minutes")
            conn.execute(sa.delete(interim_tables).where(TABLE.table_id == key))
            nudge(conn, run_key(table.producer.dag_id, table.producer.run_id), look_at=now)
            self._audit(conn, actor, "forget_interim", table, location=table.location, error=table.error)
            return table

        return self.store.transact(write)

    def _check_soon(self, conn: sa.Connection, task: TaskRef, named_before: set[str], now: datetime) -> None:
        """Make the collector check this run, and the runs whose tables had these names and may no longer be needed."""
        own = run_key(task.dag_id, task.run_id)
        for key in sorted({own, *named_before}):  # the order in which every transaction locks runs
            if key == own:
                touch(conn, task, look_at=now + self.policy.nudge_after)
            else:
                nudge(conn, key, look_at=now)

    def _reading(self, attempt: TaskAttempt) -> Reading:
        return Reading(self.make_id(), (), attempt, self.store.clock() + self.policy.lease)

    def _add(self, conn: sa.Connection, reading: Reading) -> None:
        task, now = reading.attempt.task, self.store.clock()
        key, task_id = run_key(task.dag_id, task.run_id), storable(task.task_id)
        reader = {"run_key": key, "task_id": task_id, "map_index": task.map_index, "holder": storable(reading.attempt.id)}
        each = reader | {"reading_id": reading.reading_id, "taken_at": now, "lease_until": reading.lease_until}
        ADD_REFS.each(conn, [each | {"table_id": table.table_id} for table in reading.tables])
        # A task that was cleared after it had finished has lost its pin, and needs one for its next try.
        table_ids = sorted(table.table_id for table in reading.tables)
        consumer = {"b_run_key": key, "b_task": task_id}
        if len(table_ids) == 1:
            pinned = KEEP_PIN.count(conn, consumer | {"b_table": table_ids[0]})
        else:
            pinned = conn.execute(KEEP_PINS, consumer | {"b_ids": table_ids}).rowcount
        if pinned != len(table_ids):
            ADD_PINS.each(conn, pin_values(table_ids, [task.task_id], task))
            touch(conn, task, look_at=now + self.policy.first_look)

    def _lock_row(self, conn: sa.Connection, table_id: str, wanted: str) -> InterimTable:
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


def check_options(options: OutputOptions) -> None:
    """Raise :class:`InvalidInterimTable` if the name is not allowed for a table, or the ttl is not positive."""
    if options.ttl is not None and options.ttl <= timedelta(0):
        raise InvalidInterimTable("ttl", options.ttl, "it must be positive, or None for no end")
    if options.name is not None and not NAME_FORM.fullmatch(options.name):
        rest = "continues with letters, digits, underscores and hyphens, and has at most 100 characters"
        raise InvalidInterimTable("name", options.name, f"a name starts with a letter or an underscore, {rest}")


def _slot_values(producer: Producer) -> dict[str, Any]:
    return {
        "run_key": run_key(producer.dag_id, producer.run_id),
        "task_id": storable(producer.task_id),
        "map_index": producer.map_index,
        "output": storable(producer.output),
    }


def table_values(writing: Writing, now: datetime) -> dict[str, Any]:
    """Return the row of a table that is about to be written."""
    producer, options = writing.producer, writing.options
    return _slot_values(producer) | {
        "table_id": writing.table_id,
        "catalog": writing.table.catalog,
        "database_name": writing.table.database,
        "table_name": writing.table.table,
        "dag_id": storable(producer.dag_id),
        "run_id": storable(producer.run_id),
        "try_number": writing.attempt.try_number,
        "state": TableState.WRITING.value,
        "created_at": now,
        "preservation": options.preservation.value,
        "name": options.name,
        "scope": options.scope.value if options.name is not None else None,
        "visible_at": writing.lease_until,
        "claimed_at": now,
        "claimed_by": storable(writing.attempt.id),
        "attempt_id": writing.attempt_id,
        "attempt_count": 0,
        **NOT_YET,
    }


def _move_name(conn: sa.Connection, key: str, name: str, table_id: str, now: datetime) -> str | None:
    """Move the name to this table; return the run key of the table to which it pointed before."""
    before = NAMED_BEFORE.first(conn, {"b_name": name, "b_run_key": key})
    POINT.count(conn, {"name": name, "run_key": key, "table_id": table_id, "moved_at": now})
    return None if before is None else str(before.run_key)


def _if_found(query: sa.Select[Any], result: T, **values: str) -> Callable[[sa.Connection], T | None]:
    """Return the result if the query finds what only this step can have written."""
    return lambda conn: result if conn.execute(query, values).first() is not None else None


def _distinct_tables(refs: Iterable[Ref]) -> tuple[TableRef, ...]:
    return tuple({ref.of.table_id: ref.of for ref in refs}.values())


def _lock_tables(conn: sa.Connection, tables: Sequence[TableRef]) -> tuple[TableRef, ...]:
    """Return these tables as recorded; no collector drops one before the commit."""
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


def _added_reading(conn: sa.Connection, reading: Reading, tables: Sequence[TableRef] | None = None) -> Reading | None:
    """Return the reading that the previous try added, if it was committed although its response was lost."""
    rows = conn.execute(READ_BY, {"b_reading": reading.reading_id}).all()
    if not rows:
        return None
    return replace(reading, tables=_as_recorded(rows, [ref_from(row) for row in rows] if tables is None else tables))


def find_named(conn: sa.Connection, name: str, scope: Scope, dag_id: str, run_id: str) -> Any:
    """Return the row of the table to which a name points, or ``None``."""
    return conn.execute(NAMED, {"b_name": storable(name), "b_run_key": name_key(scope, dag_id, run_id)}).first()


def _refuse_if_needed(table: InterimTable) -> None:
    writer = [str(table.producer)] if table.state is TableState.WRITING and table.lease_until is not None else []
    needed_by = [*table.pins, *writer] or (["a task that reads it"] if table.readers or table.silent_readers else [])
    if needed_by:
        raise InterimTableInUse(str(table.table), needed_by)
