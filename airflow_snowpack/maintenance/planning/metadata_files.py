"""Whether to rewrite manifests, expire snapshots and look for orphan files now."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.humanize import duration, number, plural, timestamp
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.health.model import moment
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.actions.expire_snapshots import ExpireSnapshots
from airflow_snowpack.maintenance.expiry import MAIN, MAX_REF_AGE_PROPERTY, plan_expiry
from airflow_snowpack.maintenance.plan import GC_PROPERTY
from airflow_snowpack.maintenance.planning.finding import Finding
from airflow_snowpack.maintenance.planning.model import Cause, Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from airflow_snowpack.iceberg.health import TableHealth
    from airflow_snowpack.maintenance.planning.finding import Case

MERGE_PROPERTY, MERGED_FROM_PROPERTY = "commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge"
MERGED_FROM = 100
"""Iceberg's default: a commit merges the manifests if it finds so many, with its own."""
FILES_PER_SNAPSHOT = 2
"""Before any outcome: an expired snapshot frees its manifest list and a manifest."""


def find_manifests(case: Case) -> Finding:
    """Return what ``rewrite_manifests`` would do, after the rewrites of the same plan."""
    health = case.health
    small, threshold = health.small_manifests, case.threshold("small_manifests")
    target = manifest_target(health.properties)
    kinds = (
        _left_by(case, Action.REWRITE_DATA_FILES, health.data_manifests),
        0 if _drops_deletes(case) else _left_by(case, Action.REWRITE_POSITION_DELETE_FILES, health.delete_manifests),
    )
    manifests = health.data_manifests + health.delete_manifests
    metrics = {"manifests": manifests, "small_manifests": small}
    if small < 2 or max(kinds) < 2:
        merged = "; the rewrite of files merges them" if small > 1 and sum(kinds) < manifests else ""
        return Finding(f"{plural(manifests, 'manifest')}, {number(small)} of them small{merged}", metrics)
    shares = (health.manifests_bytes * each // sum(kinds) for each in kinds)
    outputs = sum(-(-share // target) for share in shares)
    return Finding(
        f"{number(small)} of {plural(manifests, 'manifest')} small; threshold {number(threshold)}",
        metrics,
        Estimate(sum(each for each in kinds if each > 1), outputs),
        min(small, sum(kinds)) >= threshold,
        commits=1,
    )


def _left_by(case: Case, action: str, manifests: int) -> int:
    """Return how many manifests of one kind there are after an earlier action of the plan.

    Each of its commits writes one; the first that finds enough of them merges all, as Iceberg does in every commit.
    """
    health, commits = case.health, case.before[action].commits if action in case.before else 0
    merging = max(_merged_from(health.properties) - manifests, 1)
    if merging > commits:
        return manifests + commits
    total = health.data_manifests + health.delete_manifests
    merged = -(-health.manifests_bytes * manifests // max(total, 1) // manifest_target(health.properties))
    return max(merged, 1) + commits - merging


def _merged_from(properties: Mapping[str, str]) -> int:
    """Return from how many manifests on a commit merges them."""
    if properties.get(MERGE_PROPERTY, "true").lower() == "false":
        return sys.maxsize
    text = properties.get(MERGED_FROM_PROPERTY, "")
    return int(text) if text.isdecimal() else MERGED_FROM


def _drops_deletes(case: Case) -> bool:
    """Whether an earlier action of the plan rewrites all data files: no delete file applies to the new ones."""
    data = case.before.get(Action.REWRITE_DATA_FILES)
    return data is not None and data.work is not None and data.work.files_removed == case.health.data_files


def find_snapshots(case: Case) -> Finding:
    """Return what ``expire_snapshots`` would do."""
    health, options = case.health, case.own.options
    assert isinstance(options, ExpireSnapshots)
    if _is_protected(health):
        return _protected()
    total, cutoff = len(health.snapshots), case.now - options.max_age
    oldest, metrics = health.snapshots.oldest_at, {"snapshots": len(health.snapshots), "expired_snapshots": 0}
    new = sum(finding.commits for finding in case.before.values())
    aged_refs = any(ref.max_ref_age_ms or ref.max_snapshot_age_ms for ref in health.refs)
    expired = 0
    if aged_refs or (oldest is not None and oldest < cutoff):
        stored = _Snapshots.of(health, new, case.now)
        expired = len(plan_expiry(stored, older_than=cutoff, retain_last=options.retain_last, now=case.now).snapshots)
    threshold = case.threshold("old_snapshots")
    at = None if total <= options.retain_last else _when_old(health, cutoff, max(int(threshold) - expired, 1), options.max_age)
    if not expired:
        return Finding(f"{plural(total, 'snapshot')}, none of them due to expire", metrics, reconsider_at=at)
    return Finding(
        f"{number(expired)} of {plural(total, 'snapshot')} older than {duration(options.max_age)}; threshold {number(threshold)}",
        {**metrics, "expired_snapshots": expired},
        Estimate(expired * FILES_PER_SNAPSHOT, bytes_freed=health.expirable_bytes or 0, snapshots_expired=expired),
        expired >= threshold,
        reconsider_at=at,
    )


def _when_old(health: TableHealth, cutoff: datetime, missing: int, max_age: timedelta) -> datetime | None:
    """Return when so many more snapshots are old, or all of them; ``None``: all are now."""
    young = sorted(each for each in health.snapshots.committed_ms if each >= cutoff.timestamp() * 1000)
    return moment(young[min(missing, len(young)) - 1]) + max_age if young else None


def find_orphans(case: Case) -> Finding:
    """Return whether the storage should be listed for orphan files: no metadata shows whether there are any."""
    if _is_protected(case.health):
        return _protected()
    last = case.record.last_success_at
    searched = "never searched for orphan files" if last is None else f"last searched for orphan files at {timestamp(last)}"
    return by_time(case, searched)


def by_time(case: Case, evidence: str) -> Finding:
    """Return the finding of an action whose need no metadata shows: it runs by its deadline; without one, at its cadence."""
    return Finding(evidence, work=Estimate(), needed=case.own.deadline is None)


def _is_protected(health: TableHealth) -> bool:
    return str(health.properties.get(GC_PROPERTY, "true")).lower() == "false"


def _protected() -> Finding:
    evidence = f"the table's property {GC_PROPERTY} is false, so Iceberg deletes no files of it"
    return Finding(evidence, hindrance=Cause.PROTECTED)


class _Snapshot(NamedTuple):
    snapshot_id: int
    parent_snapshot_id: int | None
    timestamp_ms: int


class _Ref(NamedTuple):
    snapshot_id: int
    snapshot_ref_type: str
    max_ref_age_ms: int | None
    max_snapshot_age_ms: int | None
    min_snapshots_to_keep: int | None


@dataclass(frozen=True, slots=True)
class _Snapshots:
    """The stored snapshots and refs, as ``plan_expiry`` reads them from a table's metadata."""

    refs: dict[str, _Ref]
    snapshots: list[_Snapshot]
    by_id: dict[int, _Snapshot]
    properties: Any

    @classmethod
    def of(cls, health: TableHealth, new: int, now: datetime) -> Any:
        """:param new: how many commits the same plan makes before; the snapshot that is now the newest may then expire."""
        log = health.snapshots
        snapshots = list(map(_Snapshot, log.ids, log.parents, log.committed_ms))
        ages = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
        refs = {ref.name: _Ref(ref.snapshot_id, ref.kind, *(getattr(ref, age) for age in ages)) for ref in health.refs}
        for commit in range(1, new + 1) if MAIN in refs else ():
            snapshots.append(_Snapshot(-commit, refs[MAIN].snapshot_id, int(now.timestamp() * 1000)))
            refs[MAIN] = refs[MAIN]._replace(snapshot_id=-commit)
        # Iceberg refuses an age that is not a number when it runs; that is no reason not to plan the table.
        age = health.properties.get(MAX_REF_AGE_PROPERTY, "")
        properties = {MAX_REF_AGE_PROPERTY: age} if age.isdecimal() else {}
        return cls(refs, snapshots, {each.snapshot_id: each for each in snapshots}, properties)

    def snapshot_by_id(self, snapshot_id: int) -> _Snapshot | None:
        return self.by_id.get(snapshot_id)
