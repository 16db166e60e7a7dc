"""Map rows with a Python function on Spark, row by row or partition by partition.

    def in_km(row, digits):
        if row["distance"] is None:
            return None                                            # drop the row
        return {"flight": row["flight"], "km": round(row["distance"] * 1.609, digits)}

    df = map_rows(in_km, flights, "flight string, km double", kwargs={"digits": 1})

    def scored(batches):
        model = load_model()                                       # once per partition, not per row
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"id": batch["id"], "score": model.predict(batch)})

    df = map_partitions(scored, features, "id bigint, score double")

Invariant: the function gets each row of the table once, and what it returns has the schema's columns, by name, unchanged. Maps
are lazy like all Spark DataFrames: the function runs when rows are needed, and again when they are needed again. Only then an
error is raised, as a :class:`FunctionFailed` with the partition, the row or the last batch that was read, and the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_snowpack.arrow.casting import cast
from airflow_snowpack.arrow.rows import RowBatches, rows_of
from airflow_snowpack.interim.map_reduce.functions import FunctionCall, ShippedFunction
from airflow_snowpack.interim.map_reduce.rows import RowSchema, columns_of, data_frame
from airflow_snowpack.interim.refs import TableRef, ViewRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RowFunction = Callable[..., Mapping[str, Any] | None]
PartitionFunction = Callable[..., Iterable[pa.RecordBatch | pa.Table | None]]

_END = object()


def map_rows(
    fn: RowFunction,
    table: DataFrame | TableRef | ViewRef,
    schema: RowSchema | None = None,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the rows that a function makes of a table's rows.

    :param fn: ``fn(row, *args, **kwargs)``: gets a row as a dictionary; returns the new row, or ``None`` to drop it.
    :param schema: the columns of the new rows: Spark DDL, a ``StructType`` or an Arrow schema; ``None`` for those of the table.
    :param spark: the session that reads a reference; a DataFrame has one.
    :raises UnusableFunction: the function or an argument cannot be sent to Spark's tasks.
    :raises InvalidColumns: dictionaries cannot have the columns of the table or the schema.
    """
    df = data_frame(table, spark)
    columns_of(df, None)
    columns = columns_of(df, schema)
    return df.mapInArrow(partial(map_partition, ShippedFunction.of(fn, args, kwargs), columns.arrow), columns.spark)


def map_partitions(
    fn: PartitionFunction,
    table: DataFrame | TableRef | ViewRef,
    schema: RowSchema | None = None,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return the rows that a function makes of the batches of each partition.

    :param fn: ``fn(batches, *args, **kwargs)``: gets an iterator of Arrow record batches; returns record batches or tables, as a
        generator or a list, in which ``None`` is skipped. Spark decides how rows are divided into partitions.
    :param schema: the columns of the new rows; ``None`` for those of the table.
    :param spark: the session that reads a reference; a DataFrame has one.
    :raises UnusableFunction: the function or an argument cannot be sent to Spark's tasks.
    :raises InvalidColumns: Arrow has no types for the columns, or the schema is not valid.
    """
    df = data_frame(table, spark)
    columns = columns_of(df, schema)
    return df.mapInArrow(partial(map_batches, ShippedFunction.of(fn, args, kwargs), columns.arrow), columns.spark)


def map_partition(function: ShippedFunction, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Map the rows of a partition in a Spark task, a batch at a time."""
    call, made = FunctionCall.begin(function), RowBatches(schema)
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


def map_batches(function: ShippedFunction, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Map the batches of a partition in a Spark task."""
    call, reading = FunctionCall.begin(function), _Reading()
    given = call.guarded(reading, None, call.function, reading.through(batches))
    if isinstance(given, pa.RecordBatch | pa.Table):
        given = [given]
    if not isinstance(given, Iterable):
        raise call.failed(reading, f"it returned {given!r:.200}, and not record batches")
    given = iter(given)
    # A generator's code runs between its batches.
    while (made := call.guarded(reading, None, next, given, _END)) is not _END:
        if made is not None:
            yield from _fitted(call, reading, made, schema)


class _Reading:
    """How far a function has read in its partition."""

    def __init__(self) -> None:
        self._batches = self._rows = 0

    def through(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._batches += 1
            self._rows += batch.num_rows
            yield batch

    def __str__(self) -> str:
        return f"batch {self._batches - 1}, after {self._rows} rows" if self._batches else "its start"


def _place(numbers: Sequence[int], at: int) -> str:
    return f"row {numbers[at]}"


def _fitted(call: FunctionCall, reading: _Reading, made: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield what the function returned, with the schema's columns in order and of their types."""
    if not isinstance(made, pa.RecordBatch | pa.Table):
        raise call.failed(reading, f"it returned a {type(made).__name__}, and not a record batch or a table")
    names = made.schema.names
    if sorted(names) != sorted(schema.names):
        raise call.failed(reading, f"it returned the columns {', '.join(names)}, and the schema has {', '.join(schema.names)}")
    for batch in made.to_batches() if isinstance(made, pa.Table) else [made]:
        columns = [_column(call, reading, batch.column(field.name), field) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(call: FunctionCall, reading: _Reading, column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        column = column if column.type.equals(field.type) else cast(column, field.with_nullable(True), by_name=True)
    except pa.ArrowException as error:
        raise call.failed(reading, f"its column {field.name} cannot become {field.type}: {error}") from error
    if column.null_count and not field.nullable:
        raise call.failed(reading, f"its column {field.name} has nulls, which the schema does not allow")
    return column
