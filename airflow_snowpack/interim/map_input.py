"""What is mapped or reduced: a DataFrame, or the ref of an interim table.

df = data_frame(table, spark)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.interim.errors import InvalidInterimTable
from airflow_snowpack.interim.refs import TableRef, ViewRef

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def data_frame(table: DataFrame | TableRef | ViewRef, spark: SparkSession | None = None) -> DataFrame:
    """The rows.

    :param spark: the session that reads a ref. Whoever gives a ref holds its table: the task does, for its arguments.
    :raises InvalidInterimTable: a ref without a session, or neither a DataFrame nor a ref.
    """
    if isinstance(table, TableRef | ViewRef):
        from airflow_snowpack.interim.reading import read_on_spark

        if spark is None:
            raise InvalidInterimTable("table", table, "a ref is read with a session; give it as spark=")
        return read_on_spark(table, spark)
    # Spark's own classes, classic and Connect, without importing them.
    if not hasattr(table, "mapInArrow"):
        raise InvalidInterimTable("table", table, "give a Spark DataFrame, or the ref of an interim table with spark=")
    return table
