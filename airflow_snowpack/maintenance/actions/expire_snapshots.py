"""Expire snapshots. Iceberg always keeps what branches and tags need; no option can change that.

The plan follows Iceberg's rules, see :mod:`airflow_snowpack.maintenance.expiry`. The store keeps its list of snapshots as a
removal, and exactly these expire, see :mod:`airflow_snowpack.maintenance.removals`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from airflow_snowpack.humanize import duration as in_words, number, plural
from airflow_snowpack.iceberg import DeleteKind, Equalities, LiveDelete, LiveFile, MetadataReader
from airflow_snowpack.iceberg.health import TableHealth
from airflow_snowpack.iceberg.health.model import moment
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import DEFAULTS, MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, age_of, retention_of
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
from airflow_snowpack.maintenance.expiry import (
    KEEP_ALL,
    LONG_AGO,
    MAIN,
    Expiry,
    only_of_expired,
    plan_expiry,
    plan_expiry_of,
)
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import refused_plan, skip
from airflow_snowpack.maintenance.planning.commits import dropped_by_commits
from airflow_snowpack.maintenance.planning.finding import Estimate, Facts, Finding, Rate, Threshold
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, ids, text, text_map, whole_number
from airflow_snowpack.maintenance.removals.model import Removal, RemovalKind
from airflow_snowpack.maintenance.removals.options import check_removal_options, planned_with
from airflow_snowpack.maintenance.removals.running import refuse_protected, removals_of, run_removal
from airflow_snowpack.maintenance.removals.snapshots import Snapshots, planned_snapshots, refuse_bound

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.state import Dead, SimulatedTable


EXPIRED = "expired_snapshots_count"
REFS_CHECKED = timedelta(days=1)
"""The interval of checks whether snapshots expire by the age of a branch or tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(ActionOptions):
    """Expire old snapshots and delete the files that only they used. What branches and tags need stays.

    :param max_age: snapshots up to this age stay; by default, the table's ``history.expire.max-snapshot-age-ms``, or 5 days.
    :param retain_last: this many stay whatever their age; by default, the table's ``history.expire.min-snapshots-to-keep``, or 3.
    :param stream_results: do not hold the list of deleted files in the driver's memory.
    :param max_concurrent_deletes: threads that delete files; by default, Iceberg's number.
    :param snapshot_ids: expire exactly these, whatever their age.
    :param clean_expired_metadata: also remove partition specs and schemas that no snapshot uses; off by default.
    :param equal_schemes: schemes that mean the same, such as ``{"s3a,s3n": "s3"}``, when files of other tables are compared.
    :param equal_authorities: hosts that mean the same; any others are different.
    :param approve_above_files: require an approval if more files would be deleted; 0: always.
    :param approve_above_bytes: require an approval if more bytes would be deleted; 0: always.
    :param removal_id: expire the snapshots of this approved list.
    """

    action: ClassVar[str] = Action.EXPIRE_SNAPSHOTS
    thresholds: ClassVar[Mapping[str, Threshold]] = {"old_snapshots": Threshold(20, "Snapshots that are old enough to expire.")}
    rate: ClassVar[Rate] = Rate(3.0, per_file=0.005)
    enabled: ClassVar[bool] = True

    max_age: timedelta = option(age_of(DEFAULTS[MAX_SNAPSHOT_AGE]), duration(at_least=timedelta(0)))
    retain_last: int = option(DEFAULTS[MIN_SNAPSHOTS], whole_number(at_least=1, at_most=2**31 - 1))
    stream_results: bool = option(True, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    snapshot_ids: tuple[int, ...] = option((), ids, of_request=True, of_table=True)
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

    def check_table(self, table: Table, name: str) -> None:
        known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        heads = {ref.snapshot_id: ref_name for ref_name, ref in table.metadata.refs.items()}
        for snapshot_id in self.snapshot_ids:
            # Iceberg ignores unknown ids.
            if snapshot_id not in known:
                raise refused(self, "snapshot_ids", f"names {snapshot_id}, and {name} has no such snapshot")
            if snapshot_id in heads:
                raise refused(self, "snapshot_ids", f"names {snapshot_id}, which {heads[snapshot_id]!r} of {name} refers to")

    def call(self, table: TableName, snapshot_ids: Sequence[int]) -> ProcedureCall:
        """Return the statement that expires these snapshots, and branches and tags by their age."""
        arguments = {
            "older_than": LONG_AGO,
            "retain_last": KEEP_ALL,
            "snapshot_ids": tuple(snapshot_ids) or None,
            "clean_expired_metadata": self.clean_expired_metadata,
            "stream_results": self.stream_results,
            "max_concurrent_deletes": self.max_concurrent_deletes,
        }
        return procedure_call(table, self.action, arguments)

    def find(self, facts: Facts) -> Finding:
        health = facts.health
        total, cutoff = len(health.snapshots), facts.now - self.max_age
        oldest, metrics = health.snapshots.oldest_at, {"snapshots": len(health.snapshots), "expired_snapshots": 0}
        aged_refs = any(ref.max_ref_age_ms or ref.max_snapshot_age_ms for ref in health.refs) or (
            len(health.refs) > 1 and MAX_REF_AGE in health.properties
        )
        expired = freed = freed_bytes = 0
        if aged_refs or (oldest is not None and oldest < cutoff):
            stored = _Snapshots.of(health, dropped_by_commits(facts), facts.now)
            expiry = self.expiry(stored, facts.now)
            expired, (freed, freed_bytes) = len(expiry.snapshots), stored.freed({each.snapshot_id for each in expiry.snapshots})
        threshold = facts.thresholds["old_snapshots"]
        at = None if total <= self.retain_last else _when_old(health, cutoff, max(int(threshold) - expired, 1), self.max_age)
        if aged_refs:
            at = min(at or facts.now + REFS_CHECKED, facts.now + REFS_CHECKED)
        if not expired:
            return Finding(f"{plural(total, 'snapshot')}, none of them due to expire", metrics, reconsider_at=at)
        counts = f"{number(expired)} of {plural(total, 'snapshot')} older than {in_words(self.max_age)}"
        return Finding(
            f"{counts}; threshold {number(threshold)}",
            {**metrics, "expired_snapshots": expired},
            Estimate(freed, bytes_freed=(health.expirable_bytes or 0) + freed_bytes, snapshots_expired=expired),
            expired >= threshold,
            reconsider_at=at,
        )

    def simulate(self, state: SimulatedTable, now: datetime, partitions: Collection[PartitionKey] | None) -> Estimate:
        """Expire snapshots by age, and free the files that only they needed; branches and tags keep theirs."""
        expiry = self.expiry(_Snapshots.simulated(state, now), now)
        staying = {each.snapshot_id for each in expiry.kept}
        kept = [each for each in state.snapshots if each.snapshot_id in staying]
        numbers = [each.number for each in kept]
        needed: list[Dead] = []
        freed: list[Dead] = []
        for file in state.dead:
            place = bisect_left(numbers, file.born)
            (needed if place < len(numbers) and numbers[place] < file.died else freed).append(file)
        state.expire(kept, needed)
        size, expired = sum(each.bytes for each in freed), len(expiry.snapshots)
        return Estimate(files_removed=len(freed), bytes_freed=size, snapshots_expired=expired)

    def plan(self, planning: PlanningContext) -> ActionEffect:
        if self.removal_id:
            return refused_plan(f"a list is shown by: airflow snowpack removals show {self.removal_id} --items")
        expiry = self.expiry(planning.reader.table.metadata, planning.now)
        metrics = {
            "expired_snapshots_count": len(expiry.snapshots),
            "kept_snapshots_count": len(expiry.kept),
            "expired_refs_count": len(expiry.refs),
            **_files_of_expired(planning.reader, expiry),
        }
        if not expiry.snapshots:
            return ActionEffect(ActionOutcome.SUCCEEDED, f"Would expire none of {plural(len(expiry.kept), 'snapshot')}", metrics)
        total = len(expiry.snapshots) + len(expiry.kept)
        deleted = sum(count for name, count in metrics.items() if name.startswith("deleted_"))
        message = f"Would expire {len(expiry.snapshots):,} of {plural(total, 'snapshot')} and delete {plural(deleted, 'file')}"
        return ActionEffect(ActionOutcome.SUCCEEDED, message, metrics)

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        expiry = self.expiry(planning.reader.table.metadata, planning.now)
        if self.clean_expired_metadata or expiry.snapshots or expiry.refs:
            return None
        metrics = {"expired_snapshots_count": 0, "expired_refs_count": 0, "kept_snapshots_count": len(expiry.kept)}
        return skip(f"{plural(len(expiry.kept), 'snapshot')}, none of them due to expire", metrics)

    def run(self, run: ActionRun) -> ActionEffect:
        """Plan, and expire exactly the plan.

        :raises RemovalRefused: the table may lose no files.
        :raises SparkInterrupted, SparkFailed: from the procedure.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        deletion = Snapshots(
            lambda run, settings, ids: planned_with(self, settings)._expire(run, ids),
            lambda settings: planned_with(self, settings).equal,
        )
        return run_removal(run, deletion, self.removal_id, plan=lambda: self._plan_removal(run))

    def _plan_removal(self, run: ActionRun) -> Removal | ActionEffect:
        table = run.table()
        refuse_protected(table)
        expiry, files, size = self.expiry(table.metadata, run.now), None, None
        if self.approve_above_files is not None or self.approve_above_bytes is not None:
            reader = MetadataReader(table)
            files = sum(_files_of_expired(reader, expiry).values())
            manifests, unshared = only_of_expired(reader, expiry)
            size = sum(each.manifest_length for each in manifests) + sum(each.bytes for each in unshared)
        # Snapshots named by id may be of any age; branches and tags still keep theirs.
        older_than = run.now + timedelta(days=1) if self.snapshot_ids else run.now - self.max_age
        settings = {**self.to_json(), "expired_refs": list(expiry.refs), "committed_before": older_than.isoformat()}
        settings["retention"] = retention_of(table.properties)
        snapshots = planned_snapshots(table.metadata, expiry.snapshots, run.now)
        removal = removals_of(run).plan(RemovalKind.SNAPSHOTS, table, snapshots, settings=settings, files=files, size=size)
        if removal is None and (expiry.refs or self.clean_expired_metadata):
            refuse_bound(run, table, (), run.now, self.equal)
            self._expire(run, ())
        return removal or ActionEffect(ActionOutcome.SUCCEEDED, "No snapshot was old enough to expire", {EXPIRED: 0})

    def _expire(self, run: ActionRun, ids: Sequence[int]) -> Mapping[str, int]:
        run.refresh()
        (row,) = run.call(self.call(run.name, ids))
        return {column: int(value or 0) for column, value in row.items()}

    @property
    def equal(self) -> Equalities:
        """Which spellings of a location mean the same when tables are compared."""
        return Equalities(self.equal_schemes, self.equal_authorities)

    def expiry(self, metadata: TableMetadata, now: datetime) -> Expiry:
        """Return which snapshots of a table expire by Iceberg's rules."""
        if self.snapshot_ids:
            return plan_expiry_of(metadata, self.snapshot_ids, now=now)
        return plan_expiry(metadata, older_than=now - self.max_age, retain_last=self.retain_last, now=now)


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


def _when_old(health: TableHealth, cutoff: datetime, missing: int, max_age: timedelta) -> datetime | None:
    """Return when this many more snapshots, or all, will be old; ``None`` if all are old now."""
    young = sorted(each for each in health.snapshots.committed_ms if each >= cutoff.timestamp() * 1000)
    return moment(young[min(missing, len(young)) - 1]) + max_age if young else None


def _just_before(now: datetime) -> int:
    """Return the time of commits of the same plan, in ms: without a minimum age, the expiry includes them."""
    return int(now.timestamp() * 1000) - 1


class _Snapshot(NamedTuple):
    snapshot_id: int
    parent_snapshot_id: int | None
    timestamp_ms: int
    added: int = 0
    dropped: int = 0
    dropped_bytes: int = 0


class _Ref(NamedTuple):
    snapshot_id: int
    snapshot_ref_type: str
    max_ref_age_ms: int | None
    max_snapshot_age_ms: int | None
    min_snapshots_to_keep: int | None


@dataclass(frozen=True, slots=True)
class _Snapshots:
    """The stored snapshots and refs, with the attributes of metadata that ``plan_expiry`` reads."""

    refs: Mapping[str, _Ref | SnapshotRef]
    snapshots: list[_Snapshot]
    by_id: dict[int, _Snapshot]
    properties: Any

    @classmethod
    def of(cls, health: TableHealth, new: Sequence[tuple[int, int]], now: datetime) -> Any:
        """:param new: what each commit of the same plan drops; then the snapshot that is newest now may expire."""
        just_before = _just_before(now)
        log = health.snapshots
        snapshots = list(map(_Snapshot, log.ids, log.parents, log.committed_ms, log.added or repeat(0), log.dropped or repeat(0)))
        ages = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
        refs = {ref.name: _Ref(ref.snapshot_id, ref.kind, *(getattr(ref, age) for age in ages)) for ref in health.refs}
        for commit, dropped in enumerate(new if MAIN in refs else (), 1):
            snapshots.append(_Snapshot(-commit, refs[MAIN].snapshot_id, just_before, 0, *dropped))
            refs[MAIN] = refs[MAIN]._replace(snapshot_id=-commit)
        return cls(refs, snapshots, {each.snapshot_id: each for each in snapshots}, health.properties)

    @classmethod
    def simulated(cls, state: SimulatedTable, now: datetime) -> Any:
        """Return the snapshots of a simulated table, which only has ``main``."""
        ids, latest = [each.snapshot_id for each in state.snapshots], _just_before(now)
        committed = [min(round(each.at.timestamp() * 1000), latest) for each in state.snapshots]
        snapshots = list(map(_Snapshot, ids, (None, *ids), committed))
        refs = dict(state.table.metadata.refs)
        refs[MAIN] = refs[MAIN].model_copy(update={"snapshot_id": snapshots[-1].snapshot_id})
        return cls(refs, snapshots, {each.snapshot_id: each for each in snapshots}, state.table.properties)

    def freed(self, expired: set[int]) -> tuple[int, int]:
        """Return how many files only these snapshots need, and the bytes of those that commits of the same plan drop.

        Manifest lists count, and files that later snapshots drop; between two snapshots that stay, at most those added there.
        """
        freed, size, seen = len(expired), 0, set[int]()
        for each in self.snapshots:
            if each.snapshot_id in expired:
                continue
            dropped, dropped_bytes, added, at = each.dropped, each.dropped_bytes, 0, self._parent(each)
            if at is None or at.snapshot_id not in expired:
                continue
            while at is not None and at.snapshot_id in expired and at.snapshot_id not in seen:
                seen.add(at.snapshot_id)
                added, parent = added + at.added, self._parent(at)
                if parent is not None and parent.snapshot_id in expired:
                    dropped += at.dropped
                    dropped_bytes += at.dropped_bytes
                at = parent
            freed += dropped if at is None else min(dropped, added)
            size += dropped_bytes if at is None else 0
        return freed, size

    def _parent(self, snapshot: _Snapshot) -> _Snapshot | None:
        return None if snapshot.parent_snapshot_id is None else self.by_id.get(snapshot.parent_snapshot_id)
