"""Delete what no reader and no writer needs, in three phases: losing attempts, failed or abandoned runs, old runs.

    cleanup(registry, storage, "flights", Retention(keep_runs=7), dry_run=True)   # the plan
    cleanup(registry, storage, "flights", Retention(keep_runs=7))                 # executes the plan

Invariants: cleanup deletes nothing that a live run or the current build may need, and nothing of runs that are not in the
registry. Each path lies in one run's folder and is planned first; a dry run returns the same plan. A failed deletion does not
stop the others, and the next cleanup tries it again.

The dataset is locked only while runs are chosen and marked as deleted. From then on they cannot be published, resumed or rolled
back to, and no other run gets their names, so publications need not wait for the deletions.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildError, ManifestDamaged, ObjectMissing, StorageFailed
from airflow_snowpack.builds.json_format import read_attempt
from airflow_snowpack.builds.model import CleanupAction, CleanupPhase, Retention, ShardAttemptResult
from airflow_snowpack.builds.pointer import manifest_at
from airflow_snowpack.builds.reconcile import compare, reconcile
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import BuildRun, RunStatus
from airflow_snowpack.builds.registry.retention import CleanupRuns
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Deleted, Storage, StoredObject

log = logging.getLogger(__name__)

DEFAULT = Retention()
RUN_PHASES = (CleanupPhase.STALE_ATTEMPTS, CleanupPhase.OLD_RUNS)
ATTEMPT = re.compile(r"shard=(\d+)/attempt=[^/]*/")


def cleanup(
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    retention: Retention = DEFAULT,
    *,
    dry_run: bool = False,
    holder: str | None = None,
    phases: Iterable[CleanupPhase] = tuple(CleanupPhase),
) -> list[CleanupAction]:
    """Clean up, or return the plan. Losing attempts need no lock: the winners of a published run never change.

    :param holder: the process that locks the dataset, for people.
    :param phases: run only these, in their own order.
    :raises DatasetNotFound: no build of this dataset has ever begun.
    :raises DatasetBusy: another process publishes, rolls back or cleans up.
    :raises StorageFailed: the pointer is unreadable, so the current build is unknown.
    """
    work = _Cleanup(registry, storage, dataset, retention)
    actions = work.losers(dry_run=dry_run) if CleanupPhase.LOSERS in phases else []
    wanted = [phase for phase in RUN_PHASES if phase in phases]
    if not wanted:
        return actions
    if dry_run:
        # As if registry and pointer agreed: the current build counts as published, whatever the registry has recorded.
        current = compare(registry, storage, dataset).publication
        before = frozenset(action.path for action in actions)
        planned = work.chosen(wanted, None if current is None else current.run_id)
        return actions + [action for each in planned for action in work.plan(each, before)]
    with registry.lock(dataset, holder) as lock:
        publication = reconcile(registry, storage, lock).current
        work.delete_half_written_pointers()
        chosen = list(work.chosen(wanted, None if publication is None else publication.run_id, lock))
    return actions + [action for each in chosen for action in work.delete_run(each)]


@dataclass(frozen=True, slots=True)
class _Chosen:
    phase: CleanupPhase
    run: BuildRun
    reason: str


class _Cleanup:
    def __init__(self, registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention) -> None:
        self._registry = registry
        self._clock = registry.store.clock
        self._storage = storage
        self._retention = retention
        self._runs = CleanupRuns(registry.store, dataset)

    def losers(self, *, dry_run: bool) -> list[CleanupAction]:
        now, done = self._clock(), []
        for run in self._runs.with_losers(now):
            actions = _planned(CleanupPhase.LOSERS, run, _losing_attempts(self._storage, run))
            if not dry_run:
                actions = self._delete_all(actions)
                if not any(action.error for action in actions):
                    self._runs.examined(run, now, self._retention.stale_attempt_age)
            done += actions
        return done

    def chosen(self, phases: Iterable[CleanupPhase], current: str | None, lock: DatasetLock | None = None) -> Iterator[_Chosen]:
        """Choose runs to delete, phase by phase. Mark them as deleted if there is a lock; a dry run has none."""
        now, age, keep = self._clock(), self._retention.stale_attempt_age, self._retention.keep_runs
        for phase in phases:
            stale = phase is CleanupPhase.STALE_ATTEMPTS
            runs = self._runs.stale(now, age) if stale else self._runs.beyond(now, keep, current=current)
            for run in runs:
                if run.run_id == current:
                    continue
                if lock is None or self._runs.mark_deleted(lock, run, self._clock(), age):
                    yield _Chosen(phase, run, _stale_reason(run) if stale else f"it is beyond the {keep} newest published runs")
                else:
                    log.info("cleanup_skipped: the run %s of %s has changed", run.run_id, run.dataset)

    def plan(self, chosen: _Chosen, without: frozenset[str] = frozenset()) -> list[CleanupAction]:
        """Plan the deletion of a run, except the attempt folders in ``without``, which the losers phase has planned."""
        return _planned(chosen.phase, chosen.run, _whole_run(self._storage, chosen, without))

    def delete_run(self, chosen: _Chosen) -> list[CleanupAction]:
        now, run = self._clock(), chosen.run
        actions = self._delete_all(self.plan(chosen))
        if any(action.error for action in actions):
            return actions
        if run.status is RunStatus.SUCCEEDED:
            self._runs.gone(run)
        else:
            self._runs.examined(replace(run, status=RunStatus.FAILED), now, self._retention.stale_attempt_age)
        return actions

    def delete_half_written_pointers(self) -> None:
        """Delete pointer files of killed writers: each had the lock, and its lease has expired."""
        before = self._clock() - self._registry.policy.lock_lease
        for half in self._storage.half_written(layout.CURRENT):
            if half.modified is not None and half.modified <= before:
                _log_problems(half.path, self._storage.delete(half.path))

    def _delete_all(self, actions: list[CleanupAction]) -> list[CleanupAction]:
        return [action if action.error is not None else self._delete(action) for action in actions]

    def _delete(self, action: CleanupAction) -> CleanupAction:
        try:
            gone = self._storage.delete(action.path)
        except StorageFailed as error:
            log.warning("cleanup_failed: %s: %s", action.path, error)
            return replace(action, objects=0, bytes=0, error=str(error))
        _log_problems(action.path, gone)
        log.info("cleanup_deleted: %s of %s, %d objects: %s", action.path, action.dataset, gone.objects, action.reason)
        return replace(action, objects=gone.objects, bytes=gone.bytes, error="; ".join(gone.problems) or None)


def _stale_reason(run: BuildRun) -> str:
    if run.status is RunStatus.RUNNING:
        return f"its lease expired at {run.lease_until:%Y-%m-%d %H:%M} UTC"
    if run.deleted_at is not None:
        return "something was written after the failed run was deleted"
    return f"the run failed: {run.error or 'no reason was recorded'}"


def _log_problems(path: str, gone: Deleted) -> None:
    if gone.problems:
        log.warning("cleanup_failed: %s: %s", path, gone.problems[0])


def _planned(phase: CleanupPhase, run: BuildRun, actions: Iterator[CleanupAction]) -> list[CleanupAction]:
    """Return the actions, or one action with the error if the run's objects cannot be listed or read."""
    try:
        return list(actions)
    except BuildError as error:
        folder = layout.run_folder(run.run_id)
        return [CleanupAction(phase, run.dataset, run.run_id, folder, "it could not be read", error=str(error))]


def _losing_attempts(storage: Storage, run: BuildRun) -> Iterator[CleanupAction]:
    """Plan the deletion of attempts that are not in the run's manifest."""
    if run.manifest is None or run.checksum is None:
        raise ManifestDamaged(layout.manifest_folder(run.run_id), "the registry does not know the manifest of this published run")
    shards = manifest_at(storage, run.manifest, run.checksum).shards
    for (shard_id, folder), found in sorted(_attempts(storage, run).items()):
        winner = _winner_folder(storage, shards[shard_id], folder)
        if folder != winner:
            reason = f"the attempt {_name(folder)} at shard {shard_id} lost to {_name(winner)}"
            yield _action(CleanupPhase.LOSERS, run, folder, reason, found, shard_id)


def _whole_run(storage: Storage, chosen: _Chosen, without: Set[str]) -> Iterator[CleanupAction]:
    """Plan the deletion of a whole run: its manifests first, then its data."""
    run = chosen.run
    for folder in (layout.manifest_folder(run.run_id), layout.run_folder(run.run_id)):
        found = [each for each in storage.objects(folder, half_written=True) if _attempt_folder(each.path) not in without]
        if found:
            yield _action(chosen.phase, run, folder, chosen.reason, found)


def _action(
    phase: CleanupPhase, run: BuildRun, path: str, reason: str, found: list[StoredObject], shard_id: int | None = None
) -> CleanupAction:
    size = sum(each.bytes for each in found)
    return CleanupAction(phase, run.dataset, run.run_id, path, reason, shard_id, objects=len(found), bytes=size)


def _attempts(storage: Storage, run: BuildRun) -> dict[tuple[int, str], list[StoredObject]]:
    attempts: dict[tuple[int, str], list[StoredObject]] = defaultdict(list)
    above = layout.run_folder(run.run_id)
    for found in storage.objects(above, half_written=True):
        match = ATTEMPT.match(found.path, len(above))
        if match is not None and int(match[1]) < run.num_shards:
            attempts[int(match[1]), found.path[: match.end()]].append(found)
    return attempts


def _winner_folder(storage: Storage, winner: ShardAttemptResult, attempt: str) -> str:
    """Return the winner's folder. If the winner has no file, return ``attempt`` if its record is the winner's."""
    if winner.url is not None:
        return f"{posixpath.dirname(winner.url)}/"
    record = f"{attempt}{layout.RECORD}"
    try:
        mine = read_attempt(storage.read(record), record) == winner
    except (ObjectMissing, ManifestDamaged):
        mine = False
    return attempt if mine else "another"


def _attempt_folder(path: str) -> str:
    return "/".join(path.split("/", maxsplit=4)[:4]) + "/"


def _name(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2].removeprefix("attempt=")
