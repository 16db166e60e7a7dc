"""Which files a rewrite would take, and in which groups, by the rules of Iceberg's planner and from metadata alone.

    >>> bounds = SizeBounds(target=512, low=384, high=921, min_input_files=2)
    >>> [[file.path for file in group] for group in bounds.groups(small_and_large_files)]
    [['a', 'b']]
    >>> bounds.outputs(200)
    1

The invariant: the results equal those of Iceberg 1.12's ``SizeBasedFileRewritePlanner`` and ``BinPackRewriteFilePlanner``, except
that the size of the output is estimated from the input, as Iceberg does in its plan. Where a limit on group sizes splits a
partition, Spark may group its files differently, because it reads manifests in parallel and their order varies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_snowpack.iceberg import LiveDelete, LiveFile
from airflow_snowpack.maintenance.planning.finding import Estimate

File = TypeVar("File", bound="LiveFile | LiveDelete")

GROUP_BYTES = 100 * 1024**3
NO_LIMIT = 2**63 - 1
"""For the size or the files of a group: no part of a group that is not worth a rewrite is worth one."""


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """When the size of a file or group makes it worth rewriting; sizes are in bytes."""

    target: int
    low: int
    high: int
    min_input_files: int
    group_bytes: int = GROUP_BYTES
    rewrite_all: bool = False
    group_files: int = NO_LIMIT

    def is_off(self, size: int) -> bool:
        """Return whether a file is too small or too large."""
        return size < self.low or size > self.high

    def is_worth(self, files: int, size: int) -> bool:
        """Return whether this many files of this total size are worth a rewrite."""
        return size > self.high or (files > 1 and (files >= self.min_input_files or size > self.target))

    def outputs(self, size: int) -> int:
        """Return into how many files this many bytes would go."""
        if size < self.target:
            return 1
        whole, rest = divmod(size, self.target)
        # The rest goes into another file if that would not be small, or if the others would grow too large with it.
        largest = min(1.1 * self.target, self.target + 0.5 * (self.high - self.target))
        return whole if rest <= self.low and size // whole < largest else whole + (1 if rest else 0)

    def groups(self, files: Iterable[File], needs_it: Callable[[File], bool] = lambda file: False) -> list[list[File]]:
        """Return the groups of one partition that would be rewritten; files that need it go whatever their size and group."""
        if self.rewrite_all:
            return self._packed(files)
        packed = self._packed(file for file in files if self.is_off(file.bytes) or needs_it(file))
        return [group for group in packed if self._is_worth(group) or any(map(needs_it, group))]

    def measured(self, group: Sequence[File]) -> FileGroup[File]:
        """Return a group with its size and its number of outputs."""
        total = sum(file.bytes for file in group)
        return FileGroup(tuple(group), total, self.outputs(total))

    def _is_worth(self, group: Sequence[File]) -> bool:
        return self.is_worth(len(group), sum(file.bytes for file in group))

    def _packed(self, files: Iterable[File]) -> list[list[File]]:
        bins: list[list[File]] = []
        room = 0
        for file in files:
            if not bins or file.bytes > room or len(bins[-1]) >= self.group_files:
                bins.append([])
                room = self.group_bytes
            bins[-1].append(file)
            room -= file.bytes
        return bins


@dataclass(frozen=True, slots=True)
class FileGroup(Generic[File]):
    """The files that one unit of work would read, and the number that it would write."""

    files: tuple[File, ...]
    bytes: int
    outputs: int


def by_partition(files: Iterable[File], key: Callable[[File], Hashable]) -> list[list[File]]:
    partitions: dict[Hashable, list[File]] = defaultdict(list)
    for file in files:
        partitions[key(file)].append(file)
    return list(partitions.values())


def in_commits(groups: list[FileGroup[File]], most: int) -> list[list[FileGroup[File]]]:
    """Split groups over at most this many commits, as partial progress does."""
    size = -(-len(groups) // most) if groups else 1
    return [groups[start : start + size] for start in range(0, len(groups), size)]


def estimate_of(groups: Sequence[FileGroup[Any]], added: int) -> Estimate:
    return Estimate(sum(len(group.files) for group in groups), added, sum(group.bytes for group in groups))
