"""Expire snapshots. Iceberg itself keeps what branches and tags need; no option can switch that off.

The plan follows the rules of Iceberg's ``RemoveSnapshots``. Every branch keeps its newest snapshots, a tag keeps its own, a
branch's own settings go before the caller's, and a snapshot that no branch or tag leads to is kept while it is young. A branch or
tag other than ``main`` goes once its snapshot is older than ``max-ref-age-ms``, which without a setting never happens.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.iceberg import DeleteKind, LiveDelete, LiveFile
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionRun, Effect, Planning, counted, snapshot_ids
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import GC_PROPERTY, is_protected, refused_plan, skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, ids, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.iceberg import MetadataReader
    from airflow_snowpack.iceberg.names import TableName


DEFAULT_MAX_AGE = timedelta(days=5)
DEFAULT_RETAIN_LAST = 3
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
EXPIRED = "expired_snapshots_count"
MAIN = "main"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_REF_AGE_PROPERTY = "history.expire.max-ref-age-ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(ActionOptions):
    """Forget old snapshots and delete the files that only they used. What branches and tags need stays.

    :param max_age: snapshots up to this age stay.
    :param retain_last: this many stay whatever their age.
    :param stream_results: keep the list of deleted files off the driver's memory.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param snapshot_ids: expire exactly these, whatever their age, and no others.
    :param clean_expired_metadata: also forget partition specs and schemas that no snapshot uses; off by default.
    """

    action: ClassVar[str] = Action.EXPIRE_SNAPSHOTS

    max_age: timedelta = option(DEFAULT_MAX_AGE, duration(at_least=timedelta(0)))
    retain_last: int = option(DEFAULT_RETAIN_LAST, whole_number(at_least=1, at_most=2**31 - 1))
    stream_results: bool = option(True, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    snapshot_ids: tuple[int, ...] = option((), ids)
    clean_expired_metadata: bool | None = option(None, flag)

    def check(self) -> None:
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
        if self.clean_expired_metadata:
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
        before = snapshot_ids(run.table())
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


def _unshared_contents(reader: MetadataReader, gone: Iterable[ManifestFile], kept: Iterable[ManifestFile]) -> Counter[str]:
    candidates = reader.live_in(gone)
    shared = reader.live_in(kept) if candidates else {}
    return Counter(_content_of(file) for path, file in candidates.items() if path not in shared)


def _content_of(file: LiveFile | LiveDelete) -> str:
    if isinstance(file, LiveFile):
        return "DATA"
    return "EQUALITY_DELETES" if file.kind is DeleteKind.EQUALITY else "POSITION_DELETES"


@dataclass(frozen=True, slots=True)
class Expiry:
    """What would go, and which snapshots would stay.

    :param refs: names of branches and tags that are past their own age.
    """

    snapshots: tuple[Snapshot, ...]
    kept: tuple[Snapshot, ...]
    refs: tuple[str, ...] = ()


def plan_expiry(metadata: TableMetadata, *, older_than: datetime, retain_last: int, now: datetime) -> Expiry:
    """Separate the snapshots that would be expired from those that would be kept.

    :param older_than: snapshots from this moment on stay.
    :param retain_last: so many of each branch stay, whatever their age.
    """
    cutoff, now_ms = _milliseconds(older_than), _milliseconds(now)
    refs = {name: ref for name, ref in metadata.refs.items() if _stays(name, ref, metadata, now_ms)}
    kept: set[int] = {ref.snapshot_id for ref in refs.values()}
    led_to: set[int] = set(kept)
    for ref in refs.values():
        if ref.snapshot_ref_type == "branch":
            line = list(_ancestors(ref.snapshot_id, metadata))
            led_to |= {snapshot.snapshot_id for snapshot in line}
            kept |= _kept_of_branch(line, ref, cutoff, retain_last, now_ms)
    kept |= {each.snapshot_id for each in metadata.snapshots if each.snapshot_id not in led_to and each.timestamp_ms >= cutoff}
    return Expiry(
        snapshots=tuple(each for each in metadata.snapshots if each.snapshot_id not in kept),
        kept=tuple(each for each in metadata.snapshots if each.snapshot_id in kept),
        refs=tuple(sorted(metadata.refs.keys() - refs.keys())),
    )


def plan_expiry_of(metadata: TableMetadata, snapshot_ids: Collection[int], *, now: datetime) -> Expiry:
    """Separate the named snapshots from those that would be kept. Branches and tags go at their own age all the same."""
    by_age = plan_expiry(metadata, older_than=EPOCH, retain_last=1, now=now)
    gone = {*snapshot_ids, *(snapshot.snapshot_id for snapshot in by_age.snapshots)}
    return Expiry(
        snapshots=tuple(each for each in metadata.snapshots if each.snapshot_id in gone),
        kept=tuple(each for each in metadata.snapshots if each.snapshot_id not in gone),
        refs=by_age.refs,
    )


def _stays(name: str, ref: SnapshotRef, metadata: TableMetadata, now_ms: int) -> bool:
    if name == MAIN:
        return True
    snapshot = metadata.snapshot_by_id(ref.snapshot_id)
    default = metadata.properties.get(MAX_REF_AGE_PROPERTY)
    limit = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else int(default) if default else None
    return snapshot is not None and (limit is None or now_ms - snapshot.timestamp_ms <= limit)


def _kept_of_branch(line: list[Snapshot], ref: SnapshotRef, cutoff: int, retain_last: int, now_ms: int) -> set[int]:
    if ref.max_snapshot_age_ms is not None:
        cutoff = now_ms - ref.max_snapshot_age_ms
    at_least = ref.min_snapshots_to_keep if ref.min_snapshots_to_keep is not None else retain_last
    kept: set[int] = set()
    for snapshot in line:
        # Iceberg stops at the first that goes: a younger one behind it, which only a wrong clock makes, goes too.
        if len(kept) >= at_least and snapshot.timestamp_ms < cutoff:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _ancestors(snapshot_id: int, metadata: TableMetadata) -> Iterator[Snapshot]:
    """From the snapshot back to the oldest that the table still has."""
    following: int | None = snapshot_id
    while following is not None:
        snapshot = metadata.snapshot_by_id(following)
        if snapshot is None:
            return
        yield snapshot
        following = snapshot.parent_snapshot_id


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
