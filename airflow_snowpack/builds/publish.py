"""Publishes a build: its manifest first, then the pointer, then the registry.

    outcome = publish(registry, storage, handle, manifest)
    outcome.moved or print(outcome.reason)     # an older build goes into history

The invariants: readers see the build before or this one, whole, wherever a kill falls; no build is published unless all of its
files exist with their sizes; an older run never replaces a newer one; and the registry ends up with what readers may have seen,
because the process that takes the dataset's lock next reconciles the two.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.dataset_lock import DatasetLock
from airflow_snowpack.builds.errors import (
    BuildError,
    InvalidBuild,
    ManifestDamaged,
    PointerUnknown,
    PublishFailed,
    ShardCoverageError,
    StaleBuild,
)
from airflow_snowpack.builds.model import BuildRun, Manifest, RunStatus
from airflow_snowpack.builds.moves import Also, Moves, Served, Standing, pointer_of
from airflow_snowpack.builds.pointer import set_pointer
from airflow_snowpack.builds.published import check_files
from airflow_snowpack.builds.reconcile import reconcile
from airflow_snowpack.builds.records import checksum_of, read_manifest, to_json
from airflow_snowpack.builds.registered import Publication, PublicationKind, PublishOutcome, RunHandle
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import StoreError, StoreTooSlow, StoreUnreachable

log = logging.getLogger(__name__)


def publish(
    registry: BuildRegistry,
    storage: Storage,
    handle: RunHandle,
    manifest: Manifest,
    *,
    by: str | None = None,
    also: Also | None = None,
) -> PublishOutcome:
    """Publish a run that this attempt holds.

    It waits ``policy.lock_wait`` for whoever else publishes the dataset. Publishing a run again that is published already changes
    nothing, and gives the same outcome.

    :param by: for people who look; ``None`` for the run's owner.
    :param also: written in the registry's last transaction.
    :raises ShardCoverageError, InvalidBuild: the manifest is not one of this run.
    :raises ManifestDamaged: a winner's file is missing or has another size; the run has failed, and the pointer is what it was.
    :raises PublishFailed: the pointer could not be set; the run has failed, and the pointer is what it was.
    :raises StaleBuild: somebody else has the run.
    :raises DatasetBusy: somebody else has the dataset still.
    :raises StorageFailed: the manifest could not be written; it may be tried again.
    """
    _check(handle, manifest)
    by = by if by is not None else handle.owner
    with registry.lock(handle.dataset, by, wait=registry.policy.lock_wait) as lock:
        standing = reconcile(registry, storage, lock)
        published = outcome_of(registry, handle.dataset, handle.run_id)
        if published is not None:
            return published
        registry.check(handle)
        _check_files(registry, storage, handle, manifest)
        served = _write_manifest(storage, lock, handle, manifest, standing)
        moves = Moves(registry.store, lock)
        if standing.newest is not None and (handle.as_of, handle.sequence) < standing.newest:
            moves.keep_in_history(handle, served, also=also)
            return _in_history(handle.dataset, handle.run_id, served.path, standing)
        kind, previous = PublicationKind.PUBLISH, _previous(standing)
        publication = moves.intend(kind, served, previous=previous, above=standing.seen, by=by, held_by=handle)
        return move(registry, storage, lock, publication, served, standing, handle=handle, also=also)


def move(
    registry: BuildRegistry,
    storage: Storage,
    lock: DatasetLock,
    publication: Publication,
    served: Served,
    standing: Standing,
    *,
    handle: RunHandle | None = None,
    also: Also | None = None,
) -> PublishOutcome:
    """Set the pointer to what was noted, and confirm it.

    :param handle: the run to fail when it cannot be set.
    """
    try:
        _set(registry, storage, lock, publication, standing, handle)
        return _confirm(registry, lock, publication, served, standing, also)
    except StaleBuild:
        # Whoever got the lock has found the note of it, and may have completed it; and what was written here may stand over what
        # came after.
        _set_right(registry, storage, publication)
        published = outcome_of(registry, publication.dataset, publication.run_id)
        if published is None:
            raise
        return published


def _set_right(registry: BuildRegistry, storage: Storage, publication: Publication) -> None:
    """Once, and if nobody has the dataset: whoever has it next does the same."""
    try:
        with registry.lock(publication.dataset, publication.by) as lock:
            reconcile(registry, storage, lock)
    except (BuildError, StoreError) as error:
        log.warning("pointer_not_set_right: of %s, after the lock was lost: %s", publication.dataset, error)


def _set(
    registry: BuildRegistry,
    storage: Storage,
    lock: DatasetLock,
    publication: Publication,
    standing: Standing,
    handle: RunHandle | None,
) -> None:
    try:
        policy = registry.policy
        set_pointer(storage, pointer_of(publication), lock, above=standing.seen, waits=policy.pointer_waits, sleep=registry.sleep)
    except PointerUnknown:
        raise  # the note stays: whoever has the lock next finds out which of the two it is
    except PublishFailed as error:
        try:
            Moves(registry.store, lock).withdraw(publication, handle, error)
        except (StoreUnreachable, StoreTooSlow):
            log.exception("failed_but_not_recorded: %s of %s was not published", publication.run_id, publication.dataset)
        raise


def _confirm(
    registry: BuildRegistry, lock: DatasetLock, publication: Publication, served: Served, standing: Standing, also: Also | None
) -> PublishOutcome:
    moved = PublishOutcome(publication.dataset, publication.run_id, publication.manifest, True, publication.number)
    try:
        Moves(registry.store, lock).confirm(publication, served, standing.newest, also=also)
    except (StoreUnreachable, StoreTooSlow):
        log.exception("published_but_not_recorded: %s of %s is served", publication.run_id, publication.dataset)
        return replace(moved, recorded=False)
    log.info("published: %s of %s as number %d", publication.run_id, publication.dataset, publication.number)
    return moved


def outcome_of(registry: BuildRegistry, dataset: str, run_id: str) -> PublishOutcome | None:
    """How the publication of a run ended that is published already; ``None`` for one that is not."""
    run = registry.find_run(dataset, run_id)
    if run is None or run.status is not RunStatus.SUCCEEDED or run.manifest is None:
        return None
    return _outcome(registry, run, run.manifest)


def _outcome(registry: BuildRegistry, run: BuildRun, manifest: str) -> PublishOutcome:
    known = registry.dataset(run.dataset)
    if known.current_run == run.run_id:
        return PublishOutcome(run.dataset, run.run_id, manifest, True, known.publication)
    reason = f"It is published, and _CURRENT of {run.dataset} stands on {known.current_run}."
    return PublishOutcome(run.dataset, run.run_id, manifest, False, reason=reason)


def _check(handle: RunHandle, manifest: Manifest) -> None:
    if (manifest.dataset, manifest.run_id) != (handle.dataset, handle.run_id):
        raise InvalidBuild("manifest", f"{manifest.dataset}/{manifest.run_id}", f"the run is {handle.dataset}/{handle.run_id}")
    found = [shard.shard_id for shard in manifest.shards]
    wanted = range(handle.num_shards)
    missing, unknown = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or unknown:
        raise ShardCoverageError(handle.run_id, handle.num_shards, missing, unknown)
    if manifest.sharding.num_shards != handle.num_shards or found != list(wanted):
        raise InvalidBuild("manifest", found, f"it must list each of {handle.num_shards} shards once and in order")


def _check_files(registry: BuildRegistry, storage: Storage, handle: RunHandle, manifest: Manifest) -> None:
    """Fail the run when a winner's file is missing or has another size, or readers would refuse the manifest."""
    path = layout.manifest(handle.run_id, handle.attempt)
    try:
        read_manifest(to_json(manifest), path)
        check_files(storage, path, manifest)
    except ManifestDamaged as damage:
        registry.fail(handle, damage)
        raise


def _write_manifest(storage: Storage, lock: DatasetLock, handle: RunHandle, manifest: Manifest, standing: Standing) -> Served:
    # Only the registry knows what orders runs and what is served now.
    final = replace(manifest, as_of=handle.as_of, previous=_previous(standing)[0])
    data = to_json(final)
    served = Served(layout.manifest(handle.run_id, handle.attempt), checksum_of(data), final)
    lock.check()
    storage.write(served.path, data)
    return served


def _previous(standing: Standing) -> tuple[str | None, str | None]:
    current = standing.current
    return (None, None) if current is None else (current.manifest, current.checksum)


def _in_history(dataset: str, run_id: str, manifest: str, standing: Standing) -> PublishOutcome:
    assert standing.newest is not None
    newest = standing.newest[0].isoformat(timespec="seconds")
    reason = f"It went into history: {dataset} has already been at data of {newest}, or at a later run of the same moment."
    log.info("published_into_history: %s of %s", run_id, dataset)
    return PublishOutcome(dataset, run_id, manifest, False, reason=reason)
