"""Find the shards of a build that may have a key.

    routing = Routing(manifest)
    routing.shards_of("N14228")                    # by hash: exactly one
    routing.shards_of("N14228", category="EWR")    # by category: exactly one
    routing.shards_of("N14228")                    # otherwise: those whose smallest and greatest key allow it

The invariant: the result contains every shard that has the key, and no shard without rows. Only the manifest is read, and the
cost does not grow with the number of shards, unless their keys overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import xxhash

from airflow_snowpack.builds.errors import InvalidRowKey
from airflow_snowpack.builds.model import Key, KeyType, Manifest, ShardAttemptResult, ShardingKind, canonical, hash_shard
from airflow_snowpack.builds.sharding import hash_integers

PYTHON_TYPE = {KeyType.INTEGER: int, KeyType.STRING: str, KeyType.BYTES: bytes}


class Routing:
    """Finds shards by key.

    :param manifest: of the build.
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

        :param category: the value of the category's column, if it is known.
        :raises InvalidRowKey: the key has another type than the build's keys, or the build has no such category.
        """
        if self._by_hash:
            self._refuse(category)
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
        """Group keys by the shards that may have them.

        :raises InvalidRowKey: see :meth:`shards_of`.
        """
        groups: defaultdict[int, list[Key]] = defaultdict(list)
        if self._by_hash and category is None and set(map(type, keys)) == {PYTHON_TYPE[self._key_type]}:
            for key, shard_id in zip(keys, self._hashed(keys), strict=True):
                groups[shard_id].append(key)
            return {shard_id: found for shard_id, found in groups.items() if shard_id in self._filled}
        for key in keys:
            for shard_id in self.shards_of(key, category):
                groups[shard_id].append(key)
        return groups

    def _hashed(self, keys: Sequence[Key]) -> list[int]:
        """Return the shards of keys that have one Python type."""
        many: Any = keys
        try:
            if self._key_type is KeyType.INTEGER:
                hashes = hash_integers(np.array(many, np.int64))
                shard_ids: list[int] = (hashes % np.uint64(self._num_shards)).tolist()
                return shard_ids
            data = map(str.encode, many) if self._key_type is KeyType.STRING else many
            return [digest % self._num_shards for digest in map(xxhash.xxh3_64_intdigest, data)]
        except (OverflowError, UnicodeError):  # one key is invalid, and this raises for it
            return [hash_shard(key, self._key_type, self._num_shards) for key in keys]

    def _of_category(self, category: Key) -> int:
        self._refuse(category)
        try:
            return self._categories[category]
        except KeyError:
            raise InvalidRowKey(category, f"it is not among the {len(self._categories)} categories of this build") from None

    def _refuse(self, category: Key | None) -> None:
        if category is not None and self._sharding.kind is not ShardingKind.CATEGORIES:
            kind = self._sharding.kind.value
            raise InvalidRowKey(category, f"this build is sharded by {kind} and has no categories; omit the category")


class _Ranges:
    """Finds shards by their smallest and greatest keys."""

    def __init__(self, shards: Sequence[ShardAttemptResult]) -> None:
        filled = [shard for shard in shards if shard.rows]
        # All keys of a build have one type, so that they can be compared.
        self._bounds: dict[int, tuple[Any, Any]] = {shard.shard_id: (shard.min_key, shard.max_key) for shard in filled}
        self._unbounded = [shard_id for shard_id, bounds in self._bounds.items() if None in bounds]
        bounded = sorted((*bounds, shard_id) for shard_id, bounds in self._bounds.items() if None not in bounds)
        self._smallest = [smallest for smallest, _, _ in bounded]
        self._greatest = [greatest for _, greatest, _ in bounded]
        self._ids = [shard_id for _, _, shard_id in bounded]
        # The greatest key of this and all earlier shards: if it is below the key, no earlier shard can have the key.
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
