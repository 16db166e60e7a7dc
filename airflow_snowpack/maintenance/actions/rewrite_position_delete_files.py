"""Compact position-delete files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import number, plural
from airflow_snowpack.iceberg import DeleteKind, LiveDelete, TableFiles
from airflow_snowpack.iceberg.health import PartitionHealth
from airflow_snowpack.iceberg.health.bounds import delete_target, good_sizes
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import DELETE_GRANULARITY, value_of
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionEffect, PlanningContext
from airflow_snowpack.maintenance.expiry import MAIN
from airflow_snowpack.maintenance.file_groups import (
    GROUP_BYTES,
    NO_LIMIT,
    FileGroup,
    SizeBounds,
    by_partition,
    estimate_of,
    in_commits,
)
from airflow_snowpack.maintenance.options import JobOrder, option
from airflow_snowpack.maintenance.plan import planned, select_files, skip
from airflow_snowpack.maintenance.planning.commits import commits_of
from airflow_snowpack.maintenance.planning.finding import Estimate, Facts, Finding, Rate, Threshold, of_partitions
from airflow_snowpack.maintenance.planning.where import NotSelectable, where_for
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import flag, one_of, predicate, whole_number
from airflow_snowpack.maintenance.rewrites import Rewrite, RewriteWording

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.history import Key
    from airflow_snowpack.maintenance.replay.state import SimulatedTable

MAX_FILES = "max_files_to_rewrite"
WITHOUT_DELETES = ("append", "replace")
"""Operations of commits that add no deletes."""
WITH_VECTORS = 3
"""The format version from which deletion vectors delete rows."""
SHAPE = RewriteWording(
    "Compacted",
    "compacted",
    "delete file",
    "rewritten_delete_files_count",
    "added_delete_files_count",
    {
        "rewritten_delete_files_count": "removed-delete-files",
        "added_delete_files_count": "added-delete-files",
        "rewritten_bytes_count": "removed-files-size",
        "added_bytes_count": "added-files-size",
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeleteFiles(Rewrite):
    """Compact position-delete files, and drop deletes that no live data file needs.

    :param target_file_size_bytes: by default, the table's ``write.delete.target-file-size-bytes``, or 64 MiB.
    :param min_input_files: a group with this many files is worth rewriting.
    :param max_file_group_input_files: how many files one unit of work reads at most; by default, any number.
    :param where: only delete files of matching partitions; a Spark predicate.
    :param rewrite_job_order: which file groups come first; by default, in the order found.
    """

    action: ClassVar[str] = Action.REWRITE_POSITION_DELETE_FILES
    thresholds: ClassVar[Mapping[str, Threshold]] = {"delete_files": Threshold(5, "Position-delete files.")}
    rate: ClassVar[Rate] = Rate(3.0, per_gib=60.0, per_file=0.01)
    enabled: ClassVar[bool] = True
    deletes_files: ClassVar[bool] = False
    rewrites_files: ClassVar[bool] = True
    shape: ClassVar[RewriteWording] = SHAPE

    where: str | None = option(None, predicate, of_table=True)
    target_file_size_bytes: int | None = option(None, whole_number(at_least=1), "target-file-size-bytes")
    min_input_files: int = option(5, whole_number(at_least=1, at_most=2**31 - 1), "min-input-files")
    rewrite_all: bool = option(False, flag, "rewrite-all")
    partial_progress: bool = option(True, flag, "partial-progress.enabled")
    partial_progress_max_commits: int = option(10, whole_number(at_least=1, at_most=1000), "partial-progress.max-commits")
    max_concurrent_file_group_rewrites: int = option(
        5, whole_number(at_least=1, at_most=1000), "max-concurrent-file-group-rewrites"
    )
    rewrite_job_order: JobOrder | None = option(None, one_of(JobOrder), "rewrite-job-order")
    max_file_group_input_files: int | None = option(
        None, whole_number(at_least=1, at_most=NO_LIMIT), "max-file-group-input-files"
    )

    def call(self, table: TableName, *, strict: bool = False) -> ProcedureCall:
        return procedure_call(table, self.action, {"where": self.where}, self.procedure_options())

    @property
    def most_commits(self) -> int:
        """The maximum number of commits."""
        return self.partial_progress_max_commits if self.partial_progress else 1

    def find(self, facts: Facts) -> Finding:
        """Return what the action would do after the same plan has rewritten data files.

        That rewrite leaves the deletes of its files in the table: Iceberg only drops those that are older than every data file.
        """
        health = facts.health
        metrics = {"position_delete_files": health.position_delete_files, "partitions": health.partition_count}
        if not health.position_delete_files:
            return Finding("no position-delete files", metrics)
        if _all_data_rewritten(facts):
            return Finding(f"{_files(health.position_delete_files)}, which the rewrite of all data files drops", metrics)
        every = health.format_version >= WITH_VECTORS or self.rewrite_all
        bounds, having = size_bounds(self, health.properties), [each for each in health.partitions if each.position_delete_files]
        enough = [each for each in having if every or bounds.is_worth(each.position_delete_files, _bytes(each))]
        sick = [each for each in enough if every or each.position_delete_files > _outputs(each, self, facts)]
        metrics["sick_partitions"] = len(sick)
        if not sick:
            why = "and a rewrite would leave as many" if enough else "and no partition has enough of them to combine"
            if enough and all(_with_deletes(each, facts) >= each.position_delete_files for each in enough):
                why = "each of another data file"
            return Finding(f"{_files(health.position_delete_files)}, {why}", metrics)
        return _found(self, facts, sick, metrics)

    def simulate(self, state: SimulatedTable, now: datetime, partitions: Collection[PartitionKey] | None) -> Estimate:
        """Combine the position deletes of each partition, without those of removed data files."""
        from airflow_snowpack.maintenance.replay.history import key_of

        groups = delete_file_groups(state.files, self, properties=state.table.properties, only=partitions)
        keys, emptied = {id(delete): key for key, delete in state.deletes.items()}, state.emptied()
        added = 0
        for batch in in_commits(groups, self.most_commits):
            snapshot = state.commit(now)
            written: set[Key] = set()
            for place, group in enumerate(batch):
                for each in group.files:
                    state.drop(keys[id(each)])
                filled = [each for each in group.files if keys[id(each)] not in emptied]
                for combined in _combined(filled, f"simulated-deletes-{snapshot.number}-{place}", state):
                    state.add(key_of(combined), combined, snapshot)
                    written.add(key_of(combined))
            state.write_manifest(written, spec_id=state.table.spec().spec_id, is_data=False)
            added += len(written)
        return estimate_of(groups, added)

    def plan(self, planning: PlanningContext) -> ActionEffect:
        reader = planning.reader
        files, table = reader.files(), reader.table
        selection = select_files(reader, self.where)
        only = None
        if selection.paths is not None:
            only = {file.partition_key for file in files.data if file.path in selection.paths}
        groups = delete_file_groups(files, self, properties=table.properties, only=only)
        taken = sum(len(group.files) for group in groups)
        added = sum(_delete_outputs(group, files, table) for group in groups)
        metrics = {
            "rewritten_delete_files_count": taken,
            "added_delete_files_count": added,
            "rewritten_bytes_count": sum(group.bytes for group in groups),
            "file_groups_count": len(groups),
        }
        message = (
            f"Would compact {plural(taken, 'delete file')} into about {added:,}" if taken else "Would compact no delete files"
        )
        return planned(message, metrics, selection)

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        table = planning.reader.table
        deletes = [delete for delete in planning.reader.files().deletes if delete.kind is DeleteKind.POSITION]
        if deletes and table.format_version >= WITH_VECTORS:
            return None  # they become deletion vectors, merged with those of their partitions
        if len({delete.spec_id for delete in deletes}) > 1:
            # Iceberg may treat partitions of different specs as one, if fields that only one of them has are null.
            deletes = [replace(delete, spec_id=0, partition=()) for delete in deletes]
        considered = TableFiles(deletes=tuple(deletes))
        unlimited = replace(self, max_file_group_input_files=None)
        if delete_file_groups(considered, unlimited, properties=table.properties, group_bytes=NO_LIMIT):
            return None
        metrics = {
            "rewritten_delete_files_count": 0,
            "added_delete_files_count": 0,
            "rewritten_bytes_count": 0,
            "considered_delete_files_count": len(deletes),
        }
        evidence = f"{_files(len(deletes))}, and no partition has enough of them" if deletes else "no position-delete files"
        return skip(evidence, metrics)


def _delete_outputs(group: FileGroup[LiveDelete], files: TableFiles, table: Table) -> int:
    """Return how many delete files remain: none for removed data files, and by default one for each live data file."""
    about = {delete.data_file for delete in group.files}
    if None in about:
        return group.outputs
    live = len(about & {file.path for file in files.data})
    return min(live, group.outputs) if value_of(table.properties, DELETE_GRANULARITY) == "partition" else live


def delete_file_groups(
    files: TableFiles,
    options: RewritePositionDeleteFiles,
    *,
    properties: Mapping[str, str],
    only: Collection[Hashable] | None = None,
    group_bytes: int = GROUP_BYTES,
) -> list[FileGroup[LiveDelete]]:
    """Return the file groups that ``rewrite_position_delete_files`` would rewrite.

    :param properties: of the table, with the target size of delete files unless the options have one.
    :param only: partitions that the predicate may match; ``None`` for all.
    :param group_bytes: the maximum size of a group.
    """
    bounds = size_bounds(options, properties, group_bytes)
    considered = [
        delete
        for delete in files.deletes
        if delete.kind is DeleteKind.POSITION and (only is None or delete.partition_key in only)
    ]
    partitions = by_partition(considered, lambda delete: delete.partition_key)
    return [bounds.measured(group) for partition in partitions for group in bounds.groups(partition)]


def size_bounds(options: RewritePositionDeleteFiles, properties: Mapping[str, str], group_bytes: int = GROUP_BYTES) -> SizeBounds:
    """Return when these options make a position-delete file, or a group of them, worth rewriting."""
    target = options.target_file_size_bytes or delete_target(properties)
    return SizeBounds(
        target,
        *good_sizes(target),
        options.min_input_files,
        group_bytes,
        rewrite_all=options.rewrite_all,
        group_files=options.max_file_group_input_files or NO_LIMIT,
    )


def _all_data_rewritten(facts: Facts) -> bool:
    """Return whether every data file is rewritten after a commit without deletes, so that all data files are newer."""
    data, health = facts.before.get(Action.REWRITE_DATA_FILES), facts.health
    if data is None or data.work is None or data.work.files_removed < health.data_files:
        return False
    log, head = health.snapshots, next((ref.snapshot_id for ref in health.refs if ref.name == MAIN), None)
    return head in log.ids and log.operations[log.ids.index(head)] in WITHOUT_DELETES


def _unchanged(partition: PartitionHealth, facts: Facts) -> int:
    """Return how many data files of a partition the rewrite of data files leaves unchanged."""
    data = facts.before.get(Action.REWRITE_DATA_FILES)
    if data is None or MAX_FILES in data.options or partition not in (data.partitions or facts.health.partitions):
        return partition.data_files
    return partition.data_files - partition.small_files - partition.large_files - partition.with_deletes_files


def _with_deletes(partition: PartitionHealth, facts: Facts) -> int:
    """Return how many of the unchanged data files have delete files about them alone."""
    return min(partition.own_deletes_files, _unchanged(partition, facts))


def _found(
    options: RewritePositionDeleteFiles, facts: Facts, sick: Sequence[PartitionHealth], metrics: Mapping[str, int | float]
) -> Finding:
    health = facts.health
    files, threshold = sum(each.position_delete_files for each in sick), facts.thresholds["delete_files"]
    evidence = f"{_files(files)}{of_partitions(len(sick), health)}; threshold {number(threshold)}"
    where, partitions = options.where, tuple(sick)
    if len(sick) < health.partition_count and {each.spec_id for each in sick} == {health.spec_id}:
        try:
            where = where_for(facts, sick, where)
        except NotSelectable as problem:
            evidence += f"; {problem}, so the whole table is selected"
    return Finding(
        evidence,
        metrics,
        Estimate(files, sum(_outputs(each, options, facts) for each in sick), sum(map(_bytes, sick))),
        files >= threshold,
        options={"where": where} if where else {},
        partitions=partitions,
        commits=commits_of(len(sick), options.most_commits),
    )


def _outputs(partition: PartitionHealth, options: RewritePositionDeleteFiles, facts: Facts) -> int:
    """Return how many delete files a rewrite leaves: by default one for each live data file."""
    properties = facts.health.properties
    by_size = -(-_bytes(partition) // size_bounds(options, properties).target)
    by_partition = value_of(properties, DELETE_GRANULARITY) == "partition"
    return max(by_size, 1 if by_partition else _with_deletes(partition, facts), 1) if _unchanged(partition, facts) else 0


def _bytes(partition: PartitionHealth) -> int:
    """Return the size of the partition's position-delete files."""
    return partition.delete_bytes * partition.position_delete_files // max(partition.delete_files, 1)


def _files(count: int) -> str:
    return plural(count, "position-delete file")


def _combined(deletes: Sequence[LiveDelete], path: str, state: SimulatedTable) -> Iterator[LiveDelete]:
    """Yield the files that these deletes become, without those of removed data files."""
    left: dict[str | None, list[LiveDelete]] = defaultdict(list)
    for each in deletes:
        if each.data_file is None or each.data_file in state.data:
            left[each.data_file].append(each)
    if len(left) > 1 and (None in left or value_of(state.table.properties, DELETE_GRANULARITY) == "partition"):
        left = {None: [each for group in left.values() for each in group]}
    for count, (data_file, group) in enumerate(left.items()):
        size, records = sum(each.bytes for each in group), sum(each.records for each in group)
        place = (group[0].spec_id, group[0].partition, state.sequence)
        yield LiveDelete(f"{path}-{count}", size, records, *place, DeleteKind.POSITION, data_file)
