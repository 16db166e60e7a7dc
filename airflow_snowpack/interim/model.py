"""Values of this room: writers, readers, their leases, and recorded tables.

    attempt = TaskAttempt(TaskRef("flights", "scheduled__2026…", "clean"), ti.id, try_number=2, started_at=ti.start_date)
    writing = registry.begin(attempt, catalog="lake", options=OutputOptions(name="features"))

The life of a table is :data:`TRANSITIONS`: a ready table is never written again, and a table being dropped never comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.interim.names import DEFAULT_OUTPUT, Producer, Scope
from airflow_snowpack.interim.refs import TableRef
from airflow_snowpack.preservation import Preservation

UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


class TableState(StrEnum):
    WRITING = "writing"
    """Recorded; an attempt is writing it, or was."""
    READY = "ready"
    """Committed; it never changes again."""
    DROPPING = "dropping"
    """No task needs it; the collector drops it, and retries failed drops."""


TRANSITIONS: Mapping[TableState, frozenset[TableState]] = {
    TableState.WRITING: frozenset({TableState.READY, TableState.DROPPING}),
    TableState.READY: frozenset({TableState.DROPPING}),
    TableState.DROPPING: frozenset(),
}


@dataclass(frozen=True, slots=True)
class InterimPolicy:
    """Where tables are created, how long leases last, and how often the collector checks a DAG run.

    :param namespace: the tables' namespace in the catalog.
    :param lease: a writer or reader that has not renewed for this long counts as dead, if Airflow confirms it.
    :param heartbeat: how often leases are renewed; at least three times per lease.
    :param nudge_after: when to check a run after one of its tasks reported that it is about to end.
    :param first_look: when to check an unchanged run again; doubles each time.
    :param longest_look: the longest time between two checks.
    :param drop_lease: a collector that does not finish a drop within this time counts as dead.
    :param drop_again: when to retry a failed drop; doubles each time, up to ``longest_look``.
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
class OutputOptions:
    """How to find a committed table, and how long to keep it.

    :param name: the name by which others find it; ``None``: only by its reference.
    :param scope: where the name is valid.
    :param preservation: ``FULL`` keeps the table when no task needs it.
    :param ttl: how long after its commit it is preserved or keeps its global name; ``None``: forever.
    """

    name: str | None = None
    scope: Scope = Scope.RUN
    preservation: Preservation = Preservation.NONE
    ttl: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt at a task instance, which writes or reads.

    :param id: unique per attempt: Airflow's ``ti.id``, for example.
    :param try_number: restarts at 1 in a run that is deleted and created again.
    :param started_at: when Airflow started the attempt. Of two concurrent attempts, the one that started later counts; if they
        started within a minute of each other (clocks differ) or at an unknown time, the later try counts.
    """

    task: TaskRef
    id: str
    try_number: int = 1
    started_at: datetime = UNKNOWN

    def producer(self, output: str = DEFAULT_OUTPUT) -> Producer:
        return Producer(self.task.dag_id, self.task.run_id, self.task.task_id, self.task.map_index, output)

    def __str__(self) -> str:
        return f"{self.task} (try {self.try_number})"


@dataclass(frozen=True, slots=True)
class Writing:
    """A table that one attempt may create and then commit, under a unique name.

    :param attempt_id: the fence token.
    :param lease_until: when the attempt counts as dead unless it renews (``InterimRegistry.heartbeat``).
    """

    table_id: str
    table: TableName
    producer: Producer
    attempt: TaskAttempt
    attempt_id: str
    lease_until: datetime
    options: OutputOptions = OutputOptions()


@dataclass(frozen=True, slots=True)
class Reading:
    """Tables that one attempt reads; none is dropped until the reading is released or its reader is dead.

    :param tables: references of the tables, each once; views are resolved.
    :param lease_until: when the reader counts as dead unless it renews.
    """

    reading_id: str
    tables: tuple[TableRef, ...]
    attempt: TaskAttempt
    lease_until: datetime


@dataclass(frozen=True, slots=True)
class InterimTable:
    """A recorded table.

    :param name: the name under which it was committed; ``is_named`` is whether the name still points to it.
    :param expires_at: when its preservation or global name ends; ``None``: never.
    :param pins: the consumers that have not finished for good, as ``dag_id/run_id/task_id``.
    :param readers: the number of tasks that are reading it.
    :param silent_readers: the number of readers that no longer renew their lease: killed ones, for example. They protect the
        table until the lease has expired and Airflow reports that they have ended.
    :param lease_until: the end of the lease of its writer, or of the collector that drops it.
    :param check_at: when the collector checks its DAG run next; ``None``: only when something happens.
    :param drops: the number of attempts to drop it.
    :param error: why the last attempt to drop it failed.
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
        """The reference that its producer returned."""
        return TableRef(self.table_id, str(self.table), self.snapshot_id, self.rows, self.producer)
