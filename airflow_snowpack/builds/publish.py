"""Publishes a build: its manifest first, then the pointer, then the registry.

    outcome = publish(registry, storage, handle, manifest)
    outcome.moved or print(outcome.reason)     # an older build goes into history

The invariants: readers see the build before or this one, whole, wherever a kill falls; no build is published unless all of its
files exist with their sizes; an older run never replaces a newer one; and the registry ends up with what readers may have seen,
because the process that takes the dataset's lock next reconciles the two.
"""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import (
    BuildError,
    BuildNotFound,
    InvalidBuild,
    ManifestDamaged,
    ObjectMissing,
    PointerUnknown,
    PublishFailed,
    ShardCoverageError,
    StaleBuild,
)
from airflow_snowpack.builds.json_format import checksum_of, read_manifest, to_json
from airflow_snowpack.builds.model import BuildRun, Manifest, RunStatus
from airflow_snowpack.builds.pointer import check_files, set_pointer
from airflow_snowpack.builds.reconcile import reconcile
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import Publication, PublicationKind, PublishOutcome, RunHandle, run_from
from airflow_snowpack.builds.registry.publications import Also, Moves, Served, Standing, pointer_of
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import StoreError, StoreTooSlow, StoreUnreachable, storable
from airflow_snowpack.store.build_tables import build_runs

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


OFFSET = re.compile(r"-[1-9]\d{0,5}")


def rollback(
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    to: str,
    by: str | None,
    *,
    once: bool = False,
    also: Also | None = None,
) -> PublishOutcome:
    """Let readers see another published build.

    :param to: a run's id, a manifest's path, or ``-1`` for the published build before the current one in the order of their data,
        ``-2`` for the one before that, and so on.
    :param once: for a ``by`` that may ask the same again, such as the later try of a task: an offset is counted from where the
        pointer stands, so while that is where ``by`` has gone back to, it stays there, and the outcome is that of the first time.
    :param also: written in the registry's last transaction, if the pointer moves.
    :raises DatasetNotFound, BuildNotFound: there is nothing that could be served.
    :raises ManifestDamaged: its manifest or one of its files is not what was written; the pointer is what it was.
    :raises DatasetBusy: somebody else has the dataset still.
    :raises PublishFailed: the pointer could not be set, and is what it was.
    """
    with registry.lock(dataset, by, wait=registry.policy.lock_wait) as lock:
        standing = reconcile(registry, storage, lock)
        if once and (done := _gone_back_already(standing, to, by)) is not None:
            return done
        run = find_published(registry, standing, to)
        if standing.current is not None and run.run_id == standing.current.run_id:
            return _stays(standing, run)
        served = _checked(storage, run)
        previous = _fallback(registry, served.manifest)
        kind = PublicationKind.ROLLBACK
        publication = Moves(registry.store, lock).intend(kind, served, previous=previous, above=standing.seen, by=by)
        return move(registry, storage, lock, publication, served, standing, also=also)


def find_published(registry: BuildRegistry, standing: Standing, to: str) -> BuildRun:
    """The run that ``to`` means.

    :raises BuildNotFound: there is none, or it is not published, or cleaned up.
    """
    dataset = standing.dataset
    if OFFSET.fullmatch(to):
        return _before_current(registry, standing, to)
    by_path = to.startswith(layout.MANIFESTS)
    run = registry.run(dataset, to.split("/")[1] if by_path else to)
    if by_path and run.manifest != to:
        raise BuildNotFound(dataset, to)
    if run.status is not RunStatus.SUCCEEDED:
        raise BuildNotFound(dataset, to, f"the run is not published, it is {run.status.value}")
    if run.deleted_at is not None:
        raise BuildNotFound(dataset, to, f"it was cleaned up at {run.deleted_at.isoformat(timespec='seconds')}")
    return run


def _before_current(registry: BuildRegistry, standing: Standing, to: str) -> BuildRun:
    dataset, current = standing.dataset, standing.current
    if current is None:
        raise BuildNotFound(dataset, to, "nothing is published yet")
    at = registry.run(dataset, current.run_id)
    run = build_runs.c
    kept = sa.and_(run.dataset == dataset, run.status == sa.literal_column("'succeeded'"), run.deleted_at.is_(None))
    older = sa.tuple_(run.as_of, run.sequence) < sa.tuple_(sa.literal(at.as_of, run.as_of.type), sa.literal(at.sequence))
    newest_first = (run.as_of.desc(), run.sequence.desc())
    query = sa.select(build_runs).where(kept, older).order_by(*newest_first).offset(-int(to) - 1).limit(1)
    found = registry.store.read(lambda conn: conn.execute(query).first())
    if found is None:
        raise BuildNotFound(dataset, to, "so many published builds are not kept before the current one")
    return run_from(found)


def _checked(storage: Storage, run: BuildRun) -> Served:
    """The run's manifest, and every file that it names is there."""
    assert run.manifest is not None
    assert run.checksum is not None
    try:
        manifest = read_manifest(storage.read(run.manifest), run.manifest, run.checksum)
    except ObjectMissing as error:
        raise ManifestDamaged(run.manifest, "it is not there any more") from error
    check_files(storage, run.manifest, manifest)
    return Served(run.manifest, run.checksum, manifest)


def _fallback(registry: BuildRegistry, manifest: Manifest) -> tuple[str | None, str | None]:
    """What was served before the build that is gone back to, as the one that is left may be why; nothing when it is gone."""
    if manifest.previous is None:
        return None, None
    run = registry.find_run(manifest.dataset, manifest.previous.split("/")[1])
    if run is None or run.manifest != manifest.previous or run.deleted_at is not None:
        return None, None
    return run.manifest, run.checksum


def _gone_back_already(standing: Standing, to: str, by: str | None) -> PublishOutcome | None:
    current = standing.current
    if by is None or current is None or not OFFSET.fullmatch(to):
        return None
    if (current.kind, current.by) != (PublicationKind.ROLLBACK, storable(by)):
        return None
    return PublishOutcome(current.dataset, current.run_id, current.manifest, True, current.number)


def _stays(standing: Standing, run: BuildRun) -> PublishOutcome:
    assert run.manifest is not None
    reason = f"{run.run_id} is the current build of {run.dataset} already."
    return PublishOutcome(run.dataset, run.run_id, run.manifest, False, standing.number, reason)
