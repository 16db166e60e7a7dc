"""The columns of rows: as a user says them, as Spark has them, and as Arrow batches have them.

    columns = columns_of(df, None)                                     # those of the DataFrame
    columns = columns_of(df, "tail string, flights bigint")            # or of Spark's DDL, a StructType, or an Arrow schema
    columns.spark, columns.arrow

The invariant: no two columns have one name, since a row is a dictionary.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from airflow_snowpack.interim.function_errors import InvalidColumns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

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
