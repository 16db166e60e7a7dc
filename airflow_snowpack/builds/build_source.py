"""Where the rows of a build come from: Spark, or Python alone.

    SparkSource.table(session, TableName.parse("flights.departures", catalog="lake"))
    SparkSource.sql(session, "SELECT user_id, count(*) AS clicks FROM lake.web.clicks GROUP BY user_id")
    SparkSource(df)
    RowsSource(pyarrow_table_or_batches_or_dictionaries)

The invariant: an Iceberg table is read as of one snapshot, and the manifest names it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.builds.build_input import BuildInput, check_sources
from airflow_snowpack.builds.build_spec import BuildSpec
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.python_writer import write_rows
from airflow_snowpack.builds.row_batches import Rows
from airflow_snowpack.builds.sharding import BUCKETS, bucket_of
from airflow_snowpack.builds.shards import check_key
from airflow_snowpack.builds.spark_writer import count_keys, write_shards
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.spark import SparkWork
from airflow_snowpack.spark.plan_tables import tables_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.iceberg import TableName


class Interrupt:
    """Stops a writer, from a signal handler too: it only sets flags."""

    def __init__(self) -> None:
        self.work = SparkWork()
        self.stop = threading.Event()

    def __call__(self) -> None:
        """Stop for good."""
        self.work.interrupt()
        self.stop.set()


class BuildSource(Protocol):
    """Rows that can be written as shards."""

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the different keys by bucket, see :func:`fewest_shards`."""

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write all shards."""


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A DataFrame.

    :param sources: where it comes from, for the manifest.
    """

    df: DataFrame
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @classmethod
    def table(cls, session: SparkSession, name: TableName) -> SparkSource:
        """An Iceberg table as it is now, or any other table that the session knows."""
        snapshot_id = _current_snapshot(session, name)
        if snapshot_id is None:
            return cls(session.table(name.quoted), ({"table": str(name)},))
        df = session.read.option("versionAsOf", snapshot_id).table(name.quoted)
        return cls(df, ({"table": str(name), "snapshot_id": snapshot_id},))

    @classmethod
    def sql(cls, session: SparkSession, query: str) -> SparkSource:
        """The result of a query."""
        return cls(session.sql(query), ({"sql": query},))

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the different keys by bucket; a pass over the input."""
        return count_keys(self.df, key, interrupt.work)

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write all shards; see :func:`write_shards`."""
        return write_shards(
            self.df,
            storage,
            run_id,
            sharding,
            spec.key,
            spec.shard_format,
            spec.batch_size,
            spec.rows_per_second,
            sources=(*self.sources, *self._tables()),
            work=interrupt.work,
            max_keys=spec.max_keys_per_shard,
        )

    def _tables(self) -> tuple[dict[str, Any], ...]:
        """The tables that a query reads, or the DataFrame of somebody's function, as far as its plan tells."""
        named = {source.get("table") for source in self.sources}
        read = [table for table in tables_read(self.df) if table.name not in named]
        return tuple(
            {"table": table.name} | ({} if table.snapshot_id is None else {"snapshot_id": table.snapshot_id}) for table in read
        )


@dataclass(frozen=True, slots=True)
class RowsSource:
    """Rows in Python.

    :param schema: their columns; without it the first rows decide.
    :param sources: where they come from, for the manifest.
    """

    rows: Rows
    schema: pa.Schema | None = None
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the different keys by bucket.

        :raises InvalidBuild: the rows can be read only once, or the key is no column of them.
        """
        if not isinstance(self.rows, pa.Table):
            raise InvalidBuild(
                "max_keys_per_shard", type(self.rows).__name__, "only a table can be counted first; name the sharding"
            )
        check_key(self.rows.schema, key)
        keys = pc.unique(self.rows.column(key)).drop_null()  # writing refuses null
        return np.bincount(bucket_of(keys), minlength=BUCKETS)

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write all shards; see :func:`write_rows`."""
        return write_rows(
            self.rows,
            storage,
            run_id,
            sharding,
            spec.key,
            spec.shard_format,
            spec.batch_size,
            spec.rows_per_second,
            schema=self.schema,
            shard_retry=spec.shard_retry,
            processes=spec.processes,
            sources=self.sources,
            stop=interrupt.stop,
            max_keys=spec.max_keys_per_shard,
        )


def _current_snapshot(session: SparkSession, name: TableName) -> int | None:
    """The table's current snapshot; ``None`` when it has none, or is not Iceberg's."""
    from pyspark.errors import AnalysisException

    try:
        rows = session.sql(f"SELECT snapshot_id FROM {name.quoted}.refs WHERE name = 'main'").collect()
    except AnalysisException:
        return None
    return int(rows[0]["snapshot_id"]) if rows else None
