"""Whether an action has nothing to do, from the table's metadata and storage: then Spark need not start.

    >>> skip = nothing_to_do(RewriteDataFiles(), lambda: MetadataReader(table), now=utc_now())  # doctest: +SKIP
    >>> skip.message  # doctest: +SKIP
    'Nothing to do: 12 data files, 2 of them too small or too large, and no partition has enough of those'

The invariant: it errs towards Spark. ``None`` means that there may be something to do. An effect means that Iceberg's procedure
would find nothing, whatever a ``where`` selects and however Spark groups the files: predicates are not evaluated, and groups have
no limit of size, because a part of files that are not worth a rewrite is not worth one either. Orphan files are found by listing
the storage, if the table is small enough to list it here. The rest (the effect of an option that the plan does not cover, the
storage of a large table) is for Spark to find out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import DeleteKind, TableFiles, list_storage
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import Effect, counted
from airflow_snowpack.maintenance.file_groups import data_file_groups, delete_file_groups, size_bounds
from airflow_snowpack.maintenance.options import (
    ActionOptions,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)
from airflow_snowpack.maintenance.plan import expiry_of, is_protected, plan_manifests

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import MetadataReader

NO_LIMIT = 2**63 - 1
WITH_VECTORS = 3
"""The format version from which on rows are deleted by deletion vectors."""
FILE_TOTALS = ("total-data-files", "total-delete-files")
MOST_FILES, MOST_SNAPSHOTS = 10_000, 200
"""Of a table whose storage is listed without Spark."""


def nothing_to_do(options: ActionOptions, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
    """Return what shows that the action has nothing to do, or ``None`` when it may have something.

    :param read: gives a reader of the table; not called where metadata cannot show it.
    :param now: the moment that ages count back from.
    :raises OSError, TableUnreadable: a file that the metadata names cannot be read.
    """
    match options:
        case RewriteDataFiles():
            return _no_data_files(options, read)
        case RewritePositionDeleteFiles():
            return _no_delete_files(options, read())
        case RewriteManifests():
            return _no_manifests(options, read)
        case ExpireSnapshots():
            return _no_snapshots(options, read, now)
        case RemoveOrphanFiles():
            return _no_orphans(options, read, now)
        case _:
            return None


def _no_data_files(options: RewriteDataFiles, read: Callable[[], MetadataReader]) -> Effect | None:
    if options.remove_dangling_deletes:
        return None
    reader = read()
    if options.branch is not None and not _has_branch(reader.table, options.branch):
        return None  # an error of Spark's
    files, spec = reader.files(options.branch), reader.table.spec()
    unlimited = replace(options, max_file_group_size_bytes=NO_LIMIT, max_files_to_rewrite=None)
    if data_file_groups(files, unlimited, spec_id=spec.spec_id, spec_fields=len(spec.fields)):
        return None
    bounds = size_bounds(options)
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
    return _skip(f"{counted(len(files.data), 'data file')}, {why if off else none}", metrics)


def _has_branch(table: Table, name: str) -> bool:
    ref = table.metadata.refs.get(name)
    return ref is not None and ref.snapshot_ref_type == "branch"


def _no_delete_files(options: RewritePositionDeleteFiles, reader: MetadataReader) -> Effect | None:
    files = reader.files()
    deletes = [delete for delete in files.deletes if delete.kind is DeleteKind.POSITION]
    if deletes and reader.table.format_version >= WITH_VECTORS:
        return None  # they become deletion vectors, together with the vectors of their partitions
    if len({delete.spec_id for delete in deletes}) > 1:
        # Partitions of different specs may be one to Iceberg, where the fields that only one of them has are null.
        deletes = [replace(delete, spec_id=0, partition=()) for delete in deletes]
    considered = TableFiles(deletes=tuple(deletes))
    if delete_file_groups(considered, options, properties=reader.table.properties, group_bytes=NO_LIMIT):
        return None
    positional = len(deletes)
    metrics = {
        "rewritten_delete_files_count": 0,
        "added_delete_files_count": 0,
        "rewritten_bytes_count": 0,
        "considered_delete_files_count": positional,
    }
    if not positional:
        return _skip("no position-delete files", metrics)
    return _skip(f"{counted(positional, 'position-delete file')}, and no partition has enough of them", metrics)


def _no_manifests(options: RewriteManifests, read: Callable[[], MetadataReader]) -> Effect | None:
    if options.sort_by:
        return None
    reader = read()
    if options.spec_id is not None and options.spec_id not in reader.table.specs():
        return None  # an error of Spark's
    if plan_manifests(options, reader).metrics["rewritten_manifests_count"]:
        return None
    number = len(reader.manifests(reader.table.current_snapshot()))
    metrics = {"rewritten_manifests_count": 0, "added_manifests_count": 0, "considered_manifests_count": number}
    return _skip(f"{counted(number, 'manifest')}, and none to combine", metrics)


def _no_snapshots(options: ExpireSnapshots, read: Callable[[], MetadataReader], now: datetime) -> Effect | None:
    if options.clean_expired_metadata:
        return None
    table = read().table
    if is_protected(table):
        return None
    expiry = expiry_of(options, table, now)
    if expiry.snapshots or expiry.refs:
        return None
    metrics = {"expired_snapshots_count": 0, "expired_refs_count": 0, "kept_snapshots_count": len(expiry.kept)}
    return _skip(f"{counted(len(expiry.kept), 'snapshot')}, none of them due to expire", metrics)


def _no_orphans(options: RemoveOrphanFiles, read: Callable[[], MetadataReader], now: datetime) -> Effect | None:
    if options.prefix_mismatch_mode or options.equal_schemes or options.equal_authorities:
        return None
    reader = read()
    if is_protected(reader.table) or not _is_small(reader.table):
        return None
    found = list_storage(reader, older_than=now - options.older_than, location=options.location)
    if found.orphans:
        return None
    metrics = {"planned_files_count": 0, "removed_files_count": 0, "considered_files_count": found.files}
    return _skip(f"{counted(found.files, 'file')} in the storage, none of them an orphan that is old enough", metrics)


def _is_small(table: Table) -> bool:
    """Whether listing its storage here, and reading what all its snapshots name, takes less than starting Spark."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return True
    totals = [snapshot.summary.get(key) if snapshot.summary else None for key in FILE_TOTALS]
    known = [int(total) for total in totals if total is not None]
    return len(known) == len(totals) and sum(known) <= MOST_FILES and len(table.metadata.snapshots) <= MOST_SNAPSHOTS


def _skip(evidence: str, metrics: dict[str, int]) -> Effect:
    return Effect(ActionOutcome.SKIPPED, f"Nothing to do: {evidence}", metrics)
