"""Write a DataFrame as shards in one Spark job: each row goes to its shard, and one task writes each shard.

    source = SparkSource.table(session, TableName.parse("flights.departures", catalog="lake"))
    source = SparkSource.sql(session, "SELECT user_id, count(*) AS clicks FROM lake.web.clicks GROUP BY user_id")
    written = source.write(storage, run_id, spec, Sharding.hash(8), Interrupt())

A task's partition is its shard, and it writes only its own attempt, in a folder with Spark's attempt number and task attempt id.
So Spark may speculate, retry tasks or stages, and lose executors: each repetition is another complete attempt, and the selection
later picks the winner from the attempts' records. An Iceberg table is read at one snapshot, which the manifest names.

Executors need this package with pyarrow and xxhash, and the storage's credentials in its options.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.builds.build_spec import BuildInput, BuildSpec, Interrupt, check_sources
from airflow_snowpack.builds.errors import BuildError, InvalidBuild, raised_elsewhere
from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.sharding import BUCKETS, Placing, bucket_of, key_type_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, check_key, write_attempt
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.literal import check_literal
from airflow_snowpack.spark import SparkFailed, SparkUnavailable, SparkWork, without_substitution
from airflow_snowpack.spark.plan_tables import tables_read
from airflow_snowpack.spark.session import spare_archives

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")

log = logging.getLogger(__name__)

PARALLEL_EMPTY_SHARDS = 16
SHARD = "__snowpack_shard"
"""The column of shard ids, which is not written to the files."""


@dataclass(frozen=True, slots=True)
class SparkSource:
    """A DataFrame as the source of a build (:class:`BuildSource`); ``sources`` is the origin of the rows, for the manifest."""

    df: DataFrame
    sources: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_sources(self.sources)

    @classmethod
    def table(cls, session: SparkSession, name: TableName) -> SparkSource:
        """Read an Iceberg table at its current snapshot, or any other table of the session."""
        snapshot_id = _current_snapshot(session, name)
        if snapshot_id is None:
            return cls(session.table(name.quoted), ({"table": str(name)},))
        df = session.read.option("versionAsOf", snapshot_id).table(name.quoted)
        return cls(df, ({"table": str(name), "snapshot_id": snapshot_id},))

    @classmethod
    def sql(cls, session: SparkSession, query: str) -> SparkSource:
        """Read the result of a query, or raise :class:`InvalidBuild` if it has a variable for Spark to substitute."""
        _check_sql("sql", query)
        return cls(without_substitution(session).sql(query), ({"sql": query},))

    def count_keys(self, key: str, interrupt: Interrupt) -> np.ndarray:
        """Count the distinct keys by bucket, in a pass over the input; nulls are not counted, because writing refuses them."""
        from pyspark.sql.types import IntegerType

        df = self.df
        check_key(arrow_schema_of(df), key)
        bucket: Column = _arrow_udf()(spark_bucket, IntegerType())(df[key])
        keys = df.where(df[key].isNotNull()).select(df[key]).distinct()
        counts = keys.select(bucket.alias("bucket")).groupBy("bucket").count()
        found: pa.Table = _run(interrupt.work, counts, counts.toArrow)
        buckets = np.zeros(BUCKETS, np.int64)
        buckets[found.column("bucket").to_numpy()] = found.column("count").to_numpy()
        return buckets

    def write(self, storage: Storage, run_id: str, spec: BuildSpec, sharding: Sharding, interrupt: Interrupt) -> BuildInput:
        """Write all shards; see :meth:`BuildSource.write`.

        :raises StorageFailed: an object could not be written in any of Spark's tries.
        :raises SparkFailed, SparkInterrupted: Spark itself failed, or the write was interrupted.
        """
        sources = (*self.sources, *self._tables())  # before reading the rows, with the snapshots of the plan
        schema = arrow_schema_of(self.df)
        plan = spec.plan(schema)
        placed = _with_shard_ids(self.df, sharding, schema, spec.key)
        shards = placed.repartitionById(sharding.num_shards, SHARD).sortWithinPartitions(spec.key)
        written = shards.mapInArrow(partial(write_partition, storage, run_id, plan), "shard_id int")
        found = {row["shard_id"] for row in _run(interrupt.work, written, written.collect)}
        missing = sorted(set(range(sharding.num_shards)) - found)
        if missing:
            log.info("Spark ran no task for %s shards without rows; writing them here", len(missing))
            write_empty_shards(storage, run_id, plan, missing)
        return BuildInput.of(schema, spec.key, sources)

    def _tables(self) -> tuple[dict[str, Any], ...]:
        """Return the tables in the plan of a query or of a user's DataFrame."""
        named = {source.get("table") for source in self.sources}
        read = [table for table in tables_read(self.df) if table.name not in named]
        return tuple(
            {"table": table.name} | ({} if table.snapshot_id is None else {"snapshot_id": table.snapshot_id}) for table in read
        )


def write_empty_shards(storage: Storage, run_id: str, plan: ShardPlan, shard_ids: Iterable[int]) -> None:
    """Write attempts without rows, several in parallel."""

    def write(shard_id: int) -> None:
        write_attempt(storage, AttemptPlace(run_id, shard_id, 0, uuid4().hex), plan, [])

    with ThreadPoolExecutor(PARALLEL_EMPTY_SHARDS, "snowpack-empty-shard") as pool:
        for _ in pool.map(write, shard_ids):
            pass


def arrow_schema_of(df: DataFrame) -> pa.Schema:
    """Return the shards' schema: all columns nullable, timestamps in UTC whatever the session's time zone is.

    :raises InvalidBuild: Arrow has no type for a column.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type

    def field(name: str, kind: Any) -> pa.Field:
        try:
            return pa.field(name, to_arrow_type(kind))
        except PySparkException as error:
            raise InvalidBuild("columns", name, f"a shard cannot hold {kind.simpleString()}; omit it or cast it") from error

    return pa.schema([field(each.name, each.dataType) for each in df.schema])


def _current_snapshot(session: SparkSession, name: TableName) -> int | None:
    """Return the table's current snapshot; ``None`` if it has none or is not an Iceberg table."""
    from pyspark.errors import AnalysisException

    try:
        rows = session.sql(f"SELECT snapshot_id FROM {name.quoted}.refs WHERE name = 'main'").collect()
    except AnalysisException:
        return None
    return int(rows[0]["snapshot_id"]) if rows else None


def _with_shard_ids(df: DataFrame, sharding: Sharding, schema: pa.Schema, key_column: str) -> DataFrame:
    """Add the column of shard ids; only the column that determines them travels to Python and back.

    :raises InvalidBuild: the column does not exist, or the expression is invalid or has a variable for Spark to substitute.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql.functions import expr
    from pyspark.sql.types import IntegerType

    if sharding.column is not None and sharding.column not in df.columns:
        raise InvalidBuild("column", sharding.column, f"it must be one of the columns {', '.join(df.columns)}")
    if sharding.sql is not None:
        _check_sql("sharding", sharding.sql)
    placing = Placing(sharding, key_type_of(key_column, schema.field(key_column).type))
    # The type stubs require the kind of function; Spark infers it, and warns if it is passed.
    shards: Any = _arrow_udf()(SparkPlacing(placing).shards, IntegerType())
    try:
        return df.withColumn(SHARD, shards(expr(sharding.sql) if sharding.sql is not None else df[sharding.column or key_column]))
    except (AnalysisException, ParseException) as error:
        raise InvalidBuild("sharding", sharding.sql or sharding.column, str(error).partition("\n")[0]) from error


def _arrow_udf() -> Any:
    """Return Spark's constructor of functions on Arrow arrays; raise :class:`SparkUnavailable` before Spark 4.1."""
    try:
        from pyspark.sql.pandas.functions import arrow_udf
    except ImportError:
        from pyspark import __version__

        raise SparkUnavailable(f"A build from Spark needs Spark 4.1, and pyspark {__version__} is installed.") from None
    return arrow_udf


def _check_sql(name: str, text: str) -> None:
    try:
        check_literal(text)
    except ValueError as problem:
        raise InvalidBuild(name, text, f"it {problem}") from None


def _run(work: SparkWork, df: DataFrame, action: Callable[[], T]) -> T:
    try:
        return work.run(df.sparkSession, action)
    except SparkFailed as failure:
        ours = _build_error(str(failure))
        if ours is None:
            raise
        raise ours from failure


def _build_error(message: str) -> BuildError | None:
    """Return the error of this room that ended a task, from the last line of the task's traceback in Spark's message."""
    found = re.search(r"airflow_snowpack\.builds\.errors\.(\w+): (.+)", message)
    return raised_elsewhere(found[1], found[2]) if found else None


# -- in Spark's tasks --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SparkPlacing:
    """Assigns rows to shards in a task."""

    placing: Placing

    def shards(self, column: pa.Array) -> pa.Array:
        spare_archives()
        return self.placing.shards(column)


def spark_bucket(keys: pa.Array) -> pa.Array:
    spare_archives()
    return pa.array(bucket_of(keys))


def write_partition(
    storage: Storage, run_id: str, plan: ShardPlan, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write this task's partition, which is one shard: rows sorted by key, with the column of shard ids."""
    from pyspark import TaskContext

    spare_archives()
    context = TaskContext.get()
    assert context is not None
    shard_id = context.partitionId()
    token = str(context.taskAttemptId())
    place = AttemptPlace(run_id, shard_id, context.attemptNumber(), token, context.taskAttemptId())
    write_attempt(storage, place, plan, _check_shard_ids(batches, shard_id))
    yield pa.RecordBatch.from_pydict({"shard_id": pa.array([shard_id], pa.int32())})


def _check_shard_ids(batches: Iterator[pa.RecordBatch], shard_id: int) -> Iterator[pa.RecordBatch]:
    """Drop the column of shard ids; raise :class:`InvalidBuild` if a row belongs to another task's shard."""
    for batch in batches:
        ids = batch.column(SHARD)
        if not pc.all(pc.equal(ids, shard_id)).as_py():
            others = pc.unique(ids).to_pylist()
            raise InvalidBuild("shard", others, f"Spark sent these rows to the task of shard {shard_id}")
        yield batch.drop_columns([SHARD])
