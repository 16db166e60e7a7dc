"""Rows as dictionaries, from Arrow batches and back, with the value to blame when one does not fit its column.

    batches = RowBatches(schema)
    batches.of([{"tail": "N14228", "at": datetime(…, tzinfo=UTC), "notes": {"k": 1}}])       # a RecordBatch, or raises Misfit
    rows_of(batch)                                                                           # and back

The invariant: **a value goes into its column as it is, or not at all.** Nothing is rounded or cut off on the way, a name that the
schema does not have is an error and no row's loss, and a column that a row leaves out is null where it may be.
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
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


REFUSALS = (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, LookupError)


class Misfit(ValueError):
    """A row that its schema cannot hold; it becomes the cause of a FunctionFailed.

    :ivar number: which of the rows.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(problem)
        self.number = number


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch; a map column is a dictionary, and so is a struct."""
    rows: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts="strict")
    return rows


class RowBatches:
    """Makes batches of rows."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._names = frozenset(schema.names)
        self._losses = [loss_among(field) for field in schema]

    def of(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """The rows as a batch.

        :raises Misfit: one of them is no dictionary, has other names, or a value that its column cannot hold.
        """
        for number, row in enumerate(rows):
            self._check_names(number, row)
        columns = [self._column(place, [row.get(field.name) for row in rows]) for place, field in enumerate(self.schema)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _check_names(self, number: int, row: Any) -> None:
        if not isinstance(row, Mapping):
            raise Misfit(number, f"it gave {_kind(row)}, and a row is a dictionary")
        if not self._names.issuperset(row):
            strange = ", ".join(repr(name) for name in row if name not in self._names)
            raise Misfit(number, f"it gave {strange}, and the schema has only {', '.join(self.schema.names)}")

    def _column(self, place: int, values: list[Any]) -> pa.Array:
        try:
            column, problem = self._converted(place, values)
        except REFUSALS:
            column, problem = None, "a value does not fit"
        if problem is None:
            return column
        # Only now, when it has gone wrong, is each value tried alone.
        for number, value in enumerate(values):
            self._blame(place, number, value)
        raise Misfit(0, f"the values of {self.schema.field(place).name} do not fit together")

    def _converted(self, place: int, values: list[Any]) -> tuple[pa.Array, str | None]:
        """The column, and what is wrong with it."""
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
            raise Misfit(
                number, f"it gave {field.name} = {value!r:.200} ({_kind(value)}), which {field.type} cannot hold: {problem}"
            )


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


RowSchema: TypeAlias = Union[str, "StructType", "pa.Schema"]


@dataclass(frozen=True, slots=True)
class Columns:
    """The same columns twice."""

    spark: StructType
    arrow: pa.Schema


def columns_of(df: DataFrame, schema: RowSchema | None) -> Columns:
    """What rows have.

    :param schema: ``None`` for the columns of the DataFrame.
    :raises InvalidColumns: two have one name, one has no type in Arrow, or the schema is none.
    """
    spark = df.schema if schema is None else _spark_schema(df, schema)
    twice = [name for name, count in Counter(spark.names).items() if count > 1]
    if twice:
        raise InvalidColumns(", ".join(spark.names), f"{', '.join(twice)} stands there more than once, and a row is a dictionary")
    if not spark.names:
        raise InvalidColumns("()", "there are none; name one at least")
    return Columns(spark, _arrow_schema(spark))


def _spark_schema(df: DataFrame, schema: Any) -> StructType:
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    try:
        if isinstance(schema, pa.Schema):
            return from_arrow_schema(schema, prefer_timestamp_ntz=True)
        if isinstance(schema, str):
            return df.sparkSession.createDataFrame([], schema).schema
    except PySparkException as error:
        raise InvalidColumns(repr(schema), f"Spark cannot read them ({str(error).strip().partition(chr(10))[0]})") from error
    if not isinstance(schema, StructType):
        raise InvalidColumns(
            repr(schema), "give Spark's DDL such as 'tail string, flights bigint', a StructType or an Arrow schema"
        )
    return schema


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Moments are in UTC, whatever the session's zone is."""
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, to_arrow_type(field.dataType), nullable=field.nullable))
        except PySparkException as error:
            kind = field.dataType.simpleString()
            raise InvalidColumns(field.name, f"Arrow has no type for {kind}; leave it out, or cast it") from error
    return pa.schema(fields)


def data_frame(table: DataFrame | TableRef | ViewRef, spark: SparkSession | None = None) -> DataFrame:
    """The rows.

    :param spark: the session that reads a ref. Whoever gives a ref holds its table: the task does, for its arguments.
    :raises InvalidInterimTable: a ref without a session, or neither a DataFrame nor a ref.
    """
    if isinstance(table, TableRef | ViewRef):
        from airflow_snowpack.interim.frames.reading import read_on_spark

        if spark is None:
            raise InvalidInterimTable("table", table, "a ref is read with a session; give it as spark=")
        return read_on_spark(table, spark)
    # Spark's own classes, classic and Connect, without importing them.
    if not hasattr(table, "mapInArrow"):
        raise InvalidInterimTable("table", table, "give a Spark DataFrame, or the ref of an interim table with spark=")
    return table
