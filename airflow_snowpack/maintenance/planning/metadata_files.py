"""Whether to rewrite manifests, expire snapshots and look for orphan files now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_snowpack.humanize import duration, number, plural, timestamp
from airflow_snowpack.iceberg.health.bounds import manifest_target
from airflow_snowpack.iceberg.health.model import moment
from airflow_snowpack.iceberg.table_properties import MAX_REF_AGE
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.actions.expire_snapshots import ExpireSnapshots
from airflow_snowpack.maintenance.expiry import MAIN, plan_expiry
from airflow_snowpack.maintenance.planning.commits import dropped_by_commits, manifests_left
from airflow_snowpack.maintenance.planning.finding import Finding
from airflow_snowpack.maintenance.planning.model import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_snowpack.iceberg.health import TableHealth
    from airflow_snowpack.maintenance.planning.finding import Case

REFS_CHECKED = timedelta(days=1)
"""After so long, snapshots may be due to expire by the own age of a branch or tag."""


def find_manifests(case: Case) -> Finding:
    """Return what ``rewrite_manifests`` would do, after the rewrites of the same plan."""
    health = case.health
    small, threshold = health.small_manifests, case.threshold("small_manifests")
    target = manifest_target(health.properties)
    counts = (
        manifests_left(case, Action.REWRITE_DATA_FILES),
        manifests_left(case, Action.REWRITE_POSITION_DELETE_FILES),
    )
    kinds, live = zip(*counts, strict=True)
    manifests = health.data_manifests + health.delete_manifests
    metrics, is_after = {"manifests": manifests, "small_manifests": small}, any(each.commits for each in case.before.values())
    if small < 2 or max(live) < 2:
        why = "; the rewrite of files replaces them" if is_after else "; those of older partition specs stay"
        rest = why if small > 1 and sum(live) < manifests else ""
        return Finding(f"{plural(manifests, 'manifest')}, {number(small)} of them small{rest}", metrics)
    shares = (health.manifests_bytes * each // sum(kinds) for each in kinds if each > 1)
    outputs = sum(-(-share // target) for share in shares)
    left = min(small, sum(live))
    which = "after the rewrite of files" if is_after else "of the current partition spec"
    rest = f", {number(left)} {which}" if left < small else ""
    return Finding(
        f"{number(small)} of {plural(manifests, 'manifest')} small{rest}; threshold {number(threshold)}",
        metrics,
        Estimate(sum(each for each in kinds if each > 1), outputs),
        left >= threshold,
        commits=1,
    )


def find_snapshots(case: Case) -> Finding:
    """Return what ``expire_snapshots`` would do."""
    health, options = case.health, case.own.options
    assert isinstance(options, ExpireSnapshots)
    total, cutoff = len(health.snapshots), case.now - options.max_age
    oldest, metrics = health.snapshots.oldest_at, {"snapshots": len(health.snapshots), "expired_snapshots": 0}
    aged_refs = any(ref.max_ref_age_ms or ref.max_snapshot_age_ms for ref in health.refs) or (
        len(health.refs) > 1 and MAX_REF_AGE in health.properties
    )
    expired = freed = freed_bytes = 0
    if aged_refs or (oldest is not None and oldest < cutoff):
        stored = _Snapshots.of(health, dropped_by_commits(case), case.now)
        expiry = plan_expiry(stored, older_than=cutoff, retain_last=options.retain_last, now=case.now)
        expired, (freed, freed_bytes) = len(expiry.snapshots), stored.freed({each.snapshot_id for each in expiry.snapshots})
    threshold = case.threshold("old_snapshots")
    at = None if total <= options.retain_last else _when_old(health, cutoff, max(int(threshold) - expired, 1), options.max_age)
    if aged_refs:
        at = min(at or case.now + REFS_CHECKED, case.now + REFS_CHECKED)
    if not expired:
        return Finding(f"{plural(total, 'snapshot')}, none of them due to expire", metrics, reconsider_at=at)
    return Finding(
        f"{number(expired)} of {plural(total, 'snapshot')} older than {duration(options.max_age)}; threshold {number(threshold)}",
        {**metrics, "expired_snapshots": expired},
        Estimate(freed, bytes_freed=(health.expirable_bytes or 0) + freed_bytes, snapshots_expired=expired),
        expired >= threshold,
        reconsider_at=at,
    )


def _when_old(health: TableHealth, cutoff: datetime, missing: int, max_age: timedelta) -> datetime | None:
    """Return when so many more snapshots are old, or all of them; ``None``: all are now."""
    young = sorted(each for each in health.snapshots.committed_ms if each >= cutoff.timestamp() * 1000)
    return moment(young[min(missing, len(young)) - 1]) + max_age if young else None


def find_orphans(case: Case) -> Finding:
    """Return whether the storage should be listed for orphan files: no metadata shows whether there are any."""
    last = case.record.last_success_at
    searched = "never searched for orphan files" if last is None else f"last searched for orphan files at {timestamp(last)}"
    return by_time(case, searched)


def by_time(case: Case, evidence: str) -> Finding:
    """Return the finding of an action whose need no metadata shows: it runs by its deadline; without one, at its cadence."""
    return Finding(evidence, work=Estimate(), needed=case.own.deadline is None)


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
    """The stored snapshots and refs, as ``plan_expiry`` reads them from a table's metadata."""

    refs: dict[str, _Ref]
    snapshots: list[_Snapshot]
    by_id: dict[int, _Snapshot]
    properties: Any

    @classmethod
    def of(cls, health: TableHealth, new: Sequence[tuple[int, int]], now: datetime) -> Any:
        """:param new: what each commit of the same plan drops; the snapshot that is now the newest may then expire."""
        just_before = int(now.timestamp() * 1000) - 1  # the expiry, which without a least age takes the commits of its plan too
        log = health.snapshots
        snapshots = list(map(_Snapshot, log.ids, log.parents, log.committed_ms, log.added or repeat(0), log.dropped or repeat(0)))
        ages = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
        refs = {ref.name: _Ref(ref.snapshot_id, ref.kind, *(getattr(ref, age) for age in ages)) for ref in health.refs}
        for commit, dropped in enumerate(new if MAIN in refs else (), 1):
            snapshots.append(_Snapshot(-commit, refs[MAIN].snapshot_id, just_before, 0, *dropped))
            refs[MAIN] = refs[MAIN]._replace(snapshot_id=-commit)
        return cls(refs, snapshots, {each.snapshot_id: each for each in snapshots}, health.properties)

    def snapshot_by_id(self, snapshot_id: int) -> _Snapshot | None:
        return self.by_id.get(snapshot_id)

    def freed(self, expired: set[int]) -> tuple[int, int]:
        """Return how many files only these snapshots need: what the snapshots after them drop, and their manifest lists.

        Between two snapshots that stay, it is at most what was added in between.

        :return: the number, and the bytes of the files that the commits of the same plan drop.
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
