"""One attempt at one shard: its file, then, last, its durable record.

    result = write_attempt(storage, Place(run_id, shard_id=7, attempt=0, token="31", task_attempt_id=31), plan, batches)

The invariant: **a record stands beside a file that is complete, and no two attempts share a folder.** So whoever finds records
finds exactly the successful attempts, however often an engine tried, and an attempt that nobody waits for any more writes only
where nobody looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.pace import Pace
from airflow_snowpack.builds.records import to_json
from airflow_snowpack.builds.scratch import scratch
from airflow_snowpack.builds.shards import ShardPlan, write_shard
from airflow_snowpack.builds.storage import Storage


@dataclass(frozen=True, slots=True)
class Place:
    """Which attempt it is, and so where it writes.

    :param attempt: Spark's ``attemptNumber``, or the number of the try, from 0.
    :param token: what makes the folder unique within the run; see :func:`layout.attempt_folder`.
    :param task_attempt_id: Spark's ``taskAttemptId``; ``None`` where there is no such thing.
    """

    run_id: str
    shard_id: int
    attempt: int
    token: str
    task_attempt_id: int | None = None

    @property
    def folder(self) -> str:
        """Where the attempt writes, relative to the dataset's root."""
        return layout.attempt_folder(self.run_id, self.shard_id, self.attempt, self.token)


def write_attempt(
    storage: Storage,
    place: Place,
    plan: ShardPlan,
    batches: Iterable[pa.RecordBatch],
    *,
    pace: Pace | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ShardAttemptResult:
    """Write one attempt.

    :param batches: the shard's rows, sorted by key; none for an empty shard, which gets its (empty) file as well.
    :raises InvalidKey: see :func:`write_shard`.
    :raises StorageFailed: the storage failed three times at the same object.
    """
    with scratch("snowpack-shard-") as folder:
        file = write_shard(plan, batches, folder, pace=pace)
        url = place.folder + plan.file_name
        storage.upload(file.path, url)
    result = ShardAttemptResult(
        run_id=place.run_id,
        shard_id=place.shard_id,
        attempt=place.attempt,
        task_attempt_id=place.task_attempt_id,
        url=url,
        rows=file.rows,
        bytes=file.bytes,
        min_key=file.min_key,
        max_key=file.max_key,
        checksum=file.checksum,
        finished_at=clock(),
    )
    storage.write(place.folder + layout.RECORD, to_json(result))
    return result
