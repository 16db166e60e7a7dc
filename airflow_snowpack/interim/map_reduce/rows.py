"""The rows of a mapping or reduction: as a DataFrame, as dictionaries, and as Arrow batches.

    df = data_frame(table, spark)                                    # a DataFrame, or a reference with a session
    columns = columns_of(df, "tail string, flights bigint")          # or a StructType, an Arrow schema, or None: df's own
    RowBatches(columns.arrow).of([{"tail": "N14228", "flights": 3}])  # a RecordBatch, or raises Misfit
    rows_of(batch)                                                   # and back

The invariants: no two columns have the same name, since a row is a dictionary; and **a value goes into its column unchanged, or
not at all.** A name that the schema does not have is an error, and a column that a row leaves out is null where it may be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

from airflow_snowpack.interim.errors import InvalidInterimTable
from airflow_snowpack.interim.map_reduce.errors import InvalidColumns
from airflow_snowpack.interim.map_reduce.lossless import NO_NULL, loss_among
from airflow_snowpack.interim.refs import TableRef, ViewRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RowSchema: TypeAlias = Union[str, "StructType", "pa.Schema"]
REFUSALS = (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, LookupError)


def data_frame(table: DataFrame | TableRef | ViewRef, spark: SparkSession | None = None) -> DataFrame:
    """Return the rows as a DataFrame.

    :param spark: the session that reads a reference. The task keeps the table of a reference in its arguments.
    :raises InvalidInterimTable: a reference without a session, or neither a DataFrame nor a reference.
    """
    if isinstance(table, TableRef | ViewRef):
        from airflow_snowpack.interim.frames.tables import read_on_spark

        if spark is None:
            raise InvalidInterimTable("table", table, "reading a reference requires a session; pass it as spark=")
        return read_on_spark(table, spark)
    # Spark's own classes, classic and Connect, without importing them.
    if not hasattr(table, "mapInArrow"):
        raise InvalidInterimTable("table", table, "pass a Spark DataFrame, or the reference of an interim table with spark=")
    return table


@dataclass(frozen=True, slots=True)
class Columns:
    """The same columns for Spark and for Arrow."""

    spark: StructType
    arrow: pa.Schema


def columns_of(df: DataFrame, schema: RowSchema | None) -> Columns:
    """Return the columns of rows.

    :param schema: ``None`` for the columns of the DataFrame.
    :raises InvalidColumns: two have the same name, one has no type in Arrow, or the schema is not valid.
    """
    spark = df.schema if schema is None else _spark_schema(df, schema)
    twice = [name for name, count in Counter(spark.names).items() if count > 1]
    if twice:
        raise InvalidColumns(", ".join(spark.names), f"{', '.join(twice)} appears more than once, and a row is a dictionary")
    if not spark.names:
        raise InvalidColumns("()", "name at least one")
    return Columns(spark, _arrow_schema(spark))


class Misfit(ValueError):
    """A row, by its number, that does not fit its schema; it becomes the cause of a FunctionFailed."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch; maps and structs are dictionaries."""
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


class RowBatches:
    """Makes batches of rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = frozenset(schema.names)
        self._losses = [loss_among(field) for field in schema]

    def of(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Return the rows as a batch.

        :raises Misfit: one of them is not a dictionary, has other names, or a value that does not fit its column.
        """
        for number, row in enumerate(rows):
            self._check_names(number, row)
        columns = [self._column(place, [row.get(field.name) for row in rows]) for place, field in enumerate(self.schema)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _check_names(self, number: int, row: Any) -> None:
        if not isinstance(row, Mapping):
            raise Misfit(number, f"it returned {_kind(row)}, and a row is a dictionary")
        if not self._names.issuperset(row):
            strange = ", ".join(repr(name) for name in row if name not in self._names)
            raise Misfit(number, f"it returned {strange}, and the schema has only {', '.join(self.schema.names)}")

    def _column(self, place: int, values: list[Any]) -> pa.Array:
        try:
            column, problem = self._converted(place, values)
        except REFUSALS:
            column, problem = None, "a value does not fit"
        if problem is None:
            return column
        # Only after a failure is each value tried alone.
        for number, value in enumerate(values):
            self._blame(place, number, value)
        raise Misfit(0, f"the values of {self.schema.field(place).name} do not fit together")

    def _converted(self, place: int, values: list[Any]) -> tuple[pa.Array, str | None]:
        """Return the column, and what is wrong with it."""
        field = self.schema.field(place)
        column = pa.array(values, field.type)
        if not field.nullable and column.null_count:
            return column, NO_NULL
        return column, self._losses[place](values)

    def _blame(self, place: int, number: int, value: Any) -> None:
        try:
            _, problem = self._converted(place, [value])
        except REFUSALS as error:
            problem = str(error)
        if problem is not None:
            field = self.schema.field(place)
            given = f"it returned {field.name} = {value!r:.200} ({_kind(value)})"
            raise Misfit(number, f"{given}, which does not fit {field.type}: {problem}")


def _spark_schema(df: DataFrame, schema: Any) -> StructType:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    try:
        if isinstance(schema, pa.Schema):
            return from_arrow_schema(schema, prefer_timestamp_ntz=True)
        if isinstance(schema, str):
            return df.sparkSession.createDataFrame([], schema).schema
    except PySparkException as error:
        raise InvalidColumns(repr(schema), f"Spark cannot parse them ({str(error).strip().partition(chr(10))[0]})") from error
    if not isinstance(schema, StructType):
        problem = "pass Spark's DDL such as 'tail string, flights bigint', a StructType or an Arrow schema"
        raise InvalidColumns(repr(schema), problem)
    return schema


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema for Arrow; timestamps are in UTC, whatever the session's zone is."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType), nullable=field.nullable))
        except PySparkException as error:
            kind = field.dataType.simpleString()
            raise InvalidColumns(field.name, f"Arrow has no type for {kind}; drop the column, or cast it") from error
    return pa.schema(fields)


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
