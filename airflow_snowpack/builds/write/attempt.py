"""One attempt at one shard: write sorted rows to a file, then the attempt's record to confirm it.

    plan = ShardPlan(schema, key_column="tail_number", shard_format=ShardFormat.PARQUET)
    result = write_attempt(storage, AttemptPlace(run_id, shard_id=7, attempt=0, token="31", task_attempt_id=31), plan, batches)

Invariants: a record exists only beside a complete file, and no two attempts share a folder. The records thus list exactly the
successful attempts, and an attempt that its engine has abandoned does no harm. Keys within a file never decrease, because readers
search in it; rows out of order are refused. Only one batch is in memory, however large the shard is.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from airflow_snowpack.arrow.casting import cast_batch
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.columns import check_columns
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey, TooManyKeys
from airflow_snowpack.builds.json_format import file_checksum, to_json
from airflow_snowpack.builds.model import Key, ShardAttemptResult, ShardFormat, whole_number
from airflow_snowpack.builds.sharding import key_type_of, plain_keys
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.shard_writers import ParquetShard, SqliteShard
from airflow_snowpack.scratch import scratch_folder

BATCH_SIZE = 65_536


class RateLimit:
    """Limits the rows that a writer sends per second, to spare shared storage or networks.

    :param rows_per_second: ``None`` for no limit; ``monotonic`` and ``sleep`` are in seconds.
    :raises InvalidBuild: the rate is not a positive number.
    """

    def __init__(
        self,
        rows_per_second: float | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        number = isinstance(rows_per_second, (int, float)) and not isinstance(rows_per_second, bool)
        if rows_per_second is not None and not (number and rows_per_second > 0):
            raise InvalidBuild("rows_per_second", rows_per_second, "it must be a number above 0, or None for no limit")
        self._rate = rows_per_second
        self._monotonic = monotonic
        self._sleep = sleep
        self._start: float | None = None
        self._rows = 0

    def wait(self, rows: int) -> None:
        if self._rate is None:
            return
        now = self._monotonic()
        if self._start is None:
            self._start = now
        self._rows += rows
        early = self._start + self._rows / self._rate - now
        if early > 0:
            self._sleep(early)


@dataclass(frozen=True, slots=True)
class AttemptPlace:
    """The identity of an attempt, which determines its folder; see :func:`layout.attempt_folder`.

    :param attempt: Spark's ``attemptNumber``, or the number of the try, from 0.
    :param task_attempt_id: Spark's ``taskAttemptId``; ``None`` without Spark.
    """

    run_id: str
    shard_id: int
    attempt: int
    token: str
    task_attempt_id: int | None = None

    @property
    def folder(self) -> str:
        """The attempt's folder, relative to the dataset's root."""
        return layout.attempt_folder(self.run_id, self.shard_id, self.attempt, self.token)


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What all shards of a build share.

    :param batch_size: rows that are buffered and written at once; in Parquet, the rows per row group.
    :param rows_per_second: the limit per shard while it is written; ``None`` for no limit.
    :param max_keys: the maximum of distinct keys per shard; ``None`` for no limit.
    :raises InvalidBuild: the key is not a column or has an unsupported type, two columns share a name, a shard cannot hold a
        column's type, or a number is not positive.
    """

    schema: pa.Schema
    key_column: str
    shard_format: ShardFormat = ShardFormat.PARQUET
    batch_size: int = BATCH_SIZE
    rows_per_second: float | None = None
    max_keys: int | None = None

    def __post_init__(self) -> None:
        check_key(self.schema, self.key_column)
        # SQLite ignores the case of names, as Spark does by default.
        folded = [name.casefold() for name in self.schema.names]
        twice = next((name for name in self.schema.names if folded.count(name.casefold()) > 1), None)
        if twice is not None:
            raise InvalidBuild("columns", twice, "another column has the same name, apart from upper and lower case. Rename one")
        whole_number("batch_size", self.batch_size, least=1)
        check_columns(self.schema, self.shard_format)
        RateLimit(self.rows_per_second)  # checks the number

    @property
    def file_name(self) -> str:
        return f"shard.{self.shard_format.value}"


def check_key(schema: pa.Schema, key_column: str) -> None:
    """Raise :class:`InvalidBuild` unless the key is exactly one of the columns, with a supported type."""
    if schema.names.count(key_column) != 1:
        raise InvalidBuild("key", key_column, f"it must be exactly one of the columns {', '.join(schema.names)}")
    key_type_of(key_column, schema.field(key_column).type)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard's file on the local disk."""

    path: Path
    rows: int
    bytes: int
    min_key: Key | None
    max_key: Key | None
    checksum: str
    block_seed: str


def write_attempt(
    storage: Storage,
    place: AttemptPlace,
    plan: ShardPlan,
    batches: Iterable[pa.RecordBatch],
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ShardAttemptResult:
    """Write one attempt: the file, then its record. Parameters and errors are those of :func:`write_shard`."""
    with scratch_folder() as folder:
        file = write_shard(plan, batches, folder)
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
        block_seed=file.block_seed,
    )
    storage.write(place.folder + layout.RECORD, to_json(result))
    return result


def write_shard(plan: ShardPlan, batches: Iterable[pa.RecordBatch], folder: Path) -> ShardFile:
    """Write a shard's rows into ``shard.parquet`` or ``shard.sqlite`` in a local folder.

    :param batches: sorted by key across all batches; none write an empty file.
    :raises InvalidRowKey: a key is null, outside of 64 bits, or smaller than its predecessor.
    :raises TooManyKeys: there are more distinct keys than the plan allows.
    """
    limit = RateLimit(plan.rows_per_second)
    path, block_seed = folder / plan.file_name, secrets.token_hex(8)
    if plan.shard_format is ShardFormat.SQLITE:
        writer: SqliteShard | ParquetShard = SqliteShard(path, plan.schema, plan.key_column, block_seed)
    else:
        writer = ParquetShard(path, plan.schema, plan.key_column, block_seed, plan.batch_size)
    rows, distinct, first, last = 0, 0, None, None
    for table in _rebatched(batches, plan):
        keys = plain_keys(table.column(plan.key_column).combine_chunks())
        repeats = check_order(keys, last)
        distinct += len(keys) - repeats
        if plan.max_keys is not None and distinct > plan.max_keys:
            raise TooManyKeys(plan.max_keys)
        limit.wait(len(table))
        writer.write(table, repeats=repeats > 0)
        rows += len(table)
        first = keys[0].as_py() if first is None else first
        last = keys[-1].as_py()
    writer.close()
    return ShardFile(path, rows, path.stat().st_size, first, last, file_checksum(path), block_seed)


def _rebatched(batches: Iterable[pa.RecordBatch], plan: ShardPlan) -> Iterator[pa.Table]:
    """Yield the rows in tables of ``batch_size`` rows, because Spark's settings determine the size of its batches."""
    pending: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.schema != plan.schema:
            if batch.schema.names != plan.schema.names:
                raise InvalidBuild("rows", batch.schema.names, f"the columns of the shard are {', '.join(plan.schema.names)}")
            batch = cast_batch(batch, plan.schema, by_name=True)
        while len(batch):
            part = batch.slice(0, plan.batch_size - count)
            pending.append(part)
            count += len(part)
            batch = batch.slice(len(part))
            if count == plan.batch_size:
                yield pa.Table.from_batches(pending, plan.schema)
                pending, count = [], 0
    if pending:
        yield pa.Table.from_batches(pending, plan.schema)


def check_order(keys: pa.Array, before: Key | None) -> int:
    """Return how many keys equal their predecessor; ``before`` is the last key of the preceding rows.

    :raises InvalidRowKey: a key is smaller than its predecessor.
    """
    earlier, later = keys.slice(0, len(keys) - 1), keys.slice(1)
    falls = later.filter(pc.less(later, earlier))
    previous = None if before is None else pa.scalar(before, keys.type)
    if len(falls) or (previous is not None and pc.less(keys[0], previous).as_py()):
        wrong = falls[0] if len(falls) else keys[0]
        raise InvalidRowKey(wrong.as_py(), "it comes after a larger one, and the rows of a shard must be sorted")
    joins = previous is not None and pc.equal(keys[0], previous).as_py()
    return int(joins) + (pc.sum(pc.equal(earlier, later)).as_py() or 0)
