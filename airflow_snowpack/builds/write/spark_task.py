"""The code that Spark's tasks run: write the shard that is the task's partition, as an attempt of its own.

    df.repartitionById(8, SHARD).sortWithinPartitions(key).mapInArrow(partial(write_partition, task), "shard_id int")

The attempt's folder carries Spark's attempt number and task attempt id, as Spark repeats attempt numbers after a stage retry. So
no two tasks write to the same folder, not even a task that Spark has given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.sharding import Placing, bucket_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt
from airflow_snowpack.spark.archives import spare_archives

SHARD = "__snowpack_shard"
"""The column of shard ids, which is not written to the files."""


@dataclass(frozen=True, slots=True)
class SparkTask:
    """The parameters of a task."""

    storage: Storage
    run_id: str
    plan: ShardPlan


@dataclass(frozen=True, slots=True)
class SparkPlacing:
    """Assigns rows to shards in a task."""

    placing: Placing

    def shards(self, column: pa.Array) -> pa.Array:
        """See :meth:`Placing.shards`."""
        spare_archives()
        return self.placing.shards(column)


def spark_bucket(keys: pa.Array) -> pa.Array:
    """See :func:`bucket_of`."""
    spare_archives()
    return pa.array(bucket_of(keys))


def write_partition(task: SparkTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the shard that is this task's partition.

    :param batches: its rows, sorted by key, with the column of shard ids.
    """
    from pyspark import TaskContext

    spare_archives()
    context = TaskContext.get()
    assert context is not None
    shard_id = context.partitionId()
    token = str(context.taskAttemptId())
    place = AttemptPlace(task.run_id, shard_id, context.attemptNumber(), token, context.taskAttemptId())
    write_attempt(task.storage, place, task.plan, _checked(batches, shard_id))
    yield pa.RecordBatch.from_pydict({"shard_id": pa.array([shard_id], pa.int32())})


def _checked(batches: Iterator[pa.RecordBatch], shard_id: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows without their shard's id.

    :raises InvalidBuild: a row belongs to another shard than the task's.
    """
    for batch in batches:
        ids = batch.column(SHARD)
        if not pc.all(pc.equal(ids, shard_id)).as_py():
            others = pc.unique(ids).to_pylist()
            raise InvalidBuild("shard", others, f"Spark sent these rows to the task of shard {shard_id}")
        yield batch.drop_columns([SHARD])
