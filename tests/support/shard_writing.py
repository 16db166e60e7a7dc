"""Write the shards of a run by the arguments that a test varies."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from airflow_snowpack.builds.build_spec import BuildInput, BuildSpec, Interrupt
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.rows_source import Rows, RowsSource
from airflow_snowpack.builds.write.spark_source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_rows(
    rows: Rows,
    storage: Storage,
    run_id: str,
    sharding: Sharding,
    key: str,
    *,
    schema: Any = None,
    sources: tuple[dict[str, Any], ...] = (),
    stop: threading.Event | None = None,
    **declared: Any,
) -> BuildInput:
    """Write rows without Spark; ``declared`` are parameters of the build's declaration."""
    interrupt = Interrupt()
    interrupt.stop = stop or interrupt.stop
    spec = BuildSpec(dataset="set", key=key, sharding=sharding, **declared)
    return RowsSource(rows, schema, sources).write(storage, run_id, spec, sharding, interrupt)


def write_shards(df: DataFrame, storage: Storage, run_id: str, sharding: Sharding, key: str, **declared: Any) -> BuildInput:
    """Write a DataFrame; ``declared`` are parameters of the build's declaration."""
    limited = "max_keys_per_shard" in declared  # which a declaration has instead of a sharding
    spec = BuildSpec(dataset="set", key=key, sharding=None if limited else sharding, **declared)
    return SparkSource(df).write(storage, run_id, spec, sharding, Interrupt())
