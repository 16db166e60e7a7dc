"""Map rows one by one with a Python function, on Spark.

    def in_km(row, digits):
        if row["distance"] is None:
            return None                                            # leave the row out
        return {"flight": row["flight"], "km": round(row["distance"] * 1.609, digits)}

    df = map_rows(in_km, flights, "flight string, km double", kwargs={"digits": 1})

The invariants: each row of the table is given to the function once in the rows that come out, and each row that comes out fits
the schema. It is lazy, as everything of Spark's DataFrames: the function runs when rows are needed, and again when they are
needed again. What goes wrong then is a :class:`FunctionFailed`, which names the partition, the row in it, and the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_snowpack.interim.function_call import FunctionCall
from airflow_snowpack.interim.map_input import data_frame
from airflow_snowpack.interim.row_batch import RowBatches, rows_of
from airflow_snowpack.interim.row_schema import RowSchema, columns_of
from airflow_snowpack.interim.shipped_function import ShippedFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim.refs import TableRef, ViewRef

RowFunction = Callable[..., Mapping[str, Any] | None]


def map_rows(
    fn: RowFunction,
    table: DataFrame | TableRef | ViewRef,
    schema: RowSchema | None = None,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """The rows that a function makes of a table's rows.

    :param fn: ``fn(row, *args, **kwargs)``: a row as a dictionary; gives the new row, or ``None`` to leave it out.
    :param schema: the columns of the new rows: Spark's DDL, a ``StructType`` or an Arrow schema; ``None`` for those of the table.
    :param spark: the session that reads a ref; a DataFrame brings its own.
    :raises UnusableFunction: it, or an argument of it, cannot be sent to Spark's tasks.
    :raises InvalidColumns: the table's columns or the schema cannot be those of dictionaries.
    """
    df = data_frame(table, spark)
    columns_of(df, None)
    columns = columns_of(df, schema)
    task = RowsTask(ShippedFunction.of(fn, args, kwargs), columns.arrow)
    return df.mapInArrow(partial(map_partition, task), columns.spark)


@dataclass(frozen=True, slots=True)
class RowsTask:
    """All that a Spark task has to know."""

    function: ShippedFunction
    schema: pa.Schema


def map_partition(task: RowsTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What runs in a Spark task: the rows of its partition, a batch at a time."""
    call, made = FunctionCall.begin(task.function), RowBatches(task.schema)
    begin = 0
    for batch in batches:
        numbers, rows = [], []
        for number, row in enumerate(rows_of(batch), begin):
            new = call(row, f"row {number}")
            if new is not None:
                numbers.append(number)
                rows.append(new)
        begin += batch.num_rows
        if rows:
            yield call.batch(made, rows, partial(_place, numbers))


def _place(numbers: Sequence[int], at: int) -> str:
    return f"row {numbers[at]}"
