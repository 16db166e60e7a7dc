"""Expire snapshots. Iceberg itself keeps what branches and tags need; no option can switch that off.

The plan follows Iceberg's rules, see :mod:`airflow_snowpack.maintenance.expiry`. Its list of snapshots is kept in the store as a
removal, and exactly that is expired, see :mod:`airflow_snowpack.maintenance.removals`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import plural
from airflow_snowpack.iceberg import DeleteKind, Equalities, LiveDelete, LiveFile, MetadataReader
from airflow_snowpack.iceberg.table_properties import DEFAULTS, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, age_of, retention_of
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionRun, Effect, Planning
from airflow_snowpack.maintenance.expiry import (
    KEEP_ALL,
    LONG_AGO,
    only_of_expired,
    plan_expiry,
    plan_expiry_of,
)
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import refused_plan, skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, ids, text, text_map, whole_number
from airflow_snowpack.maintenance.removals.model import RemovalKind
from airflow_snowpack.maintenance.removals.options import check_removal_options, planned_with

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.expiry import Expiry
    from airflow_snowpack.maintenance.removals.model import Removal


EXPIRED = "expired_snapshots_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(ActionOptions):
    """Forget old snapshots and delete the files that only they used. What branches and tags need stays.

    :param max_age: snapshots up to this age stay; without it, the table's ``history.expire.max-snapshot-age-ms``, or 5 days.
    :param retain_last: this many stay whatever their age; without it, the table's ``history.expire.min-snapshots-to-keep``, or 3.
    :param stream_results: keep the list of deleted files off the driver's memory.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param snapshot_ids: expire exactly these, whatever their age, and no others.
    :param clean_expired_metadata: also forget partition specs and schemas that no snapshot uses; off by default.
    :param equal_schemes: schemes that mean the same, such as ``{"s3a,s3n": "s3"}``, for the comparison with other tables;
        ``equal_authorities`` likewise for hosts, where two that mean different values are different.
    :param approve_above_files: wait for an approval if more files would be deleted; 0: always. ``approve_above_bytes`` likewise
        for their sizes.
    :param removal_id: expire the snapshots of this list, which was approved, and no others.
    """

    action: ClassVar[str] = Action.EXPIRE_SNAPSHOTS

    max_age: timedelta = option(age_of(DEFAULTS[MAX_SNAPSHOT_AGE]), duration(at_least=timedelta(0)))
    retain_last: int = option(DEFAULTS[MIN_SNAPSHOTS], whole_number(at_least=1, at_most=2**31 - 1))
    stream_results: bool = option(True, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    snapshot_ids: tuple[int, ...] = option((), ids, of_request=True)
    clean_expired_metadata: bool | None = option(None, flag)
    equal_schemes: tuple[tuple[str, str], ...] = option((), text_map)
    equal_authorities: tuple[tuple[str, str], ...] = option((), text_map)
    approve_above_files: int | None = option(None, whole_number(at_least=0))
    approve_above_bytes: int | None = option(None, whole_number(at_least=0))
    removal_id: str | None = option(None, text, of_request=True)

    def check(self) -> None:
        check_removal_options(self)
        by_age = ExpireSnapshots()
        if self.snapshot_ids and (self.max_age, self.retain_last) != (by_age.max_age, by_age.retain_last):
            raise refused(self, "snapshot_ids", "expires exactly these snapshots: leave max_age and retain_last out")

    def call(self, table: TableName, job_id: str, snapshot_ids: Sequence[int]) -> Call:
        """Return the statement that expires these snapshots, and branches and tags that are past their own age."""
        arguments = {
            "older_than": LONG_AGO,
            "retain_last": KEEP_ALL,
            "snapshot_ids": tuple(snapshot_ids) or None,
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
        expiry = self._expiry(table, planning.now)
        metrics = {
            "expired_snapshots_count": len(expiry.snapshots),
            "kept_snapshots_count": len(expiry.kept),
            "expired_refs_count": len(expiry.refs),
            **_files_of_expired(reader, expiry),
        }
        if not expiry.snapshots:
            return Effect(ActionOutcome.SUCCEEDED, f"Would expire none of {plural(len(expiry.kept), 'snapshot')}", metrics)
        total = len(expiry.snapshots) + len(expiry.kept)
        deleted = sum(count for name, count in metrics.items() if name.startswith("deleted_"))
        message = f"Would expire {len(expiry.snapshots):,} of {plural(total, 'snapshot')} and delete {plural(deleted, 'file')}"
        return Effect(ActionOutcome.SUCCEEDED, message, metrics)

    def nothing_to_do(self, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
        if self.clean_expired_metadata or self.removal_id:
            return None
        table = read().table
        expiry = self._expiry(table, now)
        if expiry.snapshots or expiry.refs:
            return None
        metrics = {"expired_snapshots_count": 0, "expired_refs_count": 0, "kept_snapshots_count": len(expiry.kept)}
        return skip(f"{plural(len(expiry.kept), 'snapshot')}, none of them due to expire", metrics)

    def run(self, run: ActionRun) -> Effect:
        """Plan, and expire the plan.

        :raises RemovalRefused: the table may lose no files.
        :raises SparkInterrupted, SparkFailed: from the procedure.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        from airflow_snowpack.maintenance.removals.running import run_removal
        from airflow_snowpack.maintenance.removals.snapshots import Snapshots

        deletion = Snapshots(
            lambda run, settings, ids: planned_with(self, settings)._expire(run, ids),
            lambda settings: planned_with(self, settings).equal,
        )
        return run_removal(run, deletion, self.removal_id, plan=lambda: self._plan_removal(run))

    def _plan_removal(self, run: ActionRun) -> Removal | Effect:
        from airflow_snowpack.maintenance.removals.running import refuse_protected, removals_of
        from airflow_snowpack.maintenance.removals.snapshots import planned_snapshots, refuse_bound

        table = run.table()
        refuse_protected(table)
        expiry, files, size = self._expiry(table, run.now), None, None
        if self.approve_above_files is not None or self.approve_above_bytes is not None:
            reader = MetadataReader(table)
            files = sum(_files_of_expired(reader, expiry).values())
            manifests, unshared = only_of_expired(reader, expiry)
            size = sum(each.manifest_length for each in manifests) + sum(each.bytes for each in unshared)
        # What is named by its id may be young. Branches and tags keep what they need all the same.
        older_than = run.now + timedelta(days=1) if self.snapshot_ids else run.now - self.max_age
        settings = {**self.to_json(), "expired_refs": list(expiry.refs), "committed_before": older_than.isoformat()}
        settings["retention"] = retention_of(table.properties)
        snapshots = planned_snapshots(table.metadata, expiry.snapshots, run.now)
        removal = removals_of(run).plan(RemovalKind.SNAPSHOTS, table, snapshots, settings=settings, files=files, size=size)
        if removal is None and (expiry.refs or self.clean_expired_metadata):
            refuse_bound(run, table, (), run.now, self.equal)
            self._expire(run, ())
        return removal or Effect(ActionOutcome.SUCCEEDED, "No snapshot was old enough to expire", {EXPIRED: 0})

    def _expire(self, run: ActionRun, ids: Sequence[int]) -> Mapping[str, int]:
        run.session.catalog.refreshTable(run.name.quoted)
        (row,) = run.call(self.call(run.name, run.job_id, ids))
        return {column: int(value or 0) for column, value in row.items()}

    @property
    def equal(self) -> Equalities:
        """Return which spellings of places mean the same, for the comparison with other tables."""
        return Equalities(self.equal_schemes, self.equal_authorities)

    def _expiry(self, table: Table, now: datetime) -> Expiry:
        if self.snapshot_ids:
            return plan_expiry_of(table.metadata, self.snapshot_ids, now=now)
        return plan_expiry(table.metadata, older_than=now - self.max_age, retain_last=self.retain_last, now=now)


def _files_of_expired(reader: MetadataReader, expiry: Expiry) -> dict[str, int]:
    """Count the files that only the expired snapshots use."""
    metadata, (manifests, files) = reader.table.metadata, only_of_expired(reader, expiry)
    kinds = Counter(_content_of(file) for file in files)
    ids = {snapshot.snapshot_id for snapshot in expiry.snapshots}
    return {
        "deleted_data_files_count": kinds["DATA"],
        "deleted_position_delete_files_count": kinds["POSITION_DELETES"],
        "deleted_equality_delete_files_count": kinds["EQUALITY_DELETES"],
        "deleted_manifest_files_count": len(manifests),
        "deleted_manifest_lists_count": len(expiry.snapshots),
        "deleted_statistics_files_count": sum(
            each.snapshot_id in ids for each in (*metadata.statistics, *metadata.partition_statistics)
        ),
    }


def _content_of(file: LiveFile | LiveDelete) -> str:
    if isinstance(file, LiveFile):
        return "DATA"
    return "EQUALITY_DELETES" if file.kind is DeleteKind.EQUALITY else "POSITION_DELETES"
