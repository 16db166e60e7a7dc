"""Write a DataFrame as shards, in one Spark job: rows go to their shards, and one task writes each shard, side by side.

    written = write_shards(df, storage, run_id, Sharding.hash(8), "tail_number")
    winners = select_winners(read_attempts(storage, run_id), 8, run_id)

The invariant: **a task writes its own attempt and nothing else**: the shard is the task's partition, the folder carries Spark's
attempt number and task attempt id. So Spark may speculate, retry a task or a stage, or lose an executor as it likes; whatever
it runs more than once is one more complete attempt, and which one counts is decided later, from the attempts' records.

Executors need this package with its pyarrow and xxhash, and the storage's credentials as they stand in its options.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

from airflow_snowpack.builds.attempt import Place, write_attempt
from airflow_snowpack.builds.build_input import BuildInput
from airflow_snowpack.builds.errors import BuildError, InvalidBuild, raised_elsewhere
from airflow_snowpack.builds.model import ShardFormat, Sharding, ShardingKind
from airflow_snowpack.builds.sharding import BUCKETS, Placing, key_type_of
from airflow_snowpack.builds.shards import BATCH_SIZE, ShardPlan, check_key
from airflow_snowpack.builds.spark_task import SHARD, SparkPlacing, SparkTask, spark_bucket, write_partition
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.spark import SparkFailed, SparkWork

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

T = TypeVar("T")

log = logging.getLogger(__name__)

EMPTY_AT_ONCE = 16


def write_shards(
    df: DataFrame,
    storage: Storage,
    run_id: str,
    sharding: Sharding,
    key_column: str,
    shard_format: ShardFormat = ShardFormat.PARQUET,
    batch_size: int = BATCH_SIZE,
    rows_per_second: float | None = None,
    *,
    sources: tuple[dict[str, Any], ...] = (),
    work: SparkWork | None = None,
    max_keys: int | None = None,
) -> BuildInput:
    """Write every row of a DataFrame into the shard that it belongs to, and every shard, also those without rows.

    :param storage: the dataset's root.
    :param batch_size: rows that a task holds and writes at once; in Parquet, those of a row group.
    :param rows_per_second: the limit of each task; as many of them write as the cluster has cores for.
    :param sources: where the rows come from, for the manifest.
    :param work: lets another thread interrupt it.
    :param max_keys: the most different keys of a shard.
    :raises InvalidBuild: the key, a column or the sharding cannot be used.
    :raises InvalidKey: a key is null or outside of 64 bits, or a row belongs to no shard.
    :raises TooManyKeys: a shard gets more different keys than ``max_keys``.
    :raises StorageFailed: an object could not be written, in all of Spark's tries.
    :raises SparkFailed: Spark itself failed.
    :raises SparkInterrupted: it was interrupted.
    """
    schema = arrow_schema_of(df)
    plan = ShardPlan(schema, key_column, shard_format, batch_size, rows_per_second, max_keys)
    placed = _placed(df, sharding, schema, key_column)
    shards = placed.repartitionById(sharding.num_shards, SHARD).sortWithinPartitions(key_column)
    written = shards.mapInArrow(partial(write_partition, SparkTask(storage, run_id, plan)), "shard_id int")
    found = _collected(written, work or SparkWork())
    missing = sorted(set(range(sharding.num_shards)) - found)
    if missing:
        log.info("Spark ran no task for %s shards without rows; writing them here", len(missing))
        write_empty_shards(storage, run_id, plan, missing)
    return BuildInput.of(schema, key_column, sources)


def count_keys(df: DataFrame, key_column: str, work: SparkWork) -> np.ndarray:
    """Count the different keys by bucket, see :func:`fewest_shards`; null is not counted, as writing refuses it.

    :raises InvalidBuild, InvalidKey: see :func:`write_shards`.
    """
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    check_key(arrow_schema_of(df), key_column)
    bucket: Column = arrow_udf(spark_bucket, IntegerType())(df[key_column])  # type: ignore[call-overload]
    keys = df.where(df[key_column].isNotNull()).select(df[key_column]).distinct()
    counts = keys.select(bucket.alias("bucket")).groupBy("bucket").count()
    found: pa.Table = _run(work, counts, counts.toArrow)
    buckets = np.zeros(BUCKETS, np.int64)
    buckets[found.column("bucket").to_numpy()] = found.column("count").to_numpy()
    return buckets


def write_empty_shards(storage: Storage, run_id: str, plan: ShardPlan, shard_ids: Iterable[int]) -> None:
    """Write attempts without rows, several at once."""

    def write(shard_id: int) -> None:
        write_attempt(storage, Place(run_id, shard_id, 0, uuid4().hex), plan, [])

    with ThreadPoolExecutor(EMPTY_AT_ONCE, "snowpack-empty-shard") as pool:
        for _ in pool.map(write, shard_ids):
            pass


def arrow_schema_of(df: DataFrame) -> pa.Schema:
    """The columns as shards hold them: any may be null, and moments are in UTC whatever the session's zone is.

    :raises InvalidBuild: Arrow has no type for a column.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    def field(name: str, kind: Any) -> pa.Field:
        try:
            return pa.field(name, to_arrow_type(kind))
        except PySparkException as error:
            raise InvalidBuild("columns", name, f"a shard cannot hold {kind.simpleString()}; leave it out, or cast it") from error

    return pa.schema([field(each.name, each.dataType) for each in df.schema])


def _place(df: DataFrame, sharding: Sharding, schema: pa.Schema, key_column: str) -> Column:
    """The column of shard ids; only what decides about them travels to Python and back."""
    from pyspark.sql.functions import expr
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    placing = Placing(sharding, key_type_of(key_column, schema.field(key_column).type))
    match sharding.kind:
        case ShardingKind.HASH:
            by = df[key_column]
        case ShardingKind.CATEGORIES:
            if sharding.column not in df.columns:
                raise InvalidBuild("column", sharding.column, f"it must be one of the columns {', '.join(df.columns)}")
            by = df[sharding.column]
        case ShardingKind.EXPRESSION:
            by = expr(str(sharding.sql))
    # Its types want to know what kind of function this is; Spark finds that out from the function, and warns whoever says it.
    column: Column = arrow_udf(SparkPlacing(placing).shards, IntegerType())(by)  # type: ignore[call-overload]
    return column


def _placed(df: DataFrame, sharding: Sharding, schema: pa.Schema, key_column: str) -> DataFrame:
    """The rows with the ids of their shards.

    :raises InvalidBuild: the sharding names a column that is not there, or its expression is none.
    """
    from pyspark.errors import AnalysisException, ParseException

    try:
        return df.withColumn(SHARD, _place(df, sharding, schema, key_column))
    except (AnalysisException, ParseException) as error:
        raise InvalidBuild("sharding", sharding.sql or sharding.column, str(error).partition("\n")[0]) from error


def _collected(written: DataFrame, work: SparkWork) -> set[int]:
    return {row["shard_id"] for row in _run(work, written, written.collect)}


def _run(work: SparkWork, df: DataFrame, action: Callable[[], T]) -> T:
    try:
        return work.run(df.sparkSession, action)
    except SparkFailed as failure:
        ours = _our_error(str(failure))
        if ours is None:
            raise
        raise ours from failure


def _our_error(told: str) -> BuildError | None:
    """The error of ours that ended a task: Spark tells it as the last line of the task's traceback."""
    found = re.search(r"airflow_snowpack\.builds\.errors\.(\w+): (.+)", told)
    return raised_elsewhere(found[1], found[2]) if found else None
