"""Compact position-delete files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import DeleteKind, TableFiles
from airflow_snowpack.iceberg.health.bounds import delete_target, good_sizes
from airflow_snowpack.iceberg.table_properties import DELETE_GRANULARITY, value_of
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import Effect, Planning
from airflow_snowpack.maintenance.file_groups import GROUP_BYTES, NO_LIMIT, FileGroup, SizeBounds, by_partition
from airflow_snowpack.maintenance.options import JobOrder, option
from airflow_snowpack.maintenance.plan import planned, select_files, skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import flag, one_of, predicate, whole_number
from airflow_snowpack.maintenance.rewrites import Rewrite, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from datetime import datetime

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import LiveDelete, MetadataReader
    from airflow_snowpack.iceberg.names import TableName

WITH_VECTORS = 3
"""The format version from which on rows are deleted by deletion vectors."""
SHAPE = Shape(
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
    """Compact position-delete files, and drop from them what no live data file needs.

    :param target_file_size_bytes: without it the table's ``write.delete.target-file-size-bytes``, 64 MiB.
    :param min_input_files: a group with this many files is worth rewriting.
    :param max_file_group_input_files: the most files that one unit of work reads; without it, no limit.
    :param where: only delete files of matching partitions; a Spark predicate.
    :param rewrite_job_order: which file groups come first; without it, as they are found.
    """

    action: ClassVar[str] = Action.REWRITE_POSITION_DELETE_FILES
    shape: ClassVar[Shape] = SHAPE

    where: str | None = option(None, predicate)
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

    def call(self, table: TableName, job_id: str, *, strict: bool = False) -> Call:
        return procedure_call(table, self.action, job_id, {"where": self.where}, self.procedure_options())

    def plan(self, planning: Planning) -> Effect:
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

    def nothing_to_do(self, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
        reader = read()
        files = reader.files()
        deletes = [delete for delete in files.deletes if delete.kind is DeleteKind.POSITION]
        if deletes and reader.table.format_version >= WITH_VECTORS:
            return None  # they become deletion vectors, together with the vectors of their partitions
        if len({delete.spec_id for delete in deletes}) > 1:
            # Partitions of different specs may be one to Iceberg, where the fields that only one of them has are null.
            deletes = [replace(delete, spec_id=0, partition=()) for delete in deletes]
        considered = TableFiles(deletes=tuple(deletes))
        unlimited = replace(self, max_file_group_input_files=None)
        if delete_file_groups(considered, unlimited, properties=reader.table.properties, group_bytes=NO_LIMIT):
            return None
        positional = len(deletes)
        metrics = {
            "rewritten_delete_files_count": 0,
            "added_delete_files_count": 0,
            "rewritten_bytes_count": 0,
            "considered_delete_files_count": positional,
        }
        if not positional:
            return skip("no position-delete files", metrics)
        return skip(f"{plural(positional, 'position-delete file')}, and no partition has enough of them", metrics)


def _delete_outputs(group: FileGroup[LiveDelete], files: TableFiles, table: Table) -> int:
    """Deletes about data files that are gone are left out; by default each remaining data file gets a delete file of its own."""
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
    """What ``rewrite_position_delete_files`` would take.

    :param properties: of the table, with the target size of delete files unless the options have one.
    :param only: partitions that the predicate may match; ``None`` for all.
    :param group_bytes: the most that goes into one group.
    """
    target = options.target_file_size_bytes or delete_target(properties)
    bounds = SizeBounds(
        target,
        *good_sizes(target),
        options.min_input_files,
        group_bytes,
        rewrite_all=options.rewrite_all,
        group_files=options.max_file_group_input_files or NO_LIMIT,
    )
    considered = [
        delete
        for delete in files.deletes
        if delete.kind is DeleteKind.POSITION and (only is None or delete.partition_key in only)
    ]
    partitions = by_partition(considered, lambda delete: delete.partition_key)
    return [bounds.measured(group) for partition in partitions for group in bounds.groups(partition)]
