"""One build, open for reading: each key is routed to its shards, and a shard's file opens on first use.

    build = OpenBuild("manifests/20260101T000000Z/1.json", manifest, cache)
    build.get("N14228"), build.multi_get(["N14228", "N24211"]), build.rows()

A large shard of an object storage is read by ranges until a copy would have been cheaper; a scan copies it first. A build never
changes. It is thread-safe and remains usable after ``close``, which only closes files that are not in use.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from airflow_snowpack.builds.block_checksums import BLOCK
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey
from airflow_snowpack.builds.model import (
    PYTHON_TYPE,
    Key,
    KeyType,
    Manifest,
    ShardAttemptResult,
    ShardFormat,
    ShardingKind,
    canonical,
    hash_shard,
)
from airflow_snowpack.builds.read.parquet_reader import ParquetReader
from airflow_snowpack.builds.read.shard_cache import ShardCache
from airflow_snowpack.builds.read.shard_reader import Row, ShardReader
from airflow_snowpack.builds.read.sqlite_reader import SqliteReader
from airflow_snowpack.builds.sharding import hash_integers

MAX_OPEN_SHARDS = 256
PARALLEL_SHARDS = 16
READERS: dict[ShardFormat, type[ShardReader[Any]]] = {ShardFormat.SQLITE: SqliteReader, ShardFormat.PARQUET: ParquetReader}


class OpenBuild:
    """A build with its open shards.

    :param path: the manifest's path, relative to the dataset's root.
    :param most_open: the maximum number of open shards; the least recently used are closed first.
    """

    def __init__(self, path: str, manifest: Manifest, cache: ShardCache, most_open: int = MAX_OPEN_SHARDS) -> None:
        self.path = path
        self.manifest = manifest
        self._cache = cache
        self._routing = Routing(manifest)
        self._most_open = most_open
        self._open: dict[int, ShardReader[Any]] = {}
        self._opening = threading.Lock()
        self._to_copy: set[int] = set()

    def get(self, key: Key, category: Key | None = None) -> Row | None:
        """Return the first row with this key, or ``None``."""
        key = _plain(key)
        for shard_id in self._routing.shards_of(key, category):
            row = self._shard(shard_id).get(key)
            if row is not None:
                return row
        return None

    def get_all(self, key: Key, category: Key | None = None) -> list[Row]:
        """Return all rows with this key, shard by shard."""
        key = _plain(key)
        return [row for shard_id in self._routing.shards_of(key, category) for row in self._shard(shard_id).get_all(key)]

    def multi_get(self, keys: Iterable[Key], category: Key | None = None) -> dict[Key, Row]:
        """Return the first row of each key, in the order of the keys, without keys that have none."""
        rows: dict[Key, Any] = dict.fromkeys(map(_plain, keys))
        groups = self._routing.grouped(list(rows), category)
        found = self._read_parallel(groups)
        for shard_id in sorted(groups, reverse=True):  # the first shard's row wins
            rows.update(found[shard_id] if shard_id in found else self._shard(shard_id).multi_get(groups[shard_id]))
        return rows if all(rows.values()) else {key: row for key, row in rows.items() if row}

    def _read_parallel(self, groups: Mapping[int, Sequence[Key]]) -> dict[int, list[tuple[Key, Row]]]:
        """Read the shards that wait for the network in parallel. A local shard takes less time than starting a thread."""
        if self._cache.in_place:
            return {}
        waiting = [shard_id for shard_id, keys in groups.items() if self._needs_network(shard_id, len(keys))]
        if len(waiting) < 2:
            return {}
        with ThreadPoolExecutor(min(len(waiting), PARALLEL_SHARDS), "snowpack-look-up") as pool:
            answers = pool.map(lambda shard_id: list(self._shard(shard_id).multi_get(groups[shard_id])), waiting)
            return dict(zip(waiting, answers, strict=True))

    def _needs_network(self, shard_id: int, keys: int) -> bool:
        """Return whether a look-up of this many keys waits for the network; too many for range reads copy the shard."""
        reader = self._shard(shard_id)
        if reader.by_range and keys * BLOCK > self.manifest.shards[shard_id].bytes // 2:
            reader = self._open_shard(shard_id, whole=True)
        return reader.by_range or not reader.is_open

    def rows(self, shard_id: int | None = None) -> Iterator[Row]:
        """Yield all rows of one shard, or of all shards one after another."""
        for batch in self.batches(shard_id):
            yield from batch.to_pylist()

    def batches(self, shard_id: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows of one shard, or of all shards, as Arrow batches."""
        shards = self.manifest.shards
        if shard_id is not None and not 0 <= shard_id < len(shards):
            raise InvalidBuild("shard_id", shard_id, f"the build has the shards 0 to {len(shards) - 1}")
        for shard in shards if shard_id is None else [shards[shard_id]]:
            if shard.rows:
                yield from self._open_shard(shard.shard_id, whole=True).batches()

    def close(self) -> None:
        """Close the shards that are not in use."""
        with self._opening:
            readers, self._open = self._open, {}
        for reader in readers.values():
            reader.close()

    def _shard(self, shard_id: int) -> ShardReader[Any]:
        reader = self._open.get(shard_id)
        if reader is None:
            return self._open_shard(shard_id)
        reader.used = True
        return reader

    def _open_shard(self, shard_id: int, *, whole: bool = False) -> ShardReader[Any]:
        """Open a shard; ``whole`` opens a copy of the file, for calls that read much of it."""
        with self._opening:
            reader = self._open.get(shard_id)
            if reader is None or (whole and reader.by_range):
                if reader is not None:
                    reader.close()
                reader = self._open[shard_id] = self._reader(shard_id, whole)
            while len(self._open) > self._most_open:
                self._close_least_used(spare=shard_id)
        return reader

    def _reader(self, shard_id: int, whole: bool) -> ShardReader[Any]:
        shard, reader = self.manifest.shards[shard_id], READERS[self.manifest.shard_format]
        if not whole and shard_id not in self._to_copy:
            file = self._cache.ranged(shard, partial(self._copy_from_now_on, shard_id))
            if file is not None:
                return reader(lambda: nullcontext(file), self.manifest, by_range=True)
        return reader(partial(self._cache.path, shard), self.manifest, self._cache.in_place)

    def _copy_from_now_on(self, shard_id: int) -> None:
        """Read this shard from a copy from now on; calls in progress continue to read ranges."""
        with self._opening:
            self._to_copy.add(shard_id)
            reader = self._open.get(shard_id)
            if reader is not None and reader.by_range:
                del self._open[shard_id]
                reader.close()

    def _close_least_used(self, spare: int) -> None:
        """Close the oldest shard that was not used since the last check; keep the others for another round."""
        while True:
            shard_id, reader = next(iter(self._open.items()))
            del self._open[shard_id]
            if shard_id != spare and not reader.used:
                return reader.close()
            reader.used = False
            self._open[shard_id] = reader


def _plain(key: Key) -> Key:
    """Return Python's own value of a NumPy scalar: an element of a pandas column, for example."""
    return key.item() if isinstance(key, np.generic) else key


class Routing:
    """Finds every shard that may have a key, and none without rows, from the manifest alone.

    By hash or category, that is one shard; otherwise those whose range of keys fits. The cost grows only with overlapping ranges.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._key_type = manifest.key_type
        self._sharding = manifest.sharding
        self._by_hash = manifest.sharding.kind is ShardingKind.HASH
        self._num_shards = manifest.sharding.num_shards
        self._filled = frozenset(shard.shard_id for shard in manifest.shards if shard.rows)
        self._by_range = None if self._by_hash else _Ranges(manifest.shards)
        self._categories: Mapping[Key, int] = {}
        if manifest.sharding.kind is ShardingKind.CATEGORIES:
            self._categories = {value: shard_id for shard_id, value in enumerate(manifest.sharding.values)}
        self._key_is_category = manifest.sharding.column == manifest.key_column

    def shards_of(self, key: Key, category: Key | None = None) -> Sequence[int]:
        """Return the ids of the shards that may have a key, in order.

        :param category: the value of the category column, if known.
        :raises InvalidRowKey: the key is not of the build's key type, or the build has no such category.
        """
        if self._by_hash:
            self._refuse_category(category)
            shard_id = hash_shard(key, self._key_type, self._num_shards)
            return (shard_id,) if shard_id in self._filled else ()
        canonical(key, self._key_type)  # checks the type
        assert self._by_range is not None
        if self._key_is_category:
            category = key if category is None else category
            shard_id = self._categories.get(category, -1)
            return (shard_id,) if shard_id in self._filled else ()
        if category is None:
            return self._by_range.around(key)
        shard_id = self._of_category(category)
        return (shard_id,) if shard_id in self._filled and self._by_range.may_have(shard_id, key) else ()

    def grouped(self, keys: Sequence[Key], category: Key | None = None) -> dict[int, list[Key]]:
        """Group keys by the shards that may have them; raises like :meth:`shards_of`."""
        groups: defaultdict[int, list[Key]] = defaultdict(list)
        if self._by_hash and category is None and set(map(type, keys)) == {PYTHON_TYPE[self._key_type]}:
            for key, shard_id in zip(keys, self._hash_shards(keys), strict=True):
                groups[shard_id].append(key)
            return {shard_id: found for shard_id, found in groups.items() if shard_id in self._filled}
        for key in keys:
            for shard_id in self.shards_of(key, category):
                groups[shard_id].append(key)
        return groups

    def _hash_shards(self, keys: Sequence[Key]) -> list[int]:
        """Return the shards of keys of one Python type."""
        many: Any = keys
        try:
            if self._key_type is KeyType.INTEGER:
                hashes = hash_integers(np.array(many, np.int64))
                shard_ids: list[int] = (hashes % np.uint64(self._num_shards)).tolist()
                return shard_ids
            data = map(str.encode, many) if self._key_type is KeyType.STRING else many
            return [digest % self._num_shards for digest in map(xxhash.xxh3_64_intdigest, data)]
        except (OverflowError, UnicodeError):  # a key is invalid, and this raises for it
            return [hash_shard(key, self._key_type, self._num_shards) for key in keys]

    def _of_category(self, category: Key) -> int:
        self._refuse_category(category)
        try:
            return self._categories[category]
        except KeyError:
            raise InvalidRowKey(category, f"it is not among the {len(self._categories)} categories of this build") from None

    def _refuse_category(self, category: Key | None) -> None:
        if category is not None and self._sharding.kind is not ShardingKind.CATEGORIES:
            kind = self._sharding.kind.value
            raise InvalidRowKey(category, f"this build is sharded by {kind} and has no categories; omit the category")


class _Ranges:
    """Finds shards by their smallest and greatest keys."""

    def __init__(self, shards: Sequence[ShardAttemptResult]) -> None:
        filled = [shard for shard in shards if shard.rows]
        # All keys of a build have one type, so they can be compared.
        self._bounds: dict[int, tuple[Any, Any]] = {shard.shard_id: (shard.min_key, shard.max_key) for shard in filled}
        self._unbounded = [shard_id for shard_id, bounds in self._bounds.items() if None in bounds]
        bounded = sorted((*bounds, shard_id) for shard_id, bounds in self._bounds.items() if None not in bounds)
        self._smallest = [smallest for smallest, _, _ in bounded]
        self._greatest = [greatest for _, greatest, _ in bounded]
        self._ids = [shard_id for _, _, shard_id in bounded]
        # The greatest key of this and all earlier shards: no earlier shard can have a greater key.
        self._greatest_so_far = list(accumulate(self._greatest, max))

    def around(self, key: Any) -> Sequence[int]:
        found = list(self._unbounded)
        at = bisect_right(self._smallest, key) - 1
        while at >= 0 and self._greatest_so_far[at] >= key:
            if self._greatest[at] >= key:
                found.append(self._ids[at])
            at -= 1
        return sorted(found)

    def may_have(self, shard_id: int, key: Any) -> bool:
        smallest, greatest = self._bounds[shard_id]
        return smallest is None or greatest is None or bool(smallest <= key <= greatest)
