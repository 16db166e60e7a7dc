"""What an attempt writes: begun before a table exists, and committed for its consumers, all outputs or none.

    writing = registry.begin(attempt, catalog="lake")                      # on record before the table exists
    df.writeTo(str(writing.table)).using("iceberg").create()
    registry.commit(Output(writing, snapshot_id=7, rows=100), consumers=task.downstream_task_ids)

The invariants: **every attempt writes a table of its own**, so that no late write of a dead attempt reaches what its successor
committed; and in one transaction all tables become ready, each under the attempt's fence, and get their pins, their lineage and
their names. A try of which any part fails has committed nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.errors import InvalidInterimTable, StaleInterimAttempt
from airflow_snowpack.interim.model import OutputOptions, TableState, TaskAttempt, Writing
from airflow_snowpack.interim.names import DEFAULT_OUTPUT, Producer, table_name_of
from airflow_snowpack.interim.readings import InterimReadings
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.rows import (
    ADD_PINS,
    FREED,
    NAME,
    SLOT,
    TABLE,
    WRITING,
    moment,
    name_key,
    nudge,
    pin_values,
    run_key,
    touch,
)
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import record_operation
from airflow_snowpack.store import repeatable, storable
from airflow_snowpack.store.dialect import insert, upsert
from airflow_snowpack.store.prepared import Prepared
from airflow_snowpack.store.tables.interim import interim_names, interim_slots, interim_tables

T = TypeVar("T")
log = logging.getLogger(__name__)

NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
CLOCK_SKEW = timedelta(minutes=1)
"""By how much the clocks of two workers may differ."""
NOT_YET = dict.fromkeys(("ready_at", "snapshot_id", "rows", "location", "expires_at", "error"))
SLOT_KEY = ("run_key", "task_id", "map_index", "output")


def _take_slot() -> Any:
    """Give the slot to the newest attempt; no row comes back when a newer one has it. The row lock orders attempts.

    Tries alone do not order attempts: they start at 1 again in a run that is deleted and created again under its id, and a zombie
    of its first life may have a higher number than its successor. Nor do start times: each comes from a worker's own clock.
    So the try decides between attempts that started at about the same time, and the start between others.
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


TAKE_SLOT = Prepared(_take_slot())
SUPERSEDE = Prepared(
    sa.update(interim_tables)
    .where(*(TABLE[name] == sa.bindparam(f"b_{name}") for name in SLOT_KEY), WRITING, TABLE.attempt_id.is_not(None))
    .values(FREED)
)
"""Move the fence of whatever earlier attempts are writing in this slot; the end of their lease stays on record."""
ADD_TABLE = Prepared(sa.insert(interim_tables))

FENCED = sa.and_(TABLE.table_id == sa.bindparam("b_table"), TABLE.attempt_id == sa.bindparam("b_attempt"), WRITING)
COMMITTED = ("ready_at", "snapshot_id", "rows", "location", "expires_at", "visible_at")
READY_WITH = {name: sa.bindparam(f"b_{name}", type_=TABLE[name].type) for name in COMMITTED}
COMMIT = Prepared(sa.update(interim_tables).where(FENCED).values(FREED | {"state": TableState.READY.value} | READY_WITH))
"""Fenced: an attempt that was superseded, or that a collector declared dead, matches no row."""
DROP_NOW = FREED | {"state": TableState.DROPPING.value, "visible_at": moment("b_now")}
ABANDON = sa.update(interim_tables).where(FENCED).values(DROP_NOW)
POINT = Prepared(upsert(interim_names, ["table_id", "moved_at"]))
"""Move the name to this table; the last commit wins."""
NAMED_BEFORE = Prepared(
    sa.select(TABLE.run_key)
    .join(interim_names, NAME.table_id == TABLE.table_id)
    .where(NAME.name == sa.bindparam("b_name"), NAME.run_key == sa.bindparam("b_run_key"))
)
"""The run of the table that the name points to so far; the collector checks it when the name has moved."""
# These find the effect of a transaction whose answer was lost: no other process can have drawn the id.
IS_ON_RECORD = sa.select(TABLE.table_id).where(TABLE.table_id == sa.bindparam("b_table"))
IS_COMMITTED = IS_ON_RECORD.where(TABLE.ready_at.is_not(None))


@dataclass(frozen=True, slots=True)
class Output:
    """A table that is written completely, and what its lineage records.

    :param snapshot_id: what consumers read; ``None`` for a table without a snapshot, which is empty.
    :param location: the table's folder, if it is known at no cost.
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
        """The reference that the XCom carries."""
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
        """The run key of the name, the name and the table's id."""
        writing, options = self.writing, self.writing.options
        return name_key(options.scope, writing.producer.dag_id, writing.producer.run_id), str(options.name), writing.table_id

    def operation(self, now: datetime) -> Operation:
        """Return its lineage."""
        attempt, made = self.writing.attempt, TableAt(str(self.writing.table), self.snapshot_id, self.location)
        task = replace(attempt.task, try_number=attempt.try_number)
        return Operation(self.kind, at=now, inputs=self.inputs, outputs=[made], task=task, rows=self.rows, detail=self.detail)


class InterimOutputs(InterimReadings):
    """Begins, commits and abandons tables."""

    def begin(
        self,
        attempt: TaskAttempt,
        *,
        catalog: str,
        output: str = DEFAULT_OUTPUT,
        options: OutputOptions = OutputOptions(),  # noqa: B008 - frozen
    ) -> Writing:
        """Put a table on record, and take the output over from any earlier attempt. Create the table afterwards.

        :param catalog: the catalog of the table, by the name that this installation uses.
        :param output: distinguishes the outputs of one task.
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

        return self.store.transact(repeatable(write, _found(IS_ON_RECORD, writing, b_table=table_id)))

    def commit(self, *outputs: Output, consumers: Iterable[str]) -> list[TableRef]:
        """Make these tables of one attempt ready, all or none: they never change any more, and their consumers may read them.

        :param consumers: the ids of the tasks directly downstream, in the same run.
        :raises StaleInterimAttempt: another attempt has one of the outputs; nothing was committed.
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
            before = {key for place in names if (key := _point(conn, *place, now)) is not None}
            if not pins or names:
                self._check_soon(conn, task, before, now)
            return refs

        return self.store.transact(repeatable(write, _found(IS_COMMITTED, refs, b_table=outputs[0].writing.table_id)))

    def abandon(self, writing: Writing, why: str) -> bool:
        """Give up a table that will not be committed; return ``False`` if another attempt has the output already."""
        values = {"b_table": writing.table_id, "b_attempt": writing.attempt_id, "b_now": self.store.clock()}
        given_up = False

        def write(conn: sa.Connection) -> bool:
            nonlocal given_up  # a repeat finds nothing any more when the answer alone was lost
            given_up = conn.execute(ABANDON, values).rowcount == 1 or given_up
            return given_up

        self.store.transact(write)
        log.info("interim_abandoned: %s of %s: %s", writing.table, writing.attempt, why)
        return given_up

    def _check_soon(self, conn: sa.Connection, task: TaskRef, named_before: set[str], now: datetime) -> None:
        """Have the collector check this run, and the runs whose tables had these names before and may not be needed now."""
        own = run_key(task.dag_id, task.run_id)
        for key in sorted({own, *named_before}):  # the order in which every transaction locks runs
            if key == own:
                touch(conn, task, look_at=now + self.policy.nudge_after)
            else:
                nudge(conn, key, look_at=now)


def check_options(options: OutputOptions) -> None:
    """:raises InvalidInterimTable: the name has other characters than names of tables, or the time to live is not positive."""
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


def _point(conn: sa.Connection, key: str, name: str, table_id: str, now: datetime) -> str | None:
    """Move the name to this table; return the key of the run of the table that it pointed to before."""
    before = NAMED_BEFORE.first(conn, {"b_name": name, "b_run_key": key})
    POINT.count(conn, {"name": name, "run_key": key, "table_id": table_id, "moved_at": now})
    return None if before is None else str(before.run_key)


def _found(query: sa.Select[Any], result: T, **values: str) -> Callable[[sa.Connection], T | None]:
    """Return the result if the query finds what only this very step can have written."""
    return lambda conn: result if conn.execute(query, values).first() is not None else None
