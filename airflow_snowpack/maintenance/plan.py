"""A dry run: what each action would do, computed from metadata without Spark.

    >>> plan_action(Action.REWRITE_DATA_FILES, RewriteDataFiles(), table, catalog, now=utc_now()).message  # doctest: +SKIP
    'Would compact 87 files into 12'

The invariant: nothing is written and no data file is opened. The rules are those of Iceberg's own planners, and the metrics have
the names that the procedures give theirs, so that a plan can be compared with the result. What cannot be computed from
metadata is named in the message: a predicate that PyIceberg cannot evaluate leaves the numbers of the whole table.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import (
    DeleteKind,
    LiveDelete,
    LiveFile,
    LocationOutsideTable,
    MetadataReader,
    TableName,
    TableUnreadable,
    find_orphans,
    location_conflicts,
)
from airflow_snowpack.iceberg.references import live_contents, manifests_of
from airflow_snowpack.iceberg.table_locations import TRUST_LOCATIONS_FOR
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import Effect, counted
from airflow_snowpack.maintenance.expiry import plan_expiry, plan_expiry_of
from airflow_snowpack.maintenance.file_groups import data_file_groups, delete_file_groups
from airflow_snowpack.maintenance.options import (
    ActionOptions,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)
from airflow_snowpack.maintenance.predicate import Selection, select_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import LocationMemory, TableFiles
    from airflow_snowpack.jobs.model import ActionResult
    from airflow_snowpack.maintenance.expiry import Expiry
    from airflow_snowpack.maintenance.file_groups import FileGroup

MANIFEST_TARGET_PROPERTY = "commit.manifest.target-size-bytes"
MANIFEST_TARGET = 8 * 1024**2
GC_PROPERTY = "gc.enabled"
DELETE_GRANULARITY_PROPERTY = "write.delete.granularity"


def plan_action(
    action: Action,
    options: ActionOptions,
    table: Table,
    catalog: Catalog,
    *,
    now: datetime,
    locations: LocationMemory | None = None,
    reader: MetadataReader | None = None,
) -> ActionResult:
    """What the action would do to the table as it was loaded.

    An action that would be refused is a failed result with the reason.

    :param catalog: where tables that share the location are looked for, before orphans.
    :param reader: of this table, shared by the plans of several actions. It must keep bytes if an option of any has a ``where``.
    :param now: the moment that ages count back from.
    :param locations: where the catalog's tables keep their files, as read before; without it, they are all loaded before orphans.
    :param reader: of this table, shared by the plans of several actions. It must keep bytes if an option of any has a ``where``.
    :raises TableUnreadable: a file that the metadata names cannot be read.
    """
    started = time.perf_counter()
    try:
        effect = _plan(options, reader or reader_for(table, [options]), catalog, now, locations)
    except OSError as error:
        raise TableUnreadable(".".join(table.name()), error) from error
    return effect.result(action, time.perf_counter() - started)


def reader_for(table: Table, options: Iterable[ActionOptions]) -> MetadataReader:
    """A reader of the table for plans of these options."""
    return MetadataReader(table, keep_bytes=any(getattr(each, "where", None) for each in options))


def _plan(
    options: ActionOptions, reader: MetadataReader, catalog: Catalog, now: datetime, locations: LocationMemory | None
) -> Effect:
    match options:
        case RewriteDataFiles():
            return _plan_data_files(options, reader)
        case RewritePositionDeleteFiles():
            return _plan_position_deletes(options, reader)
        case RewriteManifests():
            return plan_manifests(options, reader)
        case ExpireSnapshots():
            return _plan_expiry(options, reader, now)
        case RemoveOrphanFiles():
            return _plan_orphans(options, reader, catalog, now, locations)
        case _:
            raise TypeError(f"{type(options).__name__} are not options of a maintenance action.")


def _plan_data_files(options: RewriteDataFiles, reader: MetadataReader) -> Effect:
    files = reader.files(options.branch)
    selection = select_files(reader, options.where, options.branch)
    spec = reader.table.spec()
    groups = data_file_groups(files, options, spec_id=spec.spec_id, spec_fields=len(spec.fields), only=selection.paths)
    taken, added = sum(len(group.files) for group in groups), sum(group.outputs for group in groups)
    metrics = {
        "rewritten_data_files_count": taken,
        "added_data_files_count": added,
        "rewritten_bytes_count": sum(group.bytes for group in groups),
        "file_groups_count": len(groups),
        "considered_data_files_count": len(files.data) if selection.paths is None else len(selection.paths),
    }
    message = f"Would compact {counted(taken, 'file')} into {added:,}" if taken else "Would compact no files"
    return _effect(message, metrics, selection)


def _plan_position_deletes(options: RewritePositionDeleteFiles, reader: MetadataReader) -> Effect:
    files, table = reader.files(), reader.table
    selection = select_files(reader, options.where)
    only = None
    if selection.paths is not None:
        only = {file.partition_key for file in files.data if file.path in selection.paths}
    groups = delete_file_groups(files, options, properties=table.properties, only=only)
    taken = sum(len(group.files) for group in groups)
    added = sum(_delete_outputs(group, files, table) for group in groups)
    metrics = {
        "rewritten_delete_files_count": taken,
        "added_delete_files_count": added,
        "rewritten_bytes_count": sum(group.bytes for group in groups),
        "file_groups_count": len(groups),
    }
    message = f"Would compact {counted(taken, 'delete file')} into about {added:,}" if taken else "Would compact no delete files"
    return _effect(message, metrics, selection)


def _delete_outputs(group: FileGroup[LiveDelete], files: TableFiles, table: Table) -> int:
    """Deletes about data files that are gone are left out; by default each remaining data file gets a delete file of its own."""
    about = {delete.data_file for delete in group.files}
    if None in about:
        return group.outputs
    live = len(about & {file.path for file in files.data})
    return min(live, group.outputs) if table.properties.get(DELETE_GRANULARITY_PROPERTY) == "partition" else live


def plan_manifests(options: RewriteManifests, reader: MetadataReader) -> Effect:
    """What ``rewrite_manifests`` would do."""
    from pyiceberg.manifest import ManifestContent

    table = reader.table
    spec_id = table.spec().spec_id if options.spec_id is None else options.spec_id
    manifests = reader.manifests(table.current_snapshot())
    target = int(table.properties.get(MANIFEST_TARGET_PROPERTY, MANIFEST_TARGET))
    taken = added = 0
    for content in ManifestContent:
        matching = [each for each in manifests if each.content == content and each.partition_spec_id == spec_id]
        outputs = -(-sum(each.manifest_length for each in matching) // target)
        if matching and not (outputs == 1 and len(matching) == 1):
            taken, added = taken + len(matching), added + outputs
    metrics = {"rewritten_manifests_count": taken, "added_manifests_count": added}
    message = f"Would rewrite {counted(taken, 'manifest')} into {added:,}" if taken else "Would rewrite no manifests"
    return Effect(ActionOutcome.SUCCEEDED, message, metrics)


def _plan_expiry(options: ExpireSnapshots, reader: MetadataReader, now: datetime) -> Effect:
    table = reader.table
    if is_protected(table):
        return _refused(f"the table's property {GC_PROPERTY} is false, so Iceberg deletes no files of it")
    expiry = expiry_of(options, table, now)
    metrics = {
        "expired_snapshots_count": len(expiry.snapshots),
        "kept_snapshots_count": len(expiry.kept),
        "expired_refs_count": len(expiry.refs),
        **_files_of_expired(reader, expiry),
    }
    if not expiry.snapshots:
        return Effect(ActionOutcome.SUCCEEDED, f"Would expire none of {counted(len(expiry.kept), 'snapshot')}", metrics)
    total = len(expiry.snapshots) + len(expiry.kept)
    deleted = sum(count for name, count in metrics.items() if name.startswith("deleted_"))
    message = f"Would expire {len(expiry.snapshots):,} of {counted(total, 'snapshot')} and delete {counted(deleted, 'file')}"
    return Effect(ActionOutcome.SUCCEEDED, message, metrics)


def expiry_of(options: ExpireSnapshots, table: Table, now: datetime) -> Expiry:
    """Which snapshots would be expired, and which would stay."""
    if options.snapshot_ids:
        return plan_expiry_of(table.metadata, options.snapshot_ids, now=now)
    return plan_expiry(table.metadata, older_than=now - options.max_age, retain_last=options.retain_last, now=now)


def _files_of_expired(reader: MetadataReader, expiry: Expiry) -> dict[str, int]:
    """What only the expired snapshots use. Manifests that a kept snapshot shares are opened only if there may be a difference."""
    table = reader.table
    kept = manifests_of(reader, expiry.kept if expiry.snapshots else ())
    gone = {path: manifest for path, manifest in manifests_of(reader, expiry.snapshots).items() if path not in kept}
    kinds = _unshared_contents(reader, gone.values(), kept.values())
    ids = {snapshot.snapshot_id for snapshot in expiry.snapshots}
    statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
    return {
        "deleted_data_files_count": kinds["DATA"],
        "deleted_position_delete_files_count": kinds["POSITION_DELETES"],
        "deleted_equality_delete_files_count": kinds["EQUALITY_DELETES"],
        "deleted_manifest_files_count": len(gone),
        "deleted_manifest_lists_count": len(expiry.snapshots),
        "deleted_statistics_files_count": sum(each.snapshot_id in ids for each in statistics),
    }


def _unshared_contents(reader: MetadataReader, gone: Iterable[ManifestFile], kept: Iterable[ManifestFile]) -> Counter[str]:
    candidates = live_contents(reader, gone)
    shared = live_contents(reader, kept) if candidates else {}
    return Counter(_content_of(file) for path, file in candidates.items() if path not in shared)


def _content_of(file: LiveFile | LiveDelete) -> str:
    if isinstance(file, LiveFile):
        return "DATA"
    return "EQUALITY_DELETES" if file.kind is DeleteKind.EQUALITY else "POSITION_DELETES"


def _plan_orphans(
    options: RemoveOrphanFiles, reader: MetadataReader, catalog: Catalog, now: datetime, locations: LocationMemory | None
) -> Effect:
    table = reader.table
    if is_protected(table):
        return _refused(f"the table's property {GC_PROPERTY} is false, so Iceberg deletes no files of it")
    *levels, last = table.name()
    name = TableName(catalog.name, ".".join(levels), last)
    conflicts = location_conflicts(catalog, name, locations, location=table.location(), trust_since=now - TRUST_LOCATIONS_FOR)
    if conflicts:
        others = "; ".join(str(conflict) for conflict in conflicts[:5])
        return _refused(f"other tables keep files where this one does ({table.location()!r}): {others}", len(conflicts))
    try:
        orphans = find_orphans(table, older_than=now - options.older_than, location=options.location, reader=reader)
    except LocationOutsideTable as error:
        return _refused(str(error))
    size = sum(orphan.bytes for orphan in orphans)
    metrics = {"planned_files_count": len(orphans), "planned_bytes_count": size}
    found = f"Would remove {counted(len(orphans), 'orphan file')} of {counted(size, 'byte')}" if orphans else None
    return Effect(ActionOutcome.SUCCEEDED, found or "Would remove no orphan files", metrics)


def is_protected(table: Table) -> bool:
    """Whether the table forbids to delete files of it, so that Iceberg refuses to."""
    return str(table.properties.get(GC_PROPERTY, "true")).lower() == "false"


def _refused(reason: str, conflicts: int = 0) -> Effect:
    metrics = {"location_conflicts_count": conflicts} if conflicts else {}
    return Effect(ActionOutcome.FAILED, f"Would be refused: {reason}", metrics, reason)


def _effect(message: str, metrics: dict[str, int], selection: Selection) -> Effect:
    note = f"; {selection.problem}, so this counts the whole table" if selection.problem else ""
    return Effect(ActionOutcome.SUCCEEDED, message + note, metrics)
