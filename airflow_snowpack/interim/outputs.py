"""Makes what an attempt has written readable for those who come next: all of its outputs, or none.

    registry.hand_on_all([Complete(rows, snapshot_id=7, rows=100), Complete(rejects, snapshot_id=8, rows=2)], consumers=["use"])

The invariant: in one transaction all tables become ready, each under the attempt's fence, and get their pins, their lineage and
their names. A try of which any part fails has handed on nothing: no pin, no name and no lineage tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.errors import StaleInterimAttempt
from airflow_snowpack.interim.listing import name_key
from airflow_snowpack.interim.model import Writing
from airflow_snowpack.interim.readings import InterimHolding, pin_values
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.interim.rows import ADD_PINS, HAND_ON, NAMED_BEFORE, POINT, WAS_HANDED_ON, nudge, run_key, touch
from airflow_snowpack.lineage.operation import DatasetAt, Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import record_operation
from airflow_snowpack.store import repeatable, storable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Complete:
    """A table that is written through, and what its lineage is to say of it.

    :param snapshot_id: what is to be read; ``None`` for a table without a snapshot, which is empty.
    :param location: the table's folder, if it is known at no cost.
    :param kind: what made it.
    :param inputs: what it was made from.
    :param detail: more about how it was made, of what JSON can hold.
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
        """What the XCom carries."""
        writing = self.writing
        return TableRef(writing.table_id, str(writing.table), self.snapshot_id, self.rows, writing.slot.producer)

    @property
    def name(self) -> tuple[str, str] | None:
        """The name that is to point here, and whose it is."""
        writing, task = self.writing, self.writing.slot.task
        return None if writing.name is None else (name_key(writing.scope, task.dag_id, task.run_id), writing.name)

    def values(self, now: datetime) -> dict[str, Any]:
        """What becomes of its row."""
        return {
            "b_table": self.writing.table_id,
            "b_attempt": self.writing.attempt_id,
            "b_ready_at": now,
            "b_snapshot_id": self.snapshot_id,
            "b_rows": self.rows,
            "b_location": None if self.location is None else storable(self.location),
            "b_expires_at": None if self.writing.ttl is None else now + self.writing.ttl,
            "b_visible_at": now,
        }

    def operation(self, now: datetime) -> Operation:
        """Its lineage."""
        task, tried = self.writing.slot.task, self.writing.holder.try_number
        return Operation(
            self.kind,
            at=now,
            inputs=self.inputs,
            outputs=[TableAt(str(self.writing.table), self.snapshot_id, self.location)],
            task=TaskRef(task.dag_id, task.run_id, task.task_id, task.map_index, tried),
            rows=self.rows,
            detail=self.detail,
        )


class InterimHandingOn(InterimHolding):
    """Hands on what is complete."""

    def hand_on(
        self, writing: Writing, *, snapshot_id: int | None, rows: int | None, consumers: Iterable[str], **more: Any
    ) -> TableRef:
        """One table is complete, and all that the attempt has: see :meth:`hand_on_all`.

        :param more: the other fields of :class:`Complete`.
        :raises StaleInterimAttempt: another attempt has the slot; nothing was handed on.
        """
        [ref] = self.hand_on_all([Complete(writing, snapshot_id, rows, **more)], consumers=consumers)
        return ref

    def hand_on_all(self, outputs: Sequence[Complete], *, consumers: Iterable[str]) -> list[TableRef]:
        """These tables are complete: from now on they never change, and their consumers may read them. All of them, or none.

        :param outputs: of one attempt.
        :param consumers: the ids of the tasks directly downstream, in the same run.
        :raises StaleInterimAttempt: another attempt has one of the slots; nothing was handed on.
        """
        if not outputs:
            return []
        now, holder = self.store.clock(), outputs[0].writing.holder
        in_order = sorted(outputs, key=lambda output: output.writing.table_id)
        pins = pin_values([output.writing.table_id for output in outputs], consumers, holder)
        operations = [output.operation(now) for output in outputs]
        named = sorted((*output.name, output.writing.table_id) for output in outputs if output.name is not None)
        refs = [output.ref for output in outputs]

        def write(conn: sa.Connection) -> list[TableRef]:
            for output in in_order:
                if HAND_ON.count(conn, output.values(now)) == 0:
                    raise StaleInterimAttempt(f"the output {output.writing.slot}")
            if pins:
                ADD_PINS.each(conn, pins)
            for operation in operations:
                record_operation(conn, operation)
            before = [_point(conn, key, name, table_id, now) for key, name, table_id in named]
            if not pins or named:
                self._wake(conn, outputs[0].writing, before, now)
            return refs

        return self.store.transact(repeatable(write, found(WAS_HANDED_ON, refs, b_table=outputs[0].writing.table_id)))

    def _wake(self, conn: sa.Connection, writing: Writing, before: Iterable[str | None], now: datetime) -> None:
        """Look at this run, and at those whose tables were called by these names before: nothing may protect them any more."""
        task = writing.slot.task
        own = run_key(task.dag_id, task.run_id)
        for key in sorted({own, *(key for key in before if key is not None)}):  # the order in which everybody locks runs
            if key == own:
                touch(conn, task.dag_id, task.run_id, look_at=now + self.policy.nudge_after)
            else:
                nudge(conn, key, look_at=now)


def _point(conn: sa.Connection, key: str, name: str, table_id: str, now: datetime) -> str | None:
    """Move the name here. The run of the table that it pointed to before."""
    before = NAMED_BEFORE.first(conn, {"b_name": name, "b_run_key": key})
    POINT.count(conn, {"name": name, "run_key": key, "table_id": table_id, "moved_at": now})
    return None if before is None else str(before.run_key)


def found(query: sa.Select[Any], result: T, **values: str) -> Callable[[sa.Connection], T | None]:
    """The result, if the query finds what only this very step can have written."""
    return lambda conn: result if conn.execute(query, values).first() is not None else None
