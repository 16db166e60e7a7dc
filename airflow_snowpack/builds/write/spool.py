"""Keep rows on the local disk, sorted by shard, until their shard is written without Spark.

    spool = Spool(folder, schema, Placing(Sharding.hash(8), KeyType.STRING), "tail_number")
    for batch in batches: spool.add(batch)
    spool.close()
    spooled_rows(folder, 3, key_column="tail_number", batch_size=65_536)             # in any process

Rows are collected into chunks of about 100 MB. Each chunk is sorted by shard and written as one Arrow file, beside the row
numbers at which its shards begin. So 10,000 shards need no more files than one, and a process that writes a shard reads only its
part.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import ShardingKind
from airflow_snowpack.builds.sharding import Placing, plain_keys

CHUNK_BYTES = 100 * 1024 * 1024
ROWS, BEGINS = "chunk-*.arrow", ".npy"


class Spool:
    """Collects rows.

    :param folder: an empty folder on the local disk, with space for all rows.
    :param chunk_bytes: the size of the rows that are kept in memory.
    :raises InvalidBuild: the sharding is by an expression, which only Spark can evaluate, or by a column that does not exist.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, placing: Placing, key_column: str, *, chunk_bytes: int = CHUNK_BYTES
    ) -> None:
        sharding = placing.sharding
        if sharding.kind is ShardingKind.EXPRESSION:
            raise InvalidBuild(
                "sharding", sharding.sql, "an SQL expression needs Spark; shard by hash or categories, or build with Spark"
            )
        self._by = sharding.column or key_column
        if self._by not in schema.names:
            raise InvalidBuild("column", self._by, f"it must be one of the columns {', '.join(schema.names)}")
        self._folder = folder
        self._schema = schema
        self._placing = placing
        self._key = key_column
        self._chunk_bytes = chunk_bytes
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._chunks = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        :raises InvalidRowKey: a key is null or outside of 64 bits, or a value is not a category.
        :raises InvalidBuild: the columns differ from the schema.
        """
        try:
            batch = batch if batch.schema == self._schema else batch.select(self._schema.names).cast(self._schema)
        except (KeyError, pa.ArrowException, ValueError) as error:
            raise InvalidBuild("rows", batch.schema.names, f"they do not fit the first rows' columns ({error})") from error
        try:
            batch.validate(full=True)
        except pa.ArrowException as error:
            raise InvalidBuild("rows", batch.schema.names, f"they are not valid Arrow data ({error})") from error
        plain_keys(batch.column(self._key))
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._chunk_bytes:
            self.close()

    def close(self) -> None:
        """Write the rows that are still in memory."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema).combine_chunks()
        shards = self._placing.shards(table.column(self._by).combine_chunks()).to_numpy()
        order = np.argsort(shards, kind="stable")
        placed = table.take(pa.array(order)).combine_chunks()
        begins = np.searchsorted(shards[order], np.arange(self._placing.sharding.num_shards + 1))
        path = self._folder / f"chunk-{self._chunks:05d}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self._schema) as writer:
            writer.write_table(placed)
        np.save(path.with_suffix(BEGINS), begins)
        self._chunks += 1
        self._pending, self._pending_bytes = [], 0


def spooled_rows(folder: Path, shard_id: int, key_column: str, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield a shard's rows, sorted by key; all of them are in memory meanwhile.

    :param folder: of the spool.
    """
    parts = [_part(path, shard_id) for path in sorted(folder.glob(ROWS))]
    if parts:
        yield from pa.concat_tables(parts).sort_by(key_column).to_batches(batch_size)


def _part(path: Path, shard_id: int) -> pa.Table:
    begin, end = np.load(path.with_suffix(BEGINS), mmap_mode="r")[shard_id : shard_id + 2]
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all().slice(int(begin), int(end - begin))
