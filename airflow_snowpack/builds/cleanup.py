"""Deletes what no reader and no writer needs, in the specification's three phases.

    cleanup(registry, storage, "flights", Retention(keep_runs=7), dry_run=True)   # what it would do
    cleanup(registry, storage, "flights", Retention(keep_runs=7))                 # the same, done

The invariants: nothing that a live or the current run may need is deleted; each path was planned before, and a dry run returns
the same plan; one deletion that fails stops no other, and the next pass finds it again. What only the storage knows, and not the
registry, is left alone: see :func:`strangers`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup_ledger import CleanupLedger
from airflow_snowpack.builds.cleanup_plan import losing_attempts, whole_run
from airflow_snowpack.builds.dataset_lock import DatasetLock
from airflow_snowpack.builds.errors import StorageFailed
from airflow_snowpack.builds.model import BuildRun, CleanupAction, CleanupPhase, Retention, RunStatus
from airflow_snowpack.builds.reconcile import inspect, reconcile
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)

DEFAULT = Retention()
Planned = list[tuple[BuildRun, list[CleanupAction]]]


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
    plans = (_plan_stale, _plan_old)
    return actions + _runs(plans, registry, storage, dataset, retention, dry_run=dry_run, holder=holder, before=before)


def cleanup_losers(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 1: the losing attempts of published runs. It needs no lock, as a published run's winners never change."""
    ledger, now = CleanupLedger(registry.store, dataset), registry.store.clock()
    done = []
    for run in ledger.with_losers(now):
        actions = losing_attempts(storage, run)
        if not dry_run:
            actions = _delete(storage, actions, before_each=lambda: None)
            if not any(action.error for action in actions):
                ledger.looked_at(run, now, retention.stale_attempt_age)
        done += actions
    return done


def cleanup_stale_attempts(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 2: everything of runs that failed, or that whoever began them has left. A run with a live lease is never touched."""
    return _runs((_plan_stale,), registry, storage, dataset, retention, dry_run=dry_run)


def cleanup_old_runs(
    registry: BuildRegistry, storage: Storage, dataset: str, retention: Retention = DEFAULT, *, dry_run: bool = False
) -> list[CleanupAction]:
    """Phase 3: data and manifests of published runs beyond those that are kept. The current one is never touched."""
    return _runs((_plan_old,), registry, storage, dataset, retention, dry_run=dry_run)


def _runs(
    plans: Iterable[Callable[[_Scene], Planned]],
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
        return [action for plan in plans for _, actions in plan(scene) for action in actions]
    with registry.lock(dataset, holder) as lock:
        standing = reconcile(registry, storage, lock)
        scene = _Scene(registry, storage, dataset, retention, standing.current.run_id if standing.current is not None else None)
        return [action for plan in plans for action in _delete_runs(scene, lock, plan(scene))]


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

    def planned(self, phase: CleanupPhase, runs: Iterable[BuildRun], why: Callable[[BuildRun], str]) -> Planned:
        doomed = [run for run in runs if run.run_id != self.served]
        return [(run, whole_run(phase, self.storage, run, why(run), without=self.before)) for run in doomed]


def _plan_stale(scene: _Scene) -> Planned:
    stale = scene.ledger.stale(scene.registry.store.clock(), scene.retention.stale_attempt_age)
    return scene.planned(CleanupPhase.STALE_ATTEMPTS, stale, _why_stale)


def _plan_old(scene: _Scene) -> Planned:
    keep = scene.retention.keep_runs
    old = scene.ledger.beyond(scene.registry.store.clock(), keep, served=scene.served)
    return scene.planned(CleanupPhase.OLD_RUNS, old, lambda _: f"it is beyond the {keep} newest published runs")


def _why_stale(run: BuildRun) -> str:
    if run.status is RunStatus.RUNNING:
        return f"nobody has held the run since {run.lease_until:%Y-%m-%d %H:%M} UTC"
    if run.deleted_at is not None:
        return "something was written after the failed run had been deleted"
    return f"the run failed: {run.error or 'nobody said why'}"


def _delete_runs(scene: _Scene, lock: DatasetLock, planned: Planned) -> list[CleanupAction]:
    ledger, now = scene.ledger, scene.registry.store.clock()
    done = []
    for run, actions in planned:
        if not ledger.doom(lock, run, now):
            log.info("cleanup_skipped: the run %s of %s is not what it was", run.run_id, run.dataset)
            continue
        actions = _delete(scene.storage, actions, before_each=lock.check)
        done += actions
        if any(action.error for action in actions):
            continue
        if run.status is RunStatus.SUCCEEDED:
            ledger.gone(run)
        else:
            ledger.looked_at(replace(run, status=RunStatus.FAILED), now, scene.retention.stale_attempt_age)
    return done


def _delete(storage: Storage, actions: Iterable[CleanupAction], *, before_each: Callable[[], None]) -> list[CleanupAction]:
    done = []
    for action in actions:
        if action.error is None:
            before_each()
            action = _deleted(storage, action)
        done.append(action)
    return done


def _deleted(storage: Storage, action: CleanupAction) -> CleanupAction:
    try:
        gone = storage.delete(action.path)
    except StorageFailed as error:
        log.warning("cleanup_failed: %s: %s", action.path, error)
        return replace(action, objects=0, bytes=0, error=str(error))
    if gone.problems:
        log.warning("cleanup_failed: %s: %s", action.path, gone.problems[0])
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
