"""Expire snapshots. Iceberg itself keeps what branches and tags need; no option can switch that off.

The plan follows Iceberg's rules, see :mod:`airflow_snowpack.maintenance.expiry`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.iceberg import DeleteKind, LiveDelete, LiveFile, MetadataReader
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionRun, Effect, Planning, counted, snapshot_ids
from airflow_snowpack.maintenance.expiry import DEFAULT_MAX_AGE, DEFAULT_RETAIN_LAST, plan_expiry, plan_expiry_of
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import GC_PROPERTY, is_protected, refused_plan, skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, ids, text, whole_number
from airflow_snowpack.maintenance.removals.model import RemovalKind
from airflow_snowpack.maintenance.removals.options import check_removal_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.expiry import Expiry


LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
EXPIRED = "expired_snapshots_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(ActionOptions):
    """Forget old snapshots and delete the files that only they used. What branches and tags need stays.

    :param max_age: snapshots up to this age stay.
    :param retain_last: this many stay whatever their age.
    :param stream_results: keep the list of deleted files off the driver's memory.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param snapshot_ids: expire exactly these, whatever their age, and no others.
    :param clean_expired_metadata: also forget partition specs and schemas that no snapshot uses; off by default.
    :param approve_above_files: keep the list of snapshots in the store, and wait for an approval if more files would be deleted;
        0: always. ``approve_above_bytes`` likewise for their sizes.
    :param removal_id: expire the snapshots of this list, which was approved, and no others.
    """

    action: ClassVar[str] = Action.EXPIRE_SNAPSHOTS

    max_age: timedelta = option(DEFAULT_MAX_AGE, duration(at_least=timedelta(0)))
    retain_last: int = option(DEFAULT_RETAIN_LAST, whole_number(at_least=1, at_most=2**31 - 1))
    stream_results: bool = option(True, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    snapshot_ids: tuple[int, ...] = option((), ids)
    clean_expired_metadata: bool | None = option(None, flag)
    approve_above_files: int | None = option(None, whole_number(at_least=0))
    approve_above_bytes: int | None = option(None, whole_number(at_least=0))
    removal_id: str | None = option(None, text)

    def check(self) -> None:
        check_removal_options(self)
        if self.snapshot_ids and (self.max_age, self.retain_last) != (DEFAULT_MAX_AGE, DEFAULT_RETAIN_LAST):
            raise refused(self, "snapshot_ids", "expires exactly these snapshots: leave max_age and retain_last out")

    def call(self, table: TableName, job_id: str, *, now: datetime) -> Call:
        """Return the statement that expires the snapshots older than ``max_age`` at this moment, or those of ``snapshot_ids``."""
        arguments = {
            # None is that old, so that nothing goes beside the snapshots that are named.
            "older_than": LONG_AGO if self.snapshot_ids else now - self.max_age,
            "retain_last": self.retain_last,
            "snapshot_ids": self.snapshot_ids or None,
            "clean_expired_metadata": self.clean_expired_metadata,
            "stream_results": self.stream_results,
            "max_concurrent_deletes": self.max_concurrent_deletes,
        }
        return procedure_call(table, self.action, job_id, arguments)

    def plan(self, planning: Planning) -> Effect:
        reader = planning.reader
        table = reader.table
        if self.removal_id:
            return refused_plan(f"a list is shown by: airflow snowpack removals show {self.removal_id} --items")
        if is_protected(table):
            return refused_plan(f"the table's property {GC_PROPERTY} is false, so Iceberg deletes no files of it")
        expiry = self._expiry(table, planning.now)
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

    def nothing_to_do(self, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
        if self.clean_expired_metadata or self.removal_id:
            return None
        table = read().table
        if is_protected(table):
            return None
        expiry = self._expiry(table, now)
        if expiry.snapshots or expiry.refs:
            return None
        metrics = {"expired_snapshots_count": 0, "expired_refs_count": 0, "kept_snapshots_count": len(expiry.kept)}
        return skip(f"{counted(len(expiry.kept), 'snapshot')}, none of them due to expire", metrics)

    def run(self, run: ActionRun) -> Effect:
        """Expire, and count the snapshots that are gone: the procedure itself only counts files.

        :raises SparkInterrupted, SparkFailed: from the procedure.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        if self.removal_id:
            return self._expire_listed(run, self.removal_id)
        table = run.table()
        if self.approve_above_files is not None or self.approve_above_bytes is not None:
            return self._keep_list(run, table)
        before = snapshot_ids(table)
        (row,) = run.call(self.call(run.name, run.job_id, now=run.now))
        # A writer may have added some meanwhile, so the difference of two totals would be wrong.
        expired = len(before - snapshot_ids(run.table()))
        files = {column: int(value or 0) for column, value in row.items()}
        metrics = {EXPIRED: expired, **files}
        if not expired:
            return Effect(ActionOutcome.SUCCEEDED, "No snapshot was old enough to expire", metrics)
        deleted = sum(files.values())
        message = f"Expired {counted(expired, 'snapshot')} and deleted {counted(deleted, 'file')}"
        return Effect(ActionOutcome.SUCCEEDED, message, metrics)

    def _keep_list(self, run: ActionRun, table: Table) -> Effect:
        """Keep the plan in the store, and expire it unless it needs an approval."""
        from airflow_snowpack.maintenance.removals.of_job import ApprovalLimit
        from airflow_snowpack.maintenance.removals.running import planned_removal, removals_of, resumed
        from airflow_snowpack.maintenance.removals.snapshots import Snapshots, planned_snapshots

        if effect := resumed(run, Snapshots(self._expire_only)):
            return effect
        expiry = self._expiry(table, run.now)
        reader = MetadataReader(table)
        files = sum(count for name, count in _files_of_expired(reader, expiry).items() if name.startswith("deleted_"))
        removal = removals_of(run).plan(
            RemovalKind.SNAPSHOTS,
            table,
            planned_snapshots(expiry.snapshots),
            settings={**self.to_json(), "expired_refs": list(expiry.refs), "deleted_files": files},
            limit=ApprovalLimit(self.approve_above_files, self.approve_above_bytes),
            files=files,
            size=_bytes_of_expired(reader, expiry),
        )
        if removal is None:
            return Effect(ActionOutcome.SUCCEEDED, "No snapshot was old enough to expire", {EXPIRED: 0})
        return planned_removal(removal) or self._expire_listed(run, removal.removal_id)

    def _expire_listed(self, run: ActionRun, removal_id: str) -> Effect:
        from airflow_snowpack.maintenance.removals.running import carry_out
        from airflow_snowpack.maintenance.removals.snapshots import Snapshots

        return carry_out(run, removal_id, Snapshots(self._expire_only))

    def _expire_only(self, run: ActionRun, settings: Mapping[str, Any], ids: Sequence[int]) -> None:
        only = ExpireSnapshots(
            snapshot_ids=tuple(ids),
            stream_results=settings.get("stream_results", True),
            max_concurrent_deletes=settings.get("max_concurrent_deletes"),
        )
        run.session.catalog.refreshTable(run.name.quoted)
        run.call(only.call(run.name, run.job_id, now=run.now))

    def _expiry(self, table: Table, now: datetime) -> Expiry:
        if self.snapshot_ids:
            return plan_expiry_of(table.metadata, self.snapshot_ids, now=now)
        return plan_expiry(table.metadata, older_than=now - self.max_age, retain_last=self.retain_last, now=now)


def _files_of_expired(reader: MetadataReader, expiry: Expiry) -> dict[str, int]:
    """What only the expired snapshots use. Manifests that a kept snapshot shares are opened only if there may be a difference."""
    table = reader.table
    kept = reader.manifests_of(expiry.kept if expiry.snapshots else ())
    gone = {path: manifest for path, manifest in reader.manifests_of(expiry.snapshots).items() if path not in kept}
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


def _bytes_of_expired(reader: MetadataReader, expiry: Expiry) -> int:
    """Return the bytes of the data, delete and manifest files that only the expired snapshots use."""
    kept = reader.manifests_of(expiry.kept if expiry.snapshots else ())
    gone = [manifest for path, manifest in reader.manifests_of(expiry.snapshots).items() if path not in kept]
    candidates = reader.live_in(gone)
    shared = reader.live_in(kept.values()) if candidates else {}
    files = sum(file.bytes for path, file in candidates.items() if path not in shared)
    return files + sum(manifest.manifest_length for manifest in gone)


def _unshared_contents(reader: MetadataReader, gone: Iterable[ManifestFile], kept: Iterable[ManifestFile]) -> Counter[str]:
    candidates = reader.live_in(gone)
    shared = reader.live_in(kept) if candidates else {}
    return Counter(_content_of(file) for path, file in candidates.items() if path not in shared)


def _content_of(file: LiveFile | LiveDelete) -> str:
    if isinstance(file, LiveFile):
        return "DATA"
    return "EQUALITY_DELETES" if file.kind is DeleteKind.EQUALITY else "POSITION_DELETES"
