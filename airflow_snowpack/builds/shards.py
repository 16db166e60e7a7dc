"""One shard's file: rows that come sorted by their key, in batches, become a local file with all that its record tells.

    plan = ShardPlan(schema, key_column="tail_number", shard_format=ShardFormat.PARQUET)
    file = write_shard(plan, batches, Path("/scratch"))
    file.rows, file.min_key, file.checksum

The invariant: within a file the keys never fall. Readers search in it, so rows that come out of order are refused, not written.
It runs in Spark's tasks and holds one batch at a time, however large a shard is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from airflow_snowpack.builds.columns import check_columns
from airflow_snowpack.builds.errors import InvalidBuild, InvalidKey, TooManyKeys
from airflow_snowpack.builds.keys import Key
from airflow_snowpack.builds.model import ShardFormat, whole_number
from airflow_snowpack.builds.pace import Pace
from airflow_snowpack.builds.sharding import key_type_of, plain_keys

BATCH_SIZE = 65_536
CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What all shards of a build have in common.

    :param schema: the columns; each file has exactly these.
    :param batch_size: rows that are held and written at once; in Parquet, those of a row group.
    :param rows_per_second: the limit of each shard that is being written; ``None`` for none.
    :param max_keys: the most different keys of a shard; ``None`` for no limit.
    :raises InvalidBuild: the key is no column or of no type for a key, a column's name stands there twice or its type fits no
        shard, or a number is not positive.
    """

    schema: pa.Schema
    key_column: str
    shard_format: ShardFormat = ShardFormat.PARQUET
    batch_size: int = BATCH_SIZE
    rows_per_second: float | None = None
    max_keys: int | None = None

    def __post_init__(self) -> None:
        check_key(self.schema, self.key_column)
        # SQLite does not tell upper case from lower case in names; and neither does Spark, unless it is told to.
        folded = [name.casefold() for name in self.schema.names]
        twice = next((name for name in self.schema.names if folded.count(name.casefold()) > 1), None)
        if twice is not None:
            raise InvalidBuild("columns", twice, "another column has the same name, apart from upper and lower case. Rename one")
        whole_number("batch_size", self.batch_size, least=1)
        check_columns(self.schema, self.shard_format)
        Pace(self.rows_per_second)

    @property
    def file_name(self) -> str:
        return f"shard.{self.shard_format.value}"


def check_key(schema: pa.Schema, key_column: str) -> None:
    """:raises InvalidBuild: the key is not exactly one of the columns, or of no type for a key."""
    if schema.names.count(key_column) != 1:
        raise InvalidBuild("key", key_column, f"it must be exactly one of the columns {', '.join(schema.names)}")
    key_type_of(key_column, schema.field(key_column).type)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A shard's file as it stands on the local disk.

    :param checksum: ``xxh3_64:`` and 16 hex digits, of its bytes.
    """

    path: Path
    rows: int
    bytes: int
    min_key: Key | None
    max_key: Key | None
    checksum: str


class ShardWriter(Protocol):
    """Writes one format."""

    def write(self, rows: pa.Table, *, repeats: bool) -> None:
        """Append rows.

        :param repeats: some key among these rows stands there, or in the file already, another time.
        """

    def close(self) -> None:
        """Complete the file."""


def write_shard(plan: ShardPlan, batches: Iterable[pa.RecordBatch], folder: Path, *, pace: Pace | None = None) -> ShardFile:
    """Write a shard's rows into ``shard.parquet`` or ``shard.sqlite`` in a folder.

    :param batches: sorted by key over all of them; none at all make an empty file.
    :raises InvalidKey: a key is null, outside of 64 bits, or smaller than the one before it.
    :raises TooManyKeys: there are more different keys than the plan allows.
    """
    pace = pace or Pace(plan.rows_per_second)
    path = folder / plan.file_name
    writer = _open(plan, path)
    rows, different, first, last = 0, 0, None, None
    for table in _gathered(batches, plan):
        keys = plain_keys(table.column(plan.key_column).combine_chunks())
        repeats = check_order(keys, last)
        different += len(keys) - repeats
        if plan.max_keys is not None and different > plan.max_keys:
            raise TooManyKeys(plan.max_keys)
        pace.wait(len(table))
        writer.write(table, repeats=repeats > 0)
        rows += len(table)
        first = keys[0].as_py() if first is None else first
        last = keys[-1].as_py()
    writer.close()
    return ShardFile(path, rows, path.stat().st_size, first, last, file_checksum(path))


def file_checksum(path: Path) -> str:
    """The checksum of a local file's bytes."""
    digest = xxhash.xxh3_64()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return f"xxh3_64:{digest.hexdigest()}"


def _open(plan: ShardPlan, path: Path) -> ShardWriter:
    if plan.shard_format is ShardFormat.SQLITE:
        from airflow_snowpack.builds.sqlite_shard import SqliteShard

        return SqliteShard(path, plan.schema, plan.key_column)
    from airflow_snowpack.builds.parquet_shard import ParquetShard

    return ParquetShard(path, plan.schema, plan.key_column, plan.batch_size)


def _gathered(batches: Iterable[pa.RecordBatch], plan: ShardPlan) -> Iterator[pa.Table]:
    """The same rows in tables of ``batch_size`` rows: Spark's batches are as small as its own settings say."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.schema != plan.schema:
            batch = batch.cast(plan.schema)
        while len(batch):
            part = batch.slice(0, plan.batch_size - count)
            held.append(part)
            count += len(part)
            batch = batch.slice(len(part))
            if count == plan.batch_size:
                yield pa.Table.from_batches(held, plan.schema)
                held, count = [], 0
    if held:
        yield pa.Table.from_batches(held, plan.schema)


def check_order(keys: pa.Array, before: Key | None) -> int:
    """Return how many keys equal the one before them.

    :raises InvalidKey: one is smaller than the one before it.
    """
    earlier, later = keys.slice(0, len(keys) - 1), keys.slice(1)
    falls = pc.less(later, earlier)
    if pc.any(falls).as_py():
        raise InvalidKey(later.filter(falls)[0].as_py(), "it comes after a larger one, and the rows of a shard must be sorted")
    joins = before is not None and pc.equal(keys[0], pa.scalar(before, keys.type)).as_py()
    if before is not None and pc.less(keys[0], pa.scalar(before, keys.type)).as_py():
        raise InvalidKey(keys[0].as_py(), "it comes after a larger one, and the rows of a shard must be sorted")
    return int(joins) + (pc.sum(pc.equal(earlier, later)).as_py() or 0)
