"""What runs in a Spark task of a reduction: some groups of one layer, each made one row.

    df.repartitionById(8, place).sortWithinPartitions(INDEX).mapInArrow(partial(reduce_partition, task), schema)

The invariant: the function is called for a group only when the task has met exactly the rows of that group, in order; it holds
the rows of one group at a time.
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

ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class LayerTask:
    """All that a task has to know."""

    function: ShippedFunction
    layer: Layer
    fan_in: int
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Group:
    """The rows that the function gets at once.

    :param number: its own number, which is that of the row that it becomes.
    """

    number: int
    first: int
    rows: list[dict[str, Any]]


def reduce_partition(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What runs in a Spark task."""
    call, made = FunctionCall.begin(task.function), RowBatches(task.schema)
    numbers: list[int] = []
    rows: list[Any] = []

    def batch() -> pa.RecordBatch:
        reduced = call.batch(made, rows, lambda at: _place(task, numbers[at]))
        return reduced.append_column(pa.field(INDEX, pa.int64(), nullable=False), pa.array(numbers, pa.int64()))

    for group in groups(task, batches):
        numbers.append(group.number)
        rows.append(call(group.rows, _place(task, group.number)))
        if len(rows) >= ROWS_AT_ONCE:
            yield batch()
            numbers, rows = [], []
    if rows:
        yield batch()


def groups(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[Group]:
    """The groups of a partition, whole.

    :raises WrongRows: a row is missing, is there twice, or is in the wrong place.
    """
    group: Group | None = None
    for batch in batches:
        for row in rows_of(batch):
            index = row.pop(INDEX)
            if group is None:
                group = Group(index // task.fan_in, index - index % task.fan_in, [])
            if index != group.first + len(group.rows):
                raise WrongRows.at(_place(task, group.number), f"row {group.first + len(group.rows)} next", f"row {index}")
            group.rows.append(row)
            if len(group.rows) == _size(task, group):
                yield group
                group = None
    if group is not None:
        raise WrongRows.at(_place(task, group.number), f"{_size(task, group)} rows", len(group.rows))


def _size(task: LayerTask, group: Group) -> int:
    return min(task.fan_in, task.layer.rows_in - group.first)


def _place(task: LayerTask, group: int) -> str:
    first = group * task.fan_in
    last = min(first + task.fan_in, task.layer.rows_in) - 1
    return f"layer {task.layer.number}, rows {first} to {last}"
