"""The values of the room: who writes and who reads, what is held meanwhile, and a table as it is on record.

    holder = Holder(TaskKey("flights", "scheduled__2026…", "clean"), attempt=ti.id, try_number=2, started_at=ti.start_date)
    writing = registry.begin(holder.slot(), holder=holder, catalog="lake")

A table's life is :data:`TRANSITIONS`: what was handed on never goes back to being written, and what is to be dropped never comes
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.names import Producer, Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.preservation import Preservation

DEFAULT_OUTPUT = "return_value"
UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


class TableState(StrEnum):
    """Where a table is in its life."""

    WRITING = "writing"
    """Announced: somebody is making it, or was."""
    READY = "ready"
    """Handed on. It never changes again."""
    DROPPING = "dropping"
    """Nobody needs it; the collector drops it, or tries again."""


TRANSITIONS: Mapping[TableState, frozenset[TableState]] = {
    TableState.WRITING: frozenset({TableState.READY, TableState.DROPPING}),
    TableState.READY: frozenset({TableState.DROPPING}),
    TableState.DROPPING: frozenset(),
}


@dataclass(frozen=True, slots=True)
class InterimPolicy:
    """How long what is held is held, and how often is looked.

    :param namespace: of the catalog, where the tables go.
    :param lease: a writer or reader that does not renew for this long counts as dead, if Airflow agrees.
    :param heartbeat: how often a lease is renewed; never less than three times a lease.
    :param nudge_after: how long after a task told that it is about to end Airflow is asked whether it has.
    :param first_look: after this time a run is looked at again where nothing has changed; twice as long each time.
    :param longest_look: and at most this long.
    :param drop_lease: a collector that does not finish a drop within this time counts as dead.
    :param drop_again: after this time a drop that failed is tried again; twice as long each time, up to ``longest_look``.
    """

    namespace: str = "snowpack_interim"
    lease: timedelta = timedelta(minutes=10)
    heartbeat: timedelta = timedelta(minutes=1)
    nudge_after: timedelta = timedelta(seconds=5)
    first_look: timedelta = timedelta(minutes=1)
    longest_look: timedelta = timedelta(hours=1)
    drop_lease: timedelta = timedelta(minutes=10)
    drop_again: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class TaskKey:
    """A task instance, whichever of its tries.

    :param map_index: -1 for a task that is not mapped.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{mapped}"


@dataclass(frozen=True, slots=True)
class Slot:
    """One output of one task instance. At most one attempt at a time may hand it on.

    :param output: tells several outputs of one task apart.
    """

    task: TaskKey
    output: str = DEFAULT_OUTPUT

    @property
    def producer(self) -> Producer:
        """As it stands in a ref."""
        task = self.task
        return Producer(task.dag_id, task.run_id, task.task_id, task.map_index, self.output)

    def __str__(self) -> str:
        return f"{self.task}/{self.output}"


@dataclass(frozen=True, slots=True)
class Holder:
    """One attempt at a task instance: who writes or reads.

    :param attempt: what tells this attempt from all others, such as Airflow's id of the task instance (``ti.id``).
    :param try_number: counts the tries, and begins anew in a run that is deleted and made again.
    :param started_at: when Airflow started the attempt. Of two that are alive at once the one that started later counts; of two
        that started within a minute, as clocks differ, or of which nobody knows when, the later try.
    """

    task: TaskKey
    attempt: str
    try_number: int = 1
    started_at: datetime = UNKNOWN

    def slot(self, output: str = DEFAULT_OUTPUT) -> Slot:
        """One of its outputs."""
        return Slot(self.task, output)

    def __str__(self) -> str:
        return f"{self.task} (try {self.try_number})"


@dataclass(frozen=True, slots=True)
class Writing:
    """A table that one attempt may make, under a name that nobody else has: create it, then hand it on.

    :param attempt_id: the fence.
    :param lease_until: when the attempt counts as dead unless it renews; see ``InterimRegistry.heartbeat``.
    :param name: what the table is to be found by, once it is handed on, as far as the scope goes.
    :param ttl: for how long it is preserved or keeps a global name, once it is handed on; ``None``: without end.
    """

    table_id: str
    table: TableName
    slot: Slot
    holder: Holder
    attempt_id: str
    lease_until: datetime
    name: str | None = None
    scope: Scope = Scope.RUN
    preservation: Preservation = Preservation.NONE
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """Tables that one attempt reads; none of them goes before the reading is released, or its reader is dead.

    :param tables: the refs of the tables themselves, views resolved, each once.
    :param lease_until: when the reader counts as dead unless it renews; see ``InterimRegistry.heartbeat``.
    """

    reading_id: str
    tables: tuple[TableRef, ...]
    holder: Holder
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class InterimTable:
    """A table as it is on record.

    :param name: what it was named when it was handed on; whether the name still points to it is ``is_named``.
    :param expires_at: until when it is preserved or keeps its global name; ``None``: without end.
    :param pins: the consumers that are not finished for good, as ``dag_id/run_id/task_id``.
    :param readers: how many tasks are reading it.
    :param silent_readers: how many tasks that were reading it no longer renew their lease, such as one that was killed. They hold
        it until the lease is over and Airflow says that they have ended.
    :param lease_until: until when its writer, or the collector that drops it, holds it at least.
    :param check_at: when the collector looks at its DAG run next; ``None``: only when something happens.
    :param drops: how many tries to drop it were begun.
    :param error: why the last try to drop it failed.
    """

    table_id: str
    table: TableName
    state: TableState
    producer: Producer
    try_number: int
    created_at: datetime
    ready_at: datetime | None
    snapshot_id: int | None
    rows: int | None
    location: str | None
    preservation: Preservation
    name: str | None
    scope: Scope | None
    is_named: bool
    expires_at: datetime | None
    pins: tuple[str, ...]
    readers: int
    silent_readers: int
    lease_until: datetime | None
    check_at: datetime | None
    drops: int
    error: str | None

    @property
    def ref(self) -> TableRef:
        """What its producer handed on."""
        return TableRef(self.table_id, str(self.table), self.snapshot_id, self.rows, self.producer)
