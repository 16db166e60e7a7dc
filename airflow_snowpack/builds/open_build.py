"""One build, open for reading: a key is routed to its shard, and the shard's file opened when it is first asked.

    build = OpenBuild("manifests/20260101T000000Z/1.json", manifest, cache)
    build.get("N14228"), build.multi_get(["N14228", "N24211"]), build.rows()

The invariant: **everything that is read of it is of this one build.** It never changes, and may be used by any number of threads,
also after it was closed, which only lets go of what is not in use.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.keys import Key
from airflow_snowpack.builds.model import Manifest, ShardFormat
from airflow_snowpack.builds.parquet_reader import ParquetReader
from airflow_snowpack.builds.routing import Routing
from airflow_snowpack.builds.row_maker import Row
from airflow_snowpack.builds.shard_cache import ShardCache
from airflow_snowpack.builds.shard_reader import ShardReader
from airflow_snowpack.builds.sqlite_reader import SqliteReader

MOST_OPEN = 256
READERS: dict[ShardFormat, type[ShardReader[Any]]] = {ShardFormat.SQLITE: SqliteReader, ShardFormat.PARQUET: ParquetReader}


class OpenBuild:
    """A build with its open shards.

    :param path: of the manifest, relative to the dataset's root.
    :param most_open: how many shards are kept open; those longest unused are closed beyond that.
    """

    def __init__(self, path: str, manifest: Manifest, cache: ShardCache, most_open: int = MOST_OPEN) -> None:
        self.path = path
        self.manifest = manifest
        self._cache = cache
        self._routing = Routing(manifest)
        self._most_open = most_open
        self._open: dict[int, ShardReader[Any]] = {}
        self._opening = threading.Lock()

    def get(self, key: Key, category: Key | None = None) -> Row | None:
        """The first row with this key, of the first shard that has one."""
        for shard_id in self._routing.shards_of(key, category):
            row = self._shard(shard_id).get(key)
            if row is not None:
                return row
        return None

    def get_all(self, key: Key, category: Key | None = None) -> list[Row]:
        """All rows with this key, shard by shard."""
        return [row for shard_id in self._routing.shards_of(key, category) for row in self._shard(shard_id).get_all(key)]

    def multi_get(self, keys: Iterable[Key], category: Key | None = None) -> dict[Key, Row]:
        """What :meth:`get` says for each of these keys that is there, in their order."""
        rows: dict[Key, Any] = dict.fromkeys(keys)
        for shard_id, wanted in sorted(self._routing.grouped(list(rows), category).items(), reverse=True):
            rows.update(self._shard(shard_id).multi_get(wanted))  # the first shard's row is the one that stays
        return rows if all(rows.values()) else {key: row for key, row in rows.items() if row}

    def rows(self, shard_id: int | None = None) -> Iterator[Row]:
        """All rows, of one shard or of all, one after the other."""
        for reader in self._readers(shard_id):
            yield from reader.rows()

    def batches(self, shard_id: int | None = None) -> Iterator[pa.RecordBatch]:
        """The same in Arrow's batches."""
        for reader in self._readers(shard_id):
            yield from reader.batches()

    def close(self) -> None:
        """Close the shards that nobody is reading."""
        with self._opening:
            readers, self._open = self._open, {}
        for reader in readers.values():
            reader.close()

    def _readers(self, shard_id: int | None) -> Iterator[ShardReader[Any]]:
        shards = self.manifest.shards
        if shard_id is not None and not 0 <= shard_id < len(shards):
            raise InvalidBuild("shard_id", shard_id, f"the build has the shards 0 to {len(shards) - 1}")
        for shard in shards if shard_id is None else [shards[shard_id]]:
            if shard.rows:
                yield self._shard(shard.shard_id)

    def _shard(self, shard_id: int) -> ShardReader[Any]:
        reader = self._open.get(shard_id)
        if reader is None:
            return self._opened(shard_id)
        reader.hot = True
        return reader

    def _opened(self, shard_id: int) -> ShardReader[Any]:
        locate = partial(self._cache.locate, self.manifest.shards[shard_id])
        with self._opening:
            reader = self._open.setdefault(
                shard_id, READERS[self.manifest.shard_format](locate, self.manifest, self._cache.in_place)
            )
            while len(self._open) > self._most_open:
                self._close_coldest(spare=shard_id)
        return reader

    def _close_coldest(self, spare: int) -> None:
        """Close the oldest shard that was not asked since it was last looked at; the others get another round."""
        while True:
            shard_id, reader = next(iter(self._open.items()))
            del self._open[shard_id]
            if shard_id != spare and not reader.hot:
                return reader.close()
            reader.hot = False
            self._open[shard_id] = reader
