"""The rows of a mapping or reduction as a DataFrame, and the columns that a function returns.

    df = data_frame(table, spark)                                    # a DataFrame, or a reference with a session
    columns = columns_of(df, "tail string, flights bigint")          # or a StructType, an Arrow schema, or None: df's own

Invariant: no two columns have the same name, because a row is a dictionary.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import pyarrow as pa

from airflow_snowpack.interim.errors import InvalidInterimTable
from airflow_snowpack.interim.map_reduce.errors import InvalidColumns
from airflow_snowpack.interim.refs import TableRef, ViewRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RowSchema: TypeAlias = Union[str, "StructType", "pa.Schema"]


def data_frame(table: DataFrame | TableRef | ViewRef, spark: SparkSession | None = None) -> DataFrame:
    """Return the rows as a DataFrame.

    :param spark: the session that reads a reference. The task must keep a reference's table among its arguments.
    :raises InvalidInterimTable: a reference without a session, or neither a DataFrame nor a reference.
    """
    if isinstance(table, TableRef | ViewRef):
        from airflow_snowpack.interim.frames.tables import read_on_spark

        if spark is None:
            raise InvalidInterimTable("table", table, "reading a reference requires a session; pass it as spark=")
        return read_on_spark(table, spark)
    # Spark's classes, classic and Connect, without importing them.
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
    :raises InvalidColumns: two have the same name, Arrow has no type for one, or the schema is not valid.
    """
    spark = df.schema if schema is None else _spark_schema(df, schema)
    twice = [name for name, count in Counter(spark.names).items() if count > 1]
    if twice:
        raise InvalidColumns(", ".join(spark.names), f"{', '.join(twice)} appears more than once, and a row is a dictionary")
    if not spark.names:
        raise InvalidColumns("()", "name at least one")
    return Columns(spark, _arrow_schema(spark))


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
