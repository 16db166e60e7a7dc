"""Deletes what no reader and no writer needs, in the specification's three phases.

    cleanup(registry, storage, "flights", Retention(keep_runs=7), dry_run=True)   # what it would do
    cleanup(registry, storage, "flights", Retention(keep_runs=7))                 # the same, done

The invariants: nothing that a live or the current run may need is deleted; each path was planned before, and a dry run returns
the same plan; one deletion that fails stops no other, and the next pass finds it again. What only the storage knows, and not the
registry, is left alone: see :func:`strangers`.

The dataset is held only while runs are chosen and doomed. From then on nobody can publish, resume or go back to them, and no
other run ever gets their names; so whoever wants to publish need not wait while thousands of objects are deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup_plan import CleanupLedger, losing_attempts, whole_run
from airflow_snowpack.builds.errors import StorageFailed
from airflow_snowpack.builds.model import BuildRun, CleanupAction, CleanupPhase, Retention, RunStatus
from airflow_snowpack.builds.reconcile import inspect, reconcile
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Deleted, Storage

log = logging.getLogger(__name__)

DEFAULT = Retention()
Chosen = list[tuple[CleanupPhase, BuildRun, str]]


def cleanup(
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    retention: Retention = DEFAULT,
    *,
    dry_run: bool = False,
    holder: str | None = None,
) -> list[CleanupAction]:
    """All three phases, in their order.

    :param holder: who holds the dataset meanwhile, for people who look.
    :raises DatasetNotFound: nothing was ever built under this name.
    :raises DatasetBusy: somebody publishes, rolls back or cleans up.
    :raises StorageFailed: the pointer cannot be read, so that nobody knows what is served.
    """
    actions = cleanup_losers(registry, storage, dataset, retention, dry_run=dry_run)
    before = frozenset(action.path for action in actions)
    choices = (_stale, _old)
    return actions + _runs(choices, registry, storage, dataset, retention, dry_run=dry_run, holder=holder, before=before)


def cleanup_losers(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 1: the losing attempts of published runs. It needs no lock, as a published run's winners never change."""
    ledger, now = CleanupLedger(registry.store, dataset), registry.store.clock()
    done = []
    for run in ledger.with_losers(now):
        actions = losing_attempts(storage, run)
        if not dry_run:
            actions = _delete(storage, actions)
            if not any(action.error for action in actions):
                ledger.looked_at(run, now, retention.stale_attempt_age)
        done += actions
    return done


def cleanup_stale_attempts(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 2: everything of runs that failed, or that whoever began them has left. A run with a live lease is never touched."""
    return _runs((_stale,), registry, storage, dataset, retention, dry_run=dry_run)


def cleanup_old_runs(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 3: data and manifests of published runs beyond those that are kept. The current one is never touched."""
    return _runs((_old,), registry, storage, dataset, retention, dry_run=dry_run)


def _runs(
    choices: Iterable[Callable[[_Scene], Chosen]],
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    retention: Retention,
    *,
    dry_run: bool,
    holder: str | None = None,
    before: frozenset[str] = frozenset(),
) -> list[CleanupAction]:
    if dry_run:
        # As if registry and pointer agreed already: what is served counts as published, whatever the registry knows of it.
        served = inspect(registry, storage, dataset).publication
        scene = _Scene(registry, storage, dataset, retention, served.run_id if served is not None else None, before)
        return [action for choose in choices for chosen in choose(scene) for action in scene.actions(*chosen)]
    with registry.lock(dataset, holder) as lock:
        standing = reconcile(registry, storage, lock)
        scene = _Scene(registry, storage, dataset, retention, standing.current.run_id if standing.current is not None else None)
        _delete_half_pointers(scene)
        doomed = [chosen for choose in choices for chosen in choose(scene) if _doom(scene, lock, chosen[1])]
    return [action for chosen in doomed for action in _delete_run(scene, *chosen)]


@dataclass(frozen=True, slots=True)
class _Scene:
    """What the phases look at.

    :param served: the run that the pointer stands on.
    :param before: the folders that phase 1 would have deleted by now.
    """

    registry: BuildRegistry
    storage: Storage
    dataset: str
    retention: Retention
    served: str | None
    before: frozenset[str] = frozenset()

    @property
    def ledger(self) -> CleanupLedger:
        return CleanupLedger(self.registry.store, self.dataset)

    def chosen(self, phase: CleanupPhase, runs: Iterable[BuildRun], why: Callable[[BuildRun], str]) -> Chosen:
        return [(phase, run, why(run)) for run in runs if run.run_id != self.served]

    def actions(self, phase: CleanupPhase, run: BuildRun, why: str) -> list[CleanupAction]:
        return whole_run(phase, self.storage, run, why, without=self.before)


def _stale(scene: _Scene) -> Chosen:
    stale = scene.ledger.stale(scene.registry.store.clock(), scene.retention.stale_attempt_age)
    return scene.chosen(CleanupPhase.STALE_ATTEMPTS, stale, _why_stale)


def _old(scene: _Scene) -> Chosen:
    keep = scene.retention.keep_runs
    old = scene.ledger.beyond(scene.registry.store.clock(), keep, served=scene.served)
    return scene.chosen(CleanupPhase.OLD_RUNS, old, lambda _: f"it is beyond the {keep} newest published runs")


def _why_stale(run: BuildRun) -> str:
    if run.status is RunStatus.RUNNING:
        return f"nobody has held the run since {run.lease_until:%Y-%m-%d %H:%M} UTC"
    if run.deleted_at is not None:
        return "something was written after the failed run had been deleted"
    return f"the run failed: {run.error or 'nobody said why'}"


def _delete_half_pointers(scene: _Scene) -> None:
    """What those left who were killed while they set the pointer. Whoever wrote it had the dataset, and has not by now."""
    before = scene.registry.store.clock() - scene.registry.policy.lock_lease
    for half in scene.storage.half_written(layout.CURRENT):
        if half.modified is not None and half.modified <= before:
            _log_problems(half.path, scene.storage.delete(half.path))


def _log_problems(path: str, gone: Deleted) -> None:
    if gone.problems:
        log.warning("cleanup_failed: %s: %s", path, gone.problems[0])


def _doom(scene: _Scene, lock: DatasetLock, run: BuildRun) -> bool:
    if scene.ledger.doom(lock, run, scene.registry.store.clock(), scene.retention.stale_attempt_age):
        return True
    log.info("cleanup_skipped: the run %s of %s is not what it was", run.run_id, run.dataset)
    return False


def _delete_run(scene: _Scene, phase: CleanupPhase, run: BuildRun, why: str) -> list[CleanupAction]:
    now = scene.registry.store.clock()
    actions = _delete(scene.storage, scene.actions(phase, run, why))
    if any(action.error for action in actions):
        return actions
    if run.status is RunStatus.SUCCEEDED:
        scene.ledger.gone(run)
    else:
        scene.ledger.looked_at(replace(run, status=RunStatus.FAILED), now, scene.retention.stale_attempt_age)
    return actions


def _delete(storage: Storage, actions: Iterable[CleanupAction]) -> list[CleanupAction]:
    return [action if action.error is not None else _deleted(storage, action) for action in actions]


def _deleted(storage: Storage, action: CleanupAction) -> CleanupAction:
    try:
        gone = storage.delete(action.path)
    except StorageFailed as error:
        log.warning("cleanup_failed: %s: %s", action.path, error)
        return replace(action, objects=0, bytes=0, error=str(error))
    _log_problems(action.path, gone)
    log.info("cleanup_deleted: %s of %s, %d objects: %s", action.path, action.dataset, gone.objects, action.reason)
    return replace(action, objects=gone.objects, bytes=gone.bytes, error="; ".join(gone.problems) or None)


def strangers(registry: BuildRegistry, storage: Storage, dataset: str) -> list[str]:
    """Folders with objects that no run of the registry accounts for. They are never deleted by themselves: somebody has to look.

    It lists the storage and the registry in full, and is therefore no part of a cleanup.
    """
    known = CleanupLedger(registry.store, dataset).accounted_for()
    found = []
    for above, folder in ((layout.MANIFESTS, layout.manifest_folder), (layout.DATA, layout.run_folder)):
        for run_id in storage.folders(above):
            path = folder(run_id)
            if run_id not in known and next(iter(storage.objects(path)), None) is not None:
                found.append(path)
    return found
