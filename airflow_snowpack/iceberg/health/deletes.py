"""Finds the data files that have many deletes, without keeping either kind of file in memory.

The rules of matching are those of Iceberg's scan planning: position deletes apply to data of their own commit or older, equality
deletes only to older data. A few numbers of each delete file are kept; a data file is matched when its entry is read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_snowpack.iceberg.health.bounds import HealthBounds
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey

RECORDS_BITS = 44
"""The low bits of a number, for how many rows of a data file are deleted; the bits above are its number of delete files."""
RECORDS_MASK = (1 << RECORDS_BITS) - 1


class DeleteIndex:
    """The delete files of a snapshot; ``bounds`` define many deletes."""

    def __init__(self, bounds: HealthBounds) -> None:
        self._threshold = bounds.delete_file_threshold
        self._ratio = bounds.delete_ratio_threshold
        self._partitions: set[PartitionKey] = set()
        # By the 64-bit hash of the path: among a million paths, two share one with a probability of 3 in 100 million.
        self._by_path: dict[int, int] = {}
        self._positions: dict[PartitionKey, array[int]] = {}
        self._equalities: dict[PartitionKey, array[int]] = {}
        self._everywhere: array[int] = array("q")
        self._is_sorted = False

    def add_for_file(self, path: str, key: PartitionKey, records: int) -> None:
        """Add a deletion vector, or a position-delete file, that applies only to this data file."""
        self._partitions.add(key)
        place = hash(path)
        self._by_path[place] = self._by_path.get(place, 0) + (1 << RECORDS_BITS) + records

    def add_for_partition(self, key: PartitionKey, sequence: int, *, equality: bool) -> None:
        """Add a delete file that applies to the data files of its partition."""
        if equality and not key[1]:
            # An equality delete of an unpartitioned spec applies to every partition (Iceberg specification, scan planning).
            self._everywhere.append(sequence)
            return
        self._partitions.add(key)
        kind = self._equalities if equality else self._positions
        kind.setdefault(key, array("q")).append(sequence)

    def _sort(self) -> None:
        self._is_sorted = True
        self._everywhere = _sorted(self._everywhere)
        for kind in (self._positions, self._equalities):
            for key, sequences in kind.items():
                kind[key] = _sorted(sequences)

    @property
    def named(self) -> Collection[int]:
        """Return the hashes of the paths of data files that have their own delete file."""
        return self._by_path.keys()

    def is_concerned(self, key: PartitionKey) -> bool:
        """Return whether data files of the partition can have deletes; those of other partitions need not be matched."""
        return bool(self._everywhere) or key in self._partitions or self._threshold <= 0

    def has_many(self, path: str, key: PartitionKey, sequence: int, records: int) -> bool:
        """Return whether a data file has so many deletes that it should be rewritten. Add all delete files first.

        :param sequence: the sequence number of the data file.
        :param records: how many rows it has.
        """
        if not self._is_sorted:
            self._sort()
        of_file = self._by_path.get(hash(path), 0)
        files, deleted = of_file >> RECORDS_BITS, of_file & RECORDS_MASK
        if (positions := self._positions.get(key)) is not None:
            files += len(positions) - bisect_left(positions, sequence)
        for equalities in (self._equalities.get(key), self._everywhere):
            if equalities:
                files += len(equalities) - bisect_right(equalities, sequence)
        if files >= self._threshold:
            return True
        # Only the deletes of this one file show how many of its rows are deleted.
        return files > 0 and records > 0 and min(deleted, records) / records >= self._ratio


def _sorted(sequences: array[Any]) -> array[Any]:
    return array("q", sorted(sequences))
