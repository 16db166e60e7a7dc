"""A Spark task of a reduction: reduces some groups of one layer to one row each.

    df.repartitionById(8, place).sortWithinPartitions(INDEX).mapInArrow(partial(reduce_partition, task), schema)

The invariant: the function is called for a group only when the task has read exactly the rows of that group, in order; the task
keeps the rows of one group in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_snowpack.interim.map_reduce.errors import WrongRows
from airflow_snowpack.interim.map_reduce.functions import FunctionCall, ShippedFunction
from airflow_snowpack.interim.map_reduce.layers import Layer
from airflow_snowpack.interim.map_reduce.rows import RowBatches, rows_of

INDEX = "__snowpack_index"
"""The column of row numbers, which the result does not have."""
ROWS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True)
class LayerTask:
    """What a task gets."""

    function: ShippedFunction
    layer: Layer
    fan_in: int
    schema: pa.Schema

    def size(self, group: Group) -> int:
        """Return how many rows the group must have."""
        return min(self.fan_in, self.layer.rows_in - group.first)

    def place(self, group: int) -> str:
        """Return the place of a group, for error messages."""
        first = group * self.fan_in
        return f"layer {self.layer.number}, rows {first} to {min(first + self.fan_in, self.layer.rows_in) - 1}"


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one call of the function.

    :param number: also the number of the row that it becomes.
    """

    number: int
    first: int
    rows: list[dict[str, Any]]


def reduce_partition(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reduce the groups of a partition in a Spark task."""
    call, made = FunctionCall.begin(task.function), RowBatches(task.schema)
    numbers: list[int] = []
    rows: list[Any] = []

    def batch() -> pa.RecordBatch:
        reduced = call.batch(made, rows, lambda at: task.place(numbers[at]))
        return reduced.append_column(pa.field(INDEX, pa.int64(), nullable=False), pa.array(numbers, pa.int64()))

    for group in groups(task, batches):
        numbers.append(group.number)
        rows.append(call(group.rows, task.place(group.number)))
        if len(rows) >= ROWS_PER_BATCH:
            yield batch()
            numbers, rows = [], []
    if rows:
        yield batch()


def groups(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[Group]:
    """Yield the complete groups of a partition.

    :raises WrongRows: a row is missing, appears twice, or is in the wrong place.
    """
    group: Group | None = None
    for batch in batches:
        for row in rows_of(batch):
            index = row.pop(INDEX)
            if group is None:
                group = Group(index // task.fan_in, index - index % task.fan_in, [])
            if index != group.first + len(group.rows):
                raise WrongRows.at(task.place(group.number), f"row {group.first + len(group.rows)} next", f"row {index}")
            group.rows.append(row)
            if len(group.rows) == task.size(group):
                yield group
                group = None
    if group is not None:
        raise WrongRows.at(task.place(group.number), f"{task.size(group)} rows", len(group.rows))
