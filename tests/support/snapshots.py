"""Publishes small builds by the room's own writers, for tests of readers.

first = publish(storage, pa.table({"tail": ["N1", "N2"]}), key="tail", run_id="a")
publish(storage, …, run_id="b", after=first)
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from fsspec.implementations.local import LocalFileSystem
from pyarrow import fs

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.json_format import checksum_of, to_json
from airflow_snowpack.builds.model import Current, Manifest, ShardFormat, Sharding, ShardingKind
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.sharding import Placing, key_type_of
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt

AT = datetime(2026, 1, 1, tzinfo=UTC)


def publish(
    storage: Storage,
    table: pa.Table,
    *,
    key: str,
    run_id: str = "20260101T000000Z",
    sharding: Sharding | None = None,
    shard_format: ShardFormat = ShardFormat.SQLITE,
    after: Current | None = None,
    batch_size: int = 100,
    ids: pa.Array | None = None,
) -> Current:
    """Write, and point to, a build.

    :param after: the pointer that this one replaces.
    :param ids: the shard ids of the rows, for an expression.
    """
    sharding = sharding or Sharding.hash(4)
    key_type = key_type_of(key, table.schema.field(key).type)
    placed = {ShardingKind.HASH: key, ShardingKind.CATEGORIES: sharding.column, ShardingKind.EXPRESSION: None}[sharding.kind]
    column = ids if placed is None else table.column(placed).combine_chunks()
    shard_of_row = Placing(sharding, key_type).shards(column)
    plan = ShardPlan(table.schema, key, shard_format, batch_size)
    shards = []
    for shard_id in range(sharding.num_shards):
        rows = table.filter(pc.equal(shard_of_row, shard_id)).sort_by(key)
        shards.append(write_attempt(storage, AttemptPlace(run_id, shard_id, 0, "0"), plan, rows.to_batches(), clock=lambda: AT))
    columns = tuple((field.name, str(field.type)) for field in table.schema)
    previous = after.manifest if after else None
    manifest = Manifest(
        "flights", run_id, AT, AT, key, key_type, sharding, shard_format, columns, tuple(shards), (), previous
    )  # fmt: skip
    data = to_json(manifest)
    storage.write(layout.manifest(run_id, 1), data)
    return point(storage, layout.manifest(run_id, 1), run_id, data, after)


def point(storage: Storage, path: str, run_id: str, data: bytes, after: Current | None) -> Current:
    """Point to a manifest."""
    publication = after.publication + 1 if after else 1
    before = (after.manifest, after.checksum) if after else (None, None)
    current = Current("flights", publication, run_id, path, checksum_of(data), AT, *before)
    storage.write(layout.CURRENT, to_json(current))
    return current


class Far(LocalFileSystem):
    """A local folder that is not taken for one, counts what is read of it, and can go away."""

    cachable = False

    def __init__(self) -> None:
        super().__init__(auto_mkdir=True)
        self.away = False
        self.opened: list[str] = []

    def open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        if self.away:
            raise OSError("the storage is away")
        self.opened.append(path)
        return super().open(path, mode, **more)


def remote_storage(url: str) -> Storage:
    """A folder as a storage that is not local; ``storage._fs.handler.fs`` is its :class:`Far`."""
    return Storage(url, filesystem=fs.PyFileSystem(fs.FSSpecHandler(Far())), sleep=lambda _seconds: None)


def twins(one: Storage, other: Storage, keys: list[int], shard_format: ShardFormat) -> tuple[dict[int, Any], bytes]:
    """Publish a build of one shard in each of two storages, as two installations may: with the same paths, keys and sizes, and
    other values. Return the rows of the first by their keys, and the bytes of the shard of the other.
    """
    tables = []
    for storage, seed in ((one, 1), (other, 2)):
        values = random.Random(seed)
        tables.append(pa.table({"id": keys, "value": [values.randrange(2**62, 2**63) for _ in keys]}))
        publish(storage, tables[-1], key="id", sharding=Sharding.hash(1), shard_format=shard_format, batch_size=1000)
    path = next(found.path for found in one.objects(layout.DATA) if not found.path.endswith(layout.RECORD))
    data = other.read(path)
    assert (len(data), data == one.read(path)) == (len(one.read(path)), False)
    return {row["id"]: row for row in tables[0].to_pylist()}, data


def downloads(storage: Storage) -> list[str]:
    """The shards that were read of such a storage."""
    return [path for path in storage._fs.handler.fs.opened if path.endswith((".sqlite", ".parquet"))]


def ask_all(url: str, folder: str, keys: list[int]) -> tuple[int, int]:
    """Look up keys in a process of its own: return how many it found, and how many shards it copied."""
    storage = remote_storage(url)
    return len(SnapshotReader(storage, cache_dir=folder).multi_get(keys)), len(downloads(storage))
