"""Compact data files.

A partition is sick when Iceberg's rules (:mod:`airflow_snowpack.maintenance.file_groups`) would rewrite files of it, so a plan
never selects files that the procedure would skip. Iceberg treats the files of older partition specs as one unit, which no
predicate selects alone: if they are sick, the plan selects the whole table, and Iceberg skips the good files.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.humanize import join, number, plural, size
from airflow_snowpack.iceberg import LiveDelete, LiveFile, MetadataReader, TableFiles
from airflow_snowpack.iceberg.health import FileCounts, PartitionHealth
from airflow_snowpack.iceberg.health.bounds import good_sizes
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import DEFAULTS, FILE_TARGET
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
from airflow_snowpack.maintenance.condition import has_column
from airflow_snowpack.maintenance.file_groups import NO_LIMIT, FileGroup, SizeBounds, by_partition, estimate_of, in_commits
from airflow_snowpack.maintenance.options import JobOrder, option, refused
from airflow_snowpack.maintenance.plan import planned, select_files, skip
from airflow_snowpack.maintenance.planning.commits import commits_of
from airflow_snowpack.maintenance.planning.finding import (
    Cause,
    Estimate,
    Facts,
    Finding,
    Rate,
    Threshold,
    current_partitions,
    of_partitions,
    written_until,
)
from airflow_snowpack.maintenance.planning.where import NotSelectable, where_for
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import (
    branch_name,
    columns,
    flag,
    one_of,
    predicate,
    ratio,
    sort_order,
    whole_number,
)
from airflow_snowpack.maintenance.rewrites import Rewrite, RewriteWording, check_spec, rewrite

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.state import SimulatedTable

log = logging.getLogger(__name__)

# How many commits of partial progress may fail before the procedure does.
MAX_FAILED_COMMITS = "partial-progress.max-failed-commits"
SHAPE = RewriteWording(
    "Compacted",
    "compacted",
    "file",
    "rewritten_data_files_count",
    "added_data_files_count",
    {
        "rewritten_data_files_count": "deleted-data-files",
        "added_data_files_count": "added-data-files",
        "rewritten_bytes_count": "removed-files-size",
        "removed_delete_files_count": "removed-delete-files",
    },
)
THRESHOLDS = {
    "small_files": Threshold(100, "Data files below the minimum size, in partitions that have enough of them to combine."),
    "large_files": Threshold(10, "Data files above the maximum size."),
    "files_with_deletes": Threshold(10, "Data files of a good size that have too many deletes."),
}
"""What makes a file worth rewriting."""
WRITING_WINDOW = timedelta(hours=1)
"""The age of the newest file up to which a partition counts as being written to."""
LARGEST_FIRST_EVERY = 4
"""Every fourth plan begins with a partition that is too large for one plan, so that smaller ones do not delay it forever."""


class Strategy(StrEnum):
    """How ``rewrite_data_files`` orders rows: as they come, sorted, or along a z-order curve."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFiles(Rewrite):
    """Compact small files, and files with many deletes, into files near the target size.

    :param strategy: by default, ``sort`` for a table with a sort order and ``write.distribution-mode=range``, else ``binpack``.
    :param target_file_size_bytes: by default, the table's ``write.target-file-size-bytes``, or 512 MiB.
    :param min_file_size_bytes: smaller files are rewritten; 0 means 75 % of the target.
    :param max_file_size_bytes: larger files are split; 0 means 180 % of the target.
    :param max_file_group_size_bytes: how many bytes one unit of work reads at most; 100 GiB, as in Iceberg.
    :param max_file_group_input_files: how many files one unit of work reads at most; by default, any number.
    :param min_input_files: a group with this many files is worth rewriting.
    :param delete_file_threshold: a file with this many delete files is rewritten, whatever its size.
    :param delete_ratio_threshold: a file with this share of its rows deleted is rewritten, whatever its size.
    :param rewrite_all: rewrite every file, needed or not.
    :param partial_progress: commit groups separately, so that a conflict only costs one of them.
    :param partial_progress_max_commits: the maximum number of commits.
    :param max_concurrent_file_group_rewrites: groups that Spark rewrites at a time.
    :param remove_dangling_deletes: also drop delete files that no data file needs any more.
    :param max_files_to_rewrite: select at most this many files; by default, any number.
    :param rewrite_job_order: which file groups come first; by default, in the order found.
    :param branch: the branch to rewrite and commit to; by default, ``main``.
    :param output_spec_id: the partition spec of new files; by default, the table's current one.
    :param use_starting_sequence_number: commit with the sequence number from before the rewrite, so that concurrent equality
        deletes apply to the new files; if false, such deletes make the rewrite fail with a conflict.
    :param cache_delete_files: cache delete files in the executors' memory, for data files that share them.
    :param shuffle_partitions_per_file: for ``sort`` and ``zorder``: into how many partitions Spark sorts the rows of each file.
    :param sort_order: for ``sort``; by default, the table's sort order.
    :param zorder_columns: for ``zorder``.
    :param max_output_size: for ``zorder``: how many bytes of the interleaved value Spark sorts by.
    :param var_length_contribution: for ``zorder``: how many bytes of text and binary columns count.
    :param where: rewrite only files that may hold matching rows; a Spark predicate.
    """

    action: ClassVar[str] = Action.REWRITE_DATA_FILES
    thresholds: ClassVar[Mapping[str, Threshold]] = THRESHOLDS
    rate: ClassVar[Rate] = Rate(3.0, per_gib=30.0, per_file=0.01)
    enabled: ClassVar[bool] = True
    deletes_files: ClassVar[bool] = False
    rewrites_files: ClassVar[bool] = True
    shape: ClassVar[RewriteWording] = SHAPE
    strict_reports_all: ClassVar[bool] = True

    strategy: Strategy = option(Strategy.BINPACK, one_of(Strategy), of_table=True)
    sort_order: str | None = option(None, sort_order, of_table=True)
    zorder_columns: tuple[str, ...] = option((), columns, of_table=True)
    where: str | None = option(None, predicate, of_table=True)
    target_file_size_bytes: int = option(DEFAULTS[FILE_TARGET], whole_number(at_least=1), "target-file-size-bytes")
    min_file_size_bytes: int = option(0, whole_number(at_least=0), "min-file-size-bytes")
    max_file_size_bytes: int = option(0, whole_number(at_least=0), "max-file-size-bytes")
    max_file_group_size_bytes: int = option(107_374_182_400, whole_number(at_least=1), "max-file-group-size-bytes")
    min_input_files: int = option(5, whole_number(at_least=1, at_most=2**31 - 1), "min-input-files")
    delete_file_threshold: int = option(2, whole_number(at_least=0, at_most=2**31 - 1), "delete-file-threshold")
    delete_ratio_threshold: float = option(0.1, ratio, "delete-ratio-threshold")
    rewrite_all: bool = option(False, flag, "rewrite-all")
    partial_progress: bool = option(True, flag, "partial-progress.enabled")
    partial_progress_max_commits: int = option(10, whole_number(at_least=1, at_most=1000), "partial-progress.max-commits")
    max_concurrent_file_group_rewrites: int = option(
        5, whole_number(at_least=1, at_most=1000), "max-concurrent-file-group-rewrites"
    )
    remove_dangling_deletes: bool = option(False, flag, "remove-dangling-deletes")
    max_files_to_rewrite: int | None = option(None, whole_number(at_least=1, at_most=2**31 - 1), "max-files-to-rewrite")
    rewrite_job_order: JobOrder | None = option(None, one_of(JobOrder), "rewrite-job-order")
    branch: str | None = option(None, branch_name, of_table=True, since="1.11")
    max_file_group_input_files: int | None = option(
        None, whole_number(at_least=1, at_most=NO_LIMIT), "max-file-group-input-files"
    )
    output_spec_id: int | None = option(None, whole_number(at_least=0, at_most=2**31 - 1), "output-spec-id", of_table=True)
    use_starting_sequence_number: bool | None = option(None, flag, "use-starting-sequence-number")
    cache_delete_files: bool | None = option(None, flag, "cache-delete-files", since="1.12")
    shuffle_partitions_per_file: int | None = option(
        None, whole_number(at_least=1, at_most=2**31 - 1), "shuffle-partitions-per-file"
    )
    max_output_size: int | None = option(None, whole_number(at_least=1, at_most=2**31 - 1), "max-output-size")
    var_length_contribution: int | None = option(None, whole_number(at_least=1, at_most=2**31 - 1), "var-length-contribution")

    def __post_init__(self) -> None:
        # The bounds follow the target, to keep them consistent when only the target is set.
        low, high = good_sizes(self.target_file_size_bytes, self.min_file_size_bytes, self.max_file_size_bytes)
        object.__setattr__(self, "min_file_size_bytes", low)
        object.__setattr__(self, "max_file_size_bytes", high)

    @property
    def most_commits(self) -> int:
        """The maximum number of commits."""
        return self.partial_progress_max_commits if self.partial_progress else 1

    @property
    def sort_order_argument(self) -> str | None:
        """The procedure's ``sort_order``; column names only, so nothing to escape."""
        return f"zorder({', '.join(self.zorder_columns)})" if self.strategy is Strategy.ZORDER else self.sort_order

    @property
    def strategy_argument(self) -> str:
        """The procedure's ``strategy``, in which a z-order is a sort."""
        return Strategy.BINPACK.value if self.strategy is Strategy.BINPACK else Strategy.SORT.value

    def check(self) -> None:
        target, low, high = self.target_file_size_bytes, self.min_file_size_bytes, self.max_file_size_bytes
        if low >= target:
            raise refused(self, "min_file_size_bytes", f"must be below the target of {target} bytes, not {low}")
        if high <= target:
            raise refused(self, "max_file_size_bytes", f"must be above the target of {target} bytes, not {high}")
        if self.sort_order and self.strategy is not Strategy.SORT:
            raise refused(self, "sort_order", f"needs strategy 'sort', not {self.strategy.value!r}")
        if self.zorder_columns and self.strategy is not Strategy.ZORDER:
            raise refused(self, "zorder_columns", f"needs strategy 'zorder', not {self.strategy.value!r}")
        if self.strategy is Strategy.ZORDER and not self.zorder_columns:
            raise refused(self, "zorder_columns", "is needed for strategy 'zorder'")
        # Iceberg refuses these with other strategies: "Cannot use options [max-output-size], they are not supported by …".
        for name in ("max_output_size", "var_length_contribution"):
            if getattr(self, name) is not None and self.strategy is not Strategy.ZORDER:
                raise refused(self, name, f"needs strategy 'zorder', not {self.strategy.value!r}")
        if self.shuffle_partitions_per_file is not None and self.strategy is Strategy.BINPACK:
            raise refused(self, "shuffle_partitions_per_file", "needs strategy 'sort' or 'zorder', not 'binpack'")

    def check_table(self, table: Table, name: str) -> None:
        ordered = [part.split()[0] for part in self.sort_order.split(",")] if self.sort_order else []
        for key, named in (("sort_order", ordered), ("zorder_columns", self.zorder_columns)):
            for column in named:
                if not has_column(table.schema(), column):
                    raise refused(self, key, f"names {column!r}, and {name} has no such column")
        if self.strategy is Strategy.SORT and not ordered and table.sort_order().is_unsorted:
            raise refused(self, "sort_order", f"is needed for strategy 'sort', because {name} has no sort order of its own")
        if self.branch is not None and not _has_branch(table, self.branch):
            raise refused(self, "branch", f"names {self.branch!r}, and {name} has no such branch")
        check_spec(self, "output_spec_id", table, name)

    def call(self, table: TableName, *, strict: bool = False) -> ProcedureCall:
        settings = self.procedure_options()
        if strict and self.partial_progress:
            settings[MAX_FAILED_COMMITS] = "0"
        arguments = {
            "strategy": self.strategy_argument,
            "sort_order": self.sort_order_argument,
            "where": self.where,
            "branch": self.branch,
        }
        return procedure_call(table, self.action, arguments, settings)

    def run(self, run: ActionRun) -> ActionEffect:
        return rewrite(run, self.for_groups_of(run.reader))

    def for_groups_of(self, reader: MetadataReader | None) -> RewriteDataFiles:
        """Return these options, without partial progress if the table's metadata shows a single file group to write.

        One group is one commit either way, and a thread of Iceberg busy-waits while it commits with partial progress.
        """
        if reader is None or not self.partial_progress:
            return self
        try:
            groups = self._groups(reader)
        except Exception as problem:  # noqa: BLE001 - whatever the planner cannot read, Spark may
            log.info("How many file groups %s has to write is not known: %s", self.action, problem)
            return self
        return replace(self, partial_progress=False) if len(groups) == 1 else self

    def find(self, facts: Facts) -> Finding:
        health = facts.health
        sick = [share for each in current_partitions(health) if (share := _share_of(each, each, self))]
        outdated = _share_of(health.outdated, None, self)
        if outdated is not None:
            note = "files of older partition specs cannot be selected alone, so the whole table is"
            return _found(self, facts, [outdated, *sick], _whole_table([outdated, *sick], self, facts, note))
        if not sick:
            return Finding(_nothing(facts), _metrics(facts, ()))
        held = _being_written(sick, facts)
        free = [share for share in sick if share not in held]
        if held and not (free and _reaches(facts, free)):
            if not _reaches(facts, sick):
                return _found(self, facts, sick, _select(sick, (), self, facts))
            ends = [until for share in held if (until := written_until(share.of, facts.now, WRITING_WINDOW))]
            evidence = (
                f"{_counts(facts, sick)}; {_thresholds(facts, _metrics(facts, sick))}; writers add files to {_these(held)} now"
            )
            return Finding(evidence, _metrics(facts, sick), None, False, Cause.WRITING, reconsider_at=min(ends))
        return _found(self, facts, free, _select(free, held, self, facts))

    def simulate(self, state: SimulatedTable, now: datetime, partitions: Collection[PartitionKey] | None) -> Estimate:
        """Compact, and apply deletes of single files. Other delete files go once they are older than all data files."""
        spec, only = state.table.spec(), None
        if partitions is not None:
            only = {path for path, file in state.data.items() if file.partition_key in partitions}
        groups = data_file_groups(state.files, self, spec, only)
        for batch in in_commits(groups, self.most_commits):
            snapshot = state.commit(now)
            written = [file for group in batch for file in state.replace_data(group.files, max(group.outputs, 1), snapshot)]
            state.write_manifest({file.path for file in written}, spec_id=spec.spec_id, is_data=True)
        if groups:
            state.drop_outlived_deletes()
        return estimate_of(groups, sum(group.outputs for group in groups))

    def plan(self, planning: PlanningContext) -> ActionEffect:
        selection = select_files(planning.reader, self.where, self.branch)
        groups = self._groups(planning.reader, selection.paths)
        considered = planning.reader.files(self.branch).data if selection.paths is None else selection.paths
        taken, added = sum(len(group.files) for group in groups), sum(group.outputs for group in groups)
        metrics = {
            "rewritten_data_files_count": taken,
            "added_data_files_count": added,
            "rewritten_bytes_count": sum(group.bytes for group in groups),
            "file_groups_count": len(groups),
            "considered_data_files_count": len(considered),
        }
        message = f"Would compact {plural(taken, 'file')} into {added:,}" if taken else "Would compact no files"
        return planned(message, metrics, selection)

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        reader = planning.reader
        if self.remove_dangling_deletes or (self.branch is not None and not _has_branch(reader.table, self.branch)):
            return None  # Spark reports a missing branch
        unlimited = replace(self, max_file_group_size_bytes=NO_LIMIT, max_file_group_input_files=None, max_files_to_rewrite=None)
        if unlimited._groups(reader):
            return None
        files, bounds = reader.files(self.branch), size_bounds(self)
        off = sum(bounds.is_off(file.bytes) for file in files.data)
        metrics = {
            "rewritten_data_files_count": 0,
            "added_data_files_count": 0,
            "rewritten_bytes_count": 0,
            "considered_data_files_count": len(files.data),
            "off_size_data_files_count": off,
        }
        why = f"{off:,} of them too small or too large, and no partition has enough of those"
        none = "none of them too small, too large or with many deletes"
        return skip(f"{plural(len(files.data), 'data file')}, {why if off else none}", metrics)

    def _groups(self, reader: MetadataReader, only: Collection[str] | None = None) -> list[FileGroup[LiveFile]]:
        return data_file_groups(reader.files(self.branch), self, reader.table.spec(), only)


def _has_branch(table: Table, name: str) -> bool:
    ref = table.metadata.refs.get(name)
    return ref is not None and ref.snapshot_ref_type == "branch"


def data_file_groups(
    files: TableFiles, options: RewriteDataFiles, spec: PartitionSpec, only: Collection[str] | None = None
) -> list[FileGroup[LiveFile]]:
    """Return the file groups that ``rewrite_data_files`` would rewrite.

    :param spec: the current one. Rows of files of older specs may spread over its partitions, so these files go together, with
        those whose partition values are all null.
    :param only: paths that the predicate may match; ``None`` for all.
    """
    bounds = size_bounds(options)
    considered = [file for file in files.data if only is None or file.path in only]
    nulls = (None,) * len(spec.fields)
    partitions = by_partition(considered, lambda file: file.partition if file.spec_id == spec.spec_id else nulls)

    def needs_rewrite(file: LiveFile) -> bool:
        return has_many_deletes(file, files.deletes_of(file), options)

    groups = [group for partition in partitions for group in bounds.groups(partition, needs_rewrite)]
    return [bounds.measured(group) for group in _limit_files(groups, options.max_files_to_rewrite)]


def size_bounds(options: RewriteDataFiles) -> SizeBounds:
    """Return when these options make a data file, or a group of them, worth rewriting."""
    return SizeBounds(
        options.target_file_size_bytes,
        options.min_file_size_bytes,
        options.max_file_size_bytes,
        options.min_input_files,
        options.max_file_group_size_bytes,
        options.rewrite_all,
        options.max_file_group_input_files or NO_LIMIT,
    )


def _limit_files(groups: list[list[LiveFile]], most: int | None) -> list[list[LiveFile]]:
    """Return groups with at most this many files in total; the last one may lose some, as in Iceberg's planner."""
    if most is None:
        return groups
    taken: list[list[LiveFile]] = []
    for group in groups:
        room = most - sum(map(len, taken))
        if room <= 0:
            break
        taken.append(group[:room])
    return taken


def has_many_deletes(file: LiveFile, deletes: Sequence[LiveDelete], options: RewriteDataFiles) -> bool:
    """Return whether a data file is rewritten for its deletes."""
    if len(deletes) >= options.delete_file_threshold:
        return True
    # Only deletes of this one file show how many of its rows are deleted.
    known = sum(delete.records for delete in deletes if delete.data_file is not None)
    return bool(deletes) and file.records > 0 and min(known, file.records) / file.records >= options.delete_ratio_threshold


@dataclass(frozen=True, slots=True)
class Share:
    """Files that one plan rewrites.

    :param of: their partition; ``None``: any partition.
    :param files: how many, of ``bytes`` in total, which become ``outputs`` files.
    """

    of: PartitionHealth | None
    files: int
    bytes: int
    outputs: int

    @property
    def gain(self) -> float:
        """How many files are saved per byte rewritten."""
        return (self.files - self.outputs) / max(self.bytes, 1)


@dataclass(frozen=True, slots=True)
class Choice:
    """What one plan rewrites of a table, and why not the rest.

    :param where: ``None``: no predicate.
    :param max_files: the procedure's limit if only a part of the selection is rewritten; ``None``: all of it.
    """

    shares: Sequence[Share]
    where: str | None = None
    max_files: int | None = None
    notes: tuple[str, ...] = ()

    def sum(self, name: str) -> int:
        """Sum a number over the shares."""
        return sum(getattr(share, name) for share in self.shares)


def _share_of(counts: FileCounts, of: PartitionHealth | None, options: RewriteDataFiles) -> Share | None:
    """Return what Iceberg would rewrite of a partition, or of the files of all older specs; ``None`` if nothing."""
    files = counts.small_files + counts.large_files + counts.with_deletes_files
    taken = counts.small_bytes + counts.large_bytes + counts.with_deletes_bytes
    if options.rewrite_all:
        files, taken = counts.data_files, counts.bytes
    bounds = size_bounds(options)
    forced = options.rewrite_all or counts.with_deletes_files
    return Share(of, files, taken, bounds.outputs(taken)) if files and (forced or bounds.is_worth(files, taken)) else None


def _being_written(sick: Sequence[Share], facts: Facts) -> list[Share]:
    """Return the partitions that writers add files to now; a later plan rewrites them, when writers have moved on.

    None if the table is not partitioned, or if writers use every partition, such as buckets: waiting would not help. None if the
    action is overdue.
    """
    health = facts.health
    if facts.overdue or not health.specs.get(health.spec_id):
        return []
    if len(health.partitions) == health.partition_count and all(_is_written(each, facts) for each in health.partitions):
        return []
    return [share for share in sick if _is_written(share.of, facts)]


def _is_written(partition: PartitionHealth | None, facts: Facts) -> bool:
    return written_until(partition, facts.now, WRITING_WINDOW) is not None


def _reaches(facts: Facts, shares: Sequence[Share]) -> bool:
    """Return whether the files of these partitions reach a threshold of the policy."""
    numbers = _metrics(facts, shares)
    return any(numbers[kind] >= facts.thresholds[kind] for kind in THRESHOLDS)


def _select(free: list[Share], held: Sequence[Share], options: RewriteDataFiles, facts: Facts) -> Choice:
    """Choose partitions up to the byte limit of a plan, those that save most files per byte first."""
    most = facts.max_rewrite_bytes
    ranked = sorted(free, key=lambda share: -share.gain)
    # Failed rewrites count too: a partition whose rewrite fails must not come first in each plan.
    if (facts.record.runs + facts.record.failures) % LARGEST_FIRST_EVERY == LARGEST_FIRST_EVERY - 1:
        ranked.sort(key=lambda share: share.bytes <= most)
    chosen, room = list[Share](), most
    for share in ranked:
        if share.bytes <= room:
            chosen.append(share)
            room -= share.bytes
        elif not chosen:  # larger than a whole plan: each plan rewrites a part
            chosen, room = [_part(share, most, options)], 0
    max_files = chosen[0].files if chosen[0].bytes < ranked[0].bytes and len(chosen) == 1 else None
    notes = []
    if max_files is not None or len(chosen) < len(free):
        notes.append(f"one plan rewrites at most {size(most)}")
    if held:
        notes.append(f"writers add files to {_these(held)} now")
    if len(chosen) == facts.health.partition_count:
        return Choice(chosen, options.where, max_files, tuple(notes))
    try:
        where = where_for(facts, [share.of for share in chosen if share.of is not None], options.where)
    except NotSelectable as problem:
        return _whole_table([*free, *held], options, facts, f"{problem}, so the whole table is selected")
    return Choice(chosen, where, max_files, tuple(notes))


def _whole_table(shares: Sequence[Share], options: RewriteDataFiles, facts: Facts, note: str) -> Choice:
    """Select every partition, up to the byte limit of a plan."""
    most = facts.max_rewrite_bytes
    taken = sum(share.bytes for share in shares)
    if taken <= most:
        return Choice(shares, options.where, None, (note,))
    all_of_it = Share(None, sum(share.files for share in shares), taken, 0)
    part = _part(all_of_it, most, options)
    return Choice([part], options.where, part.files, (note, f"one plan rewrites at most {size(most)}"))


def _part(share: Share, most: int, options: RewriteDataFiles) -> Share:
    """Return as many of the files as fit into a plan, but enough to be worth a rewrite."""
    files = min(max(share.files * most // share.bytes, options.min_input_files), share.files)
    taken = share.bytes * files // share.files
    return Share(share.of, files, taken, size_bounds(options).outputs(taken))


def _found(options: RewriteDataFiles, facts: Facts, judged: Sequence[Share], choice: Choice) -> Finding:
    """:param judged: the partitions whose files are compared with the thresholds; the choice may be a part of them."""
    whole = any(share.of is None for share in choice.shares)
    numbers = _metrics(facts, judged)
    given: dict[str, Any] = {"where": choice.where} if choice.where else {}
    if choice.max_files is not None:
        given["max_files_to_rewrite"] = choice.max_files
    return Finding(
        "; ".join((_counts(facts, judged), _thresholds(facts, numbers), *choice.notes)),
        numbers,
        Estimate(choice.sum("files"), choice.sum("outputs"), choice.sum("bytes")),
        _reaches(facts, judged),
        options=given,
        partitions=None if whole else tuple(share.of for share in choice.shares if share.of is not None),
        commits=commits_of(len(choice.shares), options.most_commits),
    )


def _metrics(facts: Facts, shares: Sequence[Share]) -> dict[str, int | float]:
    """Return the numbers of the sick partitions and of the table."""
    health = facts.health
    counts = [health.outdated if share.of is None else share.of for share in shares]
    return {
        "data_files": health.data_files,
        "small_files": sum(each.small_files for each in counts),
        "large_files": sum(each.large_files for each in counts),
        "files_with_deletes": sum(each.with_deletes_files for each in counts),
        "sick_partitions": len(counts),
        "partitions": health.partition_count,
    }


def _counts(facts: Facts, shares: Sequence[Share]) -> str:
    numbers, bounds = _metrics(facts, shares), facts.health.bounds
    low, high = size(bounds.min_file_size_bytes), size(bounds.max_file_size_bytes)
    named = zip(THRESHOLDS, (f"below {low}", f"above {high}", "with many deletes"), strict=True)
    counts = [(numbers[kind], name) for kind, name in named if numbers[kind]]
    first, *others = counts or [(0, "too small, too large or with many deletes; rewrite_all takes all of them")]
    text = f"{number(first[0])} of {plural(facts.health.data_files, 'file')} {first[1]}"
    return text + "".join(f", {number(count)} {kind}" for count, kind in others) + of_partitions(len(shares), facts.health)


def _thresholds(facts: Facts, numbers: Mapping[str, int | float]) -> str:
    shown = [number(facts.thresholds[kind]) for kind in [kind for kind in THRESHOLDS if numbers[kind]] or THRESHOLDS]
    return f"threshold{'s' if len(shown) > 1 else ''} {join(shown)}"


def _nothing(facts: Facts) -> str:
    health = facts.health
    if not (health.small_files or health.large_files):
        return f"{plural(health.data_files, 'file')}, none of them too small, too large or with many deletes"
    return f"{number(health.small_files)} of {plural(health.data_files, 'file')} too small, and no partition has enough of them"


def _these(shares: Sequence[Share]) -> str:
    return plural(len(shares), "partition")
