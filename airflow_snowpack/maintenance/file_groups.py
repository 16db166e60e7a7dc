"""Which files a rewrite would take, and in which groups: the rules of Iceberg's planner, on metadata alone.

    >>> bounds = SizeBounds(target=512, low=384, high=921, min_input_files=2)
    >>> bounds.groups([("a", 100), ("b", 100), ("c", 500)], size=lambda file: file[1])
    [[('a', 100), ('b', 100)]]
    >>> bounds.outputs(200)
    1

The invariant: the same answers as ``SizeBasedFileRewritePlanner`` and ``BinPackRewriteFilePlanner`` of Iceberg 1.12 give, except
that the size of what is written is guessed from the size of what is read, as Iceberg does for its own plan. Where a limit on
group sizes splits a partition, Spark may group its files differently: it reads manifests side by side, so their order is luck.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_snowpack.iceberg import DeleteKind
from airflow_snowpack.maintenance.options import MAX_SIZE_SHARE, MIN_SIZE_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from airflow_snowpack.iceberg import LiveDelete, LiveFile, TableFiles
    from airflow_snowpack.maintenance.actions.rewrite_data_files import RewriteDataFiles
    from airflow_snowpack.maintenance.actions.rewrite_position_delete_files import RewritePositionDeleteFiles

File = TypeVar("File")

GROUP_BYTES = 100 * 1024**3
NO_LIMIT = 2**63 - 1
"""Of a group's size: a part of files that are not worth a rewrite is not worth one either."""
DELETE_TARGET_PROPERTY = "write.delete.target-file-size-bytes"
DELETE_TARGET = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """When a file's size, or a group's, makes it worth rewriting; all in bytes but ``min_input_files``."""

    target: int
    low: int
    high: int
    min_input_files: int
    group_bytes: int = GROUP_BYTES
    rewrite_all: bool = False

    def is_off(self, size: int) -> bool:
        """Whether a file is too small or too large."""
        return size < self.low or size > self.high

    def is_worth(self, sizes: Sequence[int]) -> bool:
        """Whether a group has enough files, or enough content, to come out better than it went in."""
        several = len(sizes) > 1
        return (
            (several and len(sizes) >= self.min_input_files) or (several and sum(sizes) > self.target) or sum(sizes) > self.high
        )

    def outputs(self, size: int) -> int:
        """Into how many files this much content would go."""
        if size < self.target:
            return 1
        whole, rest = divmod(size, self.target)
        # The rest gets a file of its own when that file would not be small, or when the others would grow too large with it.
        largest = min(1.1 * self.target, self.target + 0.5 * (self.high - self.target))
        return whole if rest <= self.low and size // whole < largest else whole + (1 if rest else 0)

    def groups(
        self,
        files: Iterable[File],
        *,
        size: Callable[[File], int],
        needs_it: Callable[[File], bool] = lambda file: False,
    ) -> list[list[File]]:
        """The groups of one partition that would be rewritten.

        :param needs_it: whether a file is to be rewritten whatever its size, and whatever its group.
        """
        if self.rewrite_all:
            return list(self._packed(files, size))
        chosen = [file for file in files if self.is_off(size(file)) or needs_it(file)]
        packed = self._packed(chosen, size)
        return [group for group in packed if self.is_worth([size(file) for file in group]) or any(map(needs_it, group))]

    def _packed(self, files: Iterable[File], size: Callable[[File], int]) -> list[list[File]]:
        bins: list[list[File]] = []
        room = 0
        for file in files:
            if not bins or size(file) > room:
                bins.append([])
                room = self.group_bytes
            bins[-1].append(file)
            room -= size(file)
        return bins


@dataclass(frozen=True, slots=True)
class FileGroup(Generic[File]):
    """Files that one unit of work would read, and how many it would write."""

    files: tuple[File, ...]
    bytes: int
    outputs: int


def data_file_groups(
    files: TableFiles, options: RewriteDataFiles, *, spec_id: int, spec_fields: int, only: Collection[str] | None = None
) -> list[FileGroup[LiveFile]]:
    """What ``rewrite_data_files`` would take.

    :param spec_id: the table's current partition spec. The rows of files of older ones may spread over its partitions, so these
        files go together, with those whose partition values are all null.
    :param spec_fields: how many fields that spec has.
    :param only: paths that the predicate may match; ``None`` for all.
    """
    bounds = size_bounds(options)
    considered = [file for file in files.data if only is None or file.path in only]
    nulls = (None,) * spec_fields
    partitions = _by(considered, lambda file: file.partition if file.spec_id == spec_id else nulls)

    def has_many_deletes(file: LiveFile) -> bool:
        return _has_many_deletes(file, files.deletes_of(file), options)

    groups = [
        group
        for partition in partitions
        for group in bounds.groups(partition, size=lambda file: file.bytes, needs_it=has_many_deletes)
    ]
    return [
        FileGroup(tuple(group), total, bounds.outputs(total))
        for group in _limited(groups, options.max_files_to_rewrite)
        for total in [sum(file.bytes for file in group)]
    ]


def size_bounds(options: RewriteDataFiles) -> SizeBounds:
    """When these options make a data file, or a group of them, worth rewriting."""
    return SizeBounds(
        options.target_file_size_bytes,
        options.min_file_size_bytes,
        options.max_file_size_bytes,
        options.min_input_files,
        options.max_file_group_size_bytes,
        options.rewrite_all,
    )


def _limited(groups: list[list[LiveFile]], most: int | None) -> list[list[LiveFile]]:
    """The groups up to so many files; the last one may lose some of its files, as in Iceberg's planner."""
    if most is None:
        return groups
    taken: list[list[LiveFile]] = []
    for group in groups:
        room = most - sum(map(len, taken))
        if room <= 0:
            break
        taken.append(group[:room])
    return taken


def delete_file_groups(
    files: TableFiles,
    options: RewritePositionDeleteFiles,
    *,
    properties: Mapping[str, str],
    only: Collection[Hashable] | None = None,
    group_bytes: int = GROUP_BYTES,
) -> list[FileGroup[LiveDelete]]:
    """What ``rewrite_position_delete_files`` would take.

    :param properties: of the table, with the target size of delete files unless the options have one.
    :param only: partitions that the predicate may match; ``None`` for all.
    :param group_bytes: the most that goes into one group.
    """
    target = options.target_file_size_bytes or int(properties.get(DELETE_TARGET_PROPERTY, DELETE_TARGET))
    bounds = SizeBounds(
        target,
        int(target * MIN_SIZE_SHARE),
        int(target * MAX_SIZE_SHARE),
        options.min_input_files,
        group_bytes,
        rewrite_all=options.rewrite_all,
    )
    considered = [
        delete
        for delete in files.deletes
        if delete.kind is DeleteKind.POSITION and (only is None or delete.partition_key in only)
    ]
    return [
        FileGroup(tuple(group), total, bounds.outputs(total))
        for partition in _by(considered, lambda delete: delete.partition_key)
        for group in bounds.groups(partition, size=lambda delete: delete.bytes)
        for total in [sum(delete.bytes for delete in group)]
    ]


def _has_many_deletes(file: LiveFile, deletes: Sequence[LiveDelete], options: RewriteDataFiles) -> bool:
    if len(deletes) >= options.delete_file_threshold:
        return True
    # Only deletes of this one file show how many of its rows are deleted.
    known = sum(delete.records for delete in deletes if delete.data_file is not None)
    return bool(deletes) and file.records > 0 and min(known, file.records) / file.records >= options.delete_ratio_threshold


def _by(files: Iterable[File], key: Callable[[File], Hashable]) -> list[list[File]]:
    partitions: dict[Hashable, list[File]] = defaultdict(list)
    for file in files:
        partitions[key(file)].append(file)
    return list(partitions.values())
