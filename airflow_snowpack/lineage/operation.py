"""One operation on tables: what it read, what it wrote, which task ran it, and when.

    Operation(
        OperationKind.CREATE,
        at=store.clock(),
        inputs=[TableAt("lake.shop.orders", snapshot_id=11)],
        outputs=[TableAt("lake.snowpack_interim.clean_3f", snapshot_id=12)],
        task=TaskRef("orders", "manual__1", "clean", try_number=1),
        rows=1_000,
    )

The invariant: creating one never fails, whatever its values, since that happens in the midst of the work. Invalid values are
found, and logged, when it is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.store.clock_and_ids import new_id


class OperationKind(StrEnum):
    """What was done."""

    CREATE = "create"
    INSERT = "insert"
    COPY = "copy"
    MAP = "map"
    REDUCE = "reduce"
    MAINTENANCE = "maintenance"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class TableAt:
    """An Iceberg table as it was at one snapshot.

    :param table: the full name, ``catalog.database.table``.
    :param snapshot_id: ``None`` for a table without a snapshot, or if unknown.
    :param location: the table's location, such as ``s3://lake/orders``, by which OpenLineage names tables; ``None`` if unknown.
    """

    table: str
    snapshot_id: int | None = None
    location: str | None = None

    @property
    def name(self) -> str:
        """The table's name in the lineage."""
        return self.table


@dataclass(frozen=True, slots=True)
class DatasetAt:
    """A sharded dataset as one of its runs published it.

    :param url: the dataset's root, such as ``s3://lake/builds/orders``.
    :param run_id: the run that was published; ``None`` if unknown.
    """

    url: str
    run_id: str | None = None

    @property
    def name(self) -> str:
        """The dataset's name in the lineage: its URL, without a slash at the end."""
        return self.url.rstrip("/")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, as it is recorded and read back.

    :param at: when its result became visible, an aware time.
    :param inputs: what it read, :class:`TableAt` or :class:`DatasetAt`.
    :param outputs: what it wrote.
    :param task: the try of a task that ran it; ``None`` if no task was known.
    :param job_id: the maintenance job that ran it, if any.
    :param rows: how many rows it wrote; ``None`` if unknown.
    :param detail: more about it, as JSON values: the layers of a reduce, the result of an action.
    :param operation_id: recording the same operation again changes nothing.
    """

    kind: OperationKind
    at: datetime
    inputs: Sequence[TableAt | DatasetAt] = ()
    outputs: Sequence[TableAt | DatasetAt] = ()
    task: TaskRef | None = None
    job_id: str | None = None
    rows: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    operation_id: str = field(default_factory=new_id)
