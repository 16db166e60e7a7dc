"""Publish a build, or roll back to an older one: the manifest first, then the pointer, then the registry.

    outcome = publish(registry, storage, handle, manifest)                          # an older build goes into history
    rollback(registry, storage, "flights", to="-1", by="ada")                       # the published build before the current one
    rollback(registry, storage, "flights", to="20260101T000000Z", by="ada")         # a run
    rollback(registry, storage, "flights", to="manifests/20260101T000000Z/1.json", by="ada")

Invariants: wherever a process is killed, readers see the previous build or this one, complete. A build is published only if all
of its files exist with their sizes. Publishing an older run never replaces a newer one. The registry ends up with what readers
may have seen, because each process that takes the dataset's lock reconciles registry and pointer first. A rollback is a
publication with a higher number; the newest run stays the newest, and older runs are only published into history.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import (
    BuildError,
    BuildNotFound,
    InvalidBuild,
    ManifestDamaged,
    PointerUnknown,
    PublishFailed,
    ShardCoverageError,
    StaleBuild,
)
from airflow_snowpack.builds.json_format import checksum_of, read_manifest, to_json
from airflow_snowpack.builds.model import FileCheck, Manifest
from airflow_snowpack.builds.pointer import check_files, manifest_at, set_pointer
from airflow_snowpack.builds.read.verify import check_checksums
from airflow_snowpack.builds.reconcile import reconcile
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import (
    BuildRun,
    Publication,
    PublicationKind,
    PublishOutcome,
    RunHandle,
    RunStatus,
    run_from,
)
from airflow_snowpack.builds.registry.publications import (
    AuditedChange,
    Publications,
    PublicationState,
    RunPlace,
    StoredManifest,
    pointer_of,
)
from airflow_snowpack.builds.registry.runs import NEWEST_FIRST, BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import kept_selection
from airflow_snowpack.store import Actor, StoreError, StoreTooSlow, StoreUnreachable, storable
from airflow_snowpack.store.tables.builds import build_runs

log = logging.getLogger(__name__)

OFFSET = re.compile(r"-[1-9]\d{0,5}")


def publish(
    registry: BuildRegistry,
    storage: Storage,
    handle: RunHandle,
    manifest: Manifest,
    *,
    verify: FileCheck = FileCheck.SIZES,
    by: str | None = None,
    actor: Actor | None = None,
) -> PublishOutcome:
    """Publish a run that this attempt owns. Idempotent: a repeated call returns the same outcome.

    Verify checksums first, then wait up to ``policy.lock_wait`` for the dataset's lock.

    :param verify: ``CHECKSUMS`` reads each shard's file; by default, one listing shows that each exists with its size.
    :param by: the publisher's name, for people; ``None`` for the run's owner.
    :param actor: the user, for the audit trail.
    :raises ShardCoverageError, InvalidBuild: the manifest does not belong to this run.
    :raises ManifestDamaged: a winner's file is missing or damaged; the run has failed, the current build is unchanged.
    :raises PublishFailed: the pointer could not be set; the run has failed, the current build is unchanged.
    :raises StaleBuild: another attempt owns the run.
    :raises DatasetBusy: another process still holds the dataset's lock.
    :raises StorageFailed: the manifest could not be written; retry.
    """
    _check(handle, manifest)
    if FileCheck.read(verify) is FileCheck.CHECKSUMS and outcome_of(registry, handle.dataset, handle.run_id) is None:
        with _fails_if_damaged(registry, handle):
            check_checksums(storage, manifest)
    by = by if by is not None else handle.owner
    change = None if actor is None else AuditedChange(actor, "publish_build", {"run_id": handle.run_id})
    with registry.lock(handle.dataset, by, wait=registry.policy.lock_wait) as lock:
        dataset = _LockedDataset(registry, storage, lock, change)
        published = outcome_of(registry, handle.dataset, handle.run_id)
        if published is not None:
            return published
        registry.check(handle)
        _check_files(registry, storage, handle, manifest)
        stored = dataset.write_manifest(handle, manifest)
        newest = dataset.state.newest
        if newest is not None and (handle.as_of, handle.sequence) < newest:
            dataset.publications.keep_in_history(handle, stored)
            return _history_outcome(handle, stored, newest)
        return dataset.make_current(PublicationKind.PUBLISH, stored, previous=dataset.previous, by=by, handle=handle)


def publish_selected(
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    run_id: str,
    *,
    holder: str,
    verify: FileCheck = FileCheck.SIZES,
    actor: Actor | None = None,
) -> tuple[PublishOutcome, Manifest]:
    """Publish a run whose selection is stored; for a published run, return its publication.

    :param holder: takes over the run, so no other process can publish or fail it.
    :param verify: see :func:`publish`.
    :param actor: the user, for the audit trail.
    :raises BuildError: see :func:`publish` and :func:`kept_selection`.
    """
    manifest = kept_selection(storage, dataset, run_id)
    published = outcome_of(registry, dataset, run_id)
    if published is not None:
        log.info("The run %s of %s is already published", run_id, dataset)
        return published, manifest
    handle = registry.resume(dataset, run_id, holder=holder)
    return publish(registry, storage, handle, manifest, verify=verify, by=holder, actor=actor), manifest


def rollback(
    registry: BuildRegistry,
    storage: Storage,
    dataset: str,
    to: str,
    by: str | None,
    *,
    once: bool = False,
    actor: Actor | None = None,
) -> PublishOutcome:
    """Make another published build current.

    :param to: a run's id, a manifest's path, or an offset: ``-1`` for the published build before the current one in the order of
        their data, ``-2`` for the one before that, and so on.
    :param by: the name of the user or task, for people.
    :param once: set it if ``by`` may repeat the call, as a retried task does. Offsets count from the current build, so if that is
        already a rollback by the same ``by``, nothing changes and the first call's outcome is returned.
    :param actor: the user, for the audit trail; an entry is written only if the current build changes.
    :raises DatasetNotFound, BuildNotFound: there is no such build to roll back to.
    :raises ManifestDamaged: its manifest or one of its files is damaged; the current build is unchanged.
    :raises DatasetBusy: another process still holds the dataset's lock.
    :raises PublishFailed: the pointer could not be set; the current build is unchanged.
    """
    change = None if actor is None else AuditedChange(actor, "rollback_build", {"to": to})
    with registry.lock(dataset, by, wait=registry.policy.lock_wait) as lock:
        locked = _LockedDataset(registry, storage, lock, change)
        state = locked.state
        if once and (done := _repeated_rollback(state, to, by)) is not None:
            return done
        run = _find_published(registry, state, to)
        if state.current is not None and run.run_id == state.current.run_id:
            reason = f"{run.run_id} is the current build of {run.dataset} already."
            return PublishOutcome(run.dataset, run.run_id, state.current.manifest, False, state.number, reason)
        stored = _check_build(storage, run)
        return locked.make_current(PublicationKind.ROLLBACK, stored, previous=_fallback(registry, stored.manifest), by=by)


def outcome_of(registry: BuildRegistry, dataset: str, run_id: str) -> PublishOutcome | None:
    """Return the outcome of a published run; ``None`` for any other run."""
    run = registry.find_run(dataset, run_id)
    if run is None or run.status is not RunStatus.SUCCEEDED or run.manifest is None:
        return None
    known = registry.dataset(run.dataset)
    if known.current_run == run.run_id:
        return PublishOutcome(run.dataset, run.run_id, run.manifest, True, known.publication)
    reason = f"It is published already, and the current build of {run.dataset} is {known.current_run}."
    return PublishOutcome(run.dataset, run.run_id, run.manifest, False, reason=reason)


class _LockedDataset:
    """A dataset under its lock, with registry and pointer reconciled."""

    def __init__(self, registry: BuildRegistry, storage: Storage, lock: DatasetLock, change: AuditedChange | None) -> None:
        self._registry = registry
        self._storage = storage
        self._lock = lock
        self.state = reconcile(registry, storage, lock)
        self.publications = Publications(registry.store, lock, change)

    @property
    def previous(self) -> tuple[str | None, str | None]:
        """The current manifest and its checksum, the fallback of the next one's readers."""
        current = self.state.current
        return (None, None) if current is None else (current.manifest, current.checksum)

    def write_manifest(self, handle: RunHandle, manifest: Manifest) -> StoredManifest:
        # Only the registry knows the order of runs and the current build.
        final = replace(manifest, as_of=handle.as_of, previous=self.previous[0])
        data = to_json(final)
        stored = StoredManifest(layout.manifest(handle.run_id, handle.attempt), checksum_of(data), final)
        self._lock.check()
        self._storage.write(stored.path, data)
        return stored

    def make_current(
        self,
        kind: PublicationKind,
        stored: StoredManifest,
        *,
        previous: tuple[str | None, str | None],
        by: str | None,
        handle: RunHandle | None = None,
    ) -> PublishOutcome:
        """Record the publication, set the pointer, and confirm it. If the pointer cannot be set, fail the run of ``handle``."""
        above = self.state.pointer_number
        publication = self.publications.prepare(kind, stored, previous=previous, above=above, by=by, handle=handle)
        try:
            self._set_pointer(publication, handle)
            return self._confirm(publication, stored)
        except StaleBuild:
            # The new lock holder may have completed the publication, and this process may have overwritten a later pointer.
            self._reconcile_again(by)
            published = outcome_of(self._registry, publication.dataset, publication.run_id)
            if published is None:
                raise
            return published

    def _set_pointer(self, publication: Publication, handle: RunHandle | None) -> None:
        try:
            set_pointer(self._storage, pointer_of(publication), self._lock, above=self.state.pointer_number)
        except PointerUnknown:
            raise  # keep the record: the next lock holder determines which of the two it is
        except PublishFailed as error:
            try:
                self.publications.withdraw(publication, handle, error)
            except (StoreUnreachable, StoreTooSlow):
                log.exception("failed_but_not_recorded: %s of %s was not published", publication.run_id, publication.dataset)
            raise

    def _confirm(self, publication: Publication, stored: StoredManifest) -> PublishOutcome:
        dataset, run_id, number = publication.dataset, publication.run_id, publication.number
        outcome = PublishOutcome(dataset, run_id, publication.manifest, True, number)
        try:
            self.publications.confirm(publication, stored, self.state.newest)
        except (StoreUnreachable, StoreTooSlow):
            log.exception("published_but_not_recorded: %s of %s is the current build", run_id, dataset)
            return replace(outcome, recorded=False)
        log.info("published: %s of %s as number %d", run_id, dataset, number)
        return outcome

    def _reconcile_again(self, by: str | None) -> None:
        """Reconcile if the lock is free; otherwise its holder does so."""
        dataset = self._lock.dataset
        try:
            with self._registry.lock(dataset, by) as lock:
                reconcile(self._registry, self._storage, lock)
        except (BuildError, StoreError) as error:
            log.warning("pointer_not_reconciled: of %s, after the lock was lost: %s", dataset, error)


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
    """Fail the run if a winner's file is missing or has another size, or readers would refuse the manifest."""
    path = layout.manifest(handle.run_id, handle.attempt)
    with _fails_if_damaged(registry, handle):
        read_manifest(to_json(manifest), path)
        check_files(storage, path, manifest)


@contextmanager
def _fails_if_damaged(registry: BuildRegistry, handle: RunHandle) -> Iterator[None]:
    try:
        yield
    except ManifestDamaged as damage:
        registry.fail(handle, damage)
        raise


def _history_outcome(handle: RunHandle, stored: StoredManifest, newest: RunPlace) -> PublishOutcome:
    as_of = newest[0].isoformat(timespec="seconds")
    reason = f"It went into history: {handle.dataset} has had a newer current build, with data as of {as_of}."
    log.info("published_into_history: %s of %s", handle.run_id, handle.dataset)
    return PublishOutcome(handle.dataset, handle.run_id, stored.path, False, reason=reason)


def _find_published(registry: BuildRegistry, state: PublicationState, to: str) -> BuildRun:
    """Return the run that ``to`` of :func:`rollback` names, if it is published and not cleaned up."""
    dataset = state.dataset
    if OFFSET.fullmatch(to):
        return _find_by_offset(registry, state, to)
    by_path = to.startswith(layout.MANIFESTS)
    run = registry.run(dataset, to.split("/")[1] if by_path else to)
    if by_path and run.manifest != to:
        raise BuildNotFound(dataset, to)
    if run.status is not RunStatus.SUCCEEDED:
        raise BuildNotFound(dataset, to, f"the run is not published, it is {run.status.value}")
    if run.deleted_at is not None:
        raise BuildNotFound(dataset, to, f"it was cleaned up at {run.deleted_at.isoformat(timespec='seconds')}")
    return run


def _find_by_offset(registry: BuildRegistry, state: PublicationState, to: str) -> BuildRun:
    dataset, current = state.dataset, state.current
    if current is None:
        raise BuildNotFound(dataset, to, "nothing is published yet")
    at = registry.run(dataset, current.run_id)
    run = build_runs.c
    kept = sa.and_(run.dataset == dataset, run.status == sa.literal_column("'succeeded'"), run.deleted_at.is_(None))
    query = sa.select(build_runs).where(kept, NEWEST_FIRST.after((at.as_of, at.sequence)))
    found = registry.store.first(query.order_by(*NEWEST_FIRST.order()).offset(-int(to) - 1).limit(1))
    if found is None:
        raise BuildNotFound(dataset, to, "fewer published builds than that are kept before the current one")
    return run_from(found)


def _check_build(storage: Storage, run: BuildRun) -> StoredManifest:
    """Return the run's manifest, after checking that every file exists."""
    assert run.manifest is not None
    assert run.checksum is not None
    manifest = manifest_at(storage, run.manifest, run.checksum)
    check_files(storage, run.manifest, manifest)
    return StoredManifest(run.manifest, run.checksum, manifest)


def _fallback(registry: BuildRegistry, manifest: Manifest) -> tuple[str | None, str | None]:
    """Return the build's own predecessor, as the current build may be damaged; nothing if it is deleted."""
    if manifest.previous is None:
        return None, None
    run = registry.find_run(manifest.dataset, manifest.previous.split("/")[1])
    if run is None or run.manifest != manifest.previous or run.deleted_at is not None:
        return None, None
    return run.manifest, run.checksum


def _repeated_rollback(state: PublicationState, to: str, by: str | None) -> PublishOutcome | None:
    current = state.current
    if by is None or current is None or not OFFSET.fullmatch(to):
        return None
    if (current.kind, current.by) != (PublicationKind.ROLLBACK, storable(by)):
        return None
    return PublishOutcome(current.dataset, current.run_id, current.manifest, True, current.number)
