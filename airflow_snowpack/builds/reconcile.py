"""Make the registry and the pointer agree after a process was killed, disconnected, or suspended beyond its lock's lease.

    with registry.lock("flights") as lock:
        state = reconcile(registry, storage, lock)

What readers may have seen wins, because the current build must not change back unexpectedly:

| pointer | unconfirmed publication | fix |
|---|---|---|
| matches the registry | none, or cannot be published | none; the record is deleted |
| is ahead of the registry | any | the registry adopts the pointer, unless its manifest does not exist |
| is behind, missing or damaged | can be published | the publication is completed: the pointer is set |
| is behind, missing or damaged | none | the registry's pointer is written again |
| is ahead, and its manifest does not exist | none | the pointer is set to the current run, with a new number |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.model import is_newer
from airflow_snowpack.builds.pointer import check_files, manifest_at, set_pointer, sound_pointer
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import Publication, PublicationKind, RunStatus
from airflow_snowpack.builds.registry.publications import (
    Publications,
    PublicationState,
    StoredManifest,
    pointer_of,
    publication_of,
    read_state,
)
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)


class Fix(StrEnum):
    """The fix that makes registry and pointer agree."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    COMPLETE = "complete"
    WRITE_AGAIN = "write_again"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class RegistryDifference:
    """How registry and pointer differ.

    :param pointer_number: the publication number in the storage; 0 for none.
    :param publication: the current publication after the fix; ``None`` if nothing is published.
    :param stored: its manifest, if it was read.
    """

    fix: Fix
    state: PublicationState
    pointer_number: int
    publication: Publication | None
    stored: StoredManifest | None = None


def compare(registry: BuildRegistry, storage: Storage, dataset: str) -> RegistryDifference:
    """Compare registry and pointer, without writing.

    :raises DatasetNotFound: no build of this dataset has ever begun.
    :raises InvalidBuild: the folder belongs to another dataset.
    """
    state = read_state(registry.store, dataset)
    pointer = sound_pointer(storage, dataset)
    number = 0 if pointer is None else pointer.publication
    ahead = publication_of(pointer) if pointer is not None and is_newer(number, state.number) else None
    unconfirmed = state.unconfirmed
    if ahead is not None and unconfirmed is not None and pointer == pointer_of(unconfirmed):
        ahead = unconfirmed  # the registry has more details than the pointer
    if ahead is not None and (stored := _readable(registry, storage, ahead)) is not None:
        return RegistryDifference(Fix.ADOPT, state, number, ahead, stored)
    if unconfirmed is not None and is_newer(unconfirmed.number, number):
        stored = _completable(registry, storage, unconfirmed)
        if stored is not None:
            return RegistryDifference(Fix.COMPLETE, state, number, unconfirmed, stored)
    current = state.current
    if current is None or pointer == pointer_of(current):
        return RegistryDifference(Fix.NOTHING, state, number, current)
    if ahead is None:
        return RegistryDifference(Fix.WRITE_AGAIN, state, number, current)
    return RegistryDifference(Fix.REPAIR, state, number, current, _readable(registry, storage, current))


def reconcile(registry: BuildRegistry, storage: Storage, lock: DatasetLock) -> PublicationState:
    """Apply the fix that :func:`compare` finds, and return the state after it.

    :raises StaleBuild: the lock was lost.
    :raises PublishFailed: the pointer could not be set.
    """
    publications = Publications(registry.store, lock)
    finding = compare(registry, storage, lock.dataset)
    fix, publication, stored = finding.fix, finding.publication, finding.stored
    if fix is Fix.NOTHING:
        if finding.state.unconfirmed is not None:
            publications.discard_unconfirmed()
    else:
        assert publication is not None
        log.warning("pointer_reconciled: %s of %s, to %s", fix.value, lock.dataset, publication.run_id)
        if fix is Fix.REPAIR and stored is None:
            log.error("nothing_to_repair_with: the current manifest of %s is damaged or missing", lock.dataset)
            fix = Fix.NOTHING
        if fix is Fix.REPAIR and stored is not None:
            previous, above = (publication.previous, publication.previous_checksum), finding.pointer_number
            publication = publications.prepare(PublicationKind.REPAIR, stored, previous=previous, above=above, by=None)
        if fix in (Fix.REPAIR, Fix.COMPLETE, Fix.WRITE_AGAIN):
            set_pointer(storage, pointer_of(publication), lock, above=finding.pointer_number)
        if fix in (Fix.REPAIR, Fix.COMPLETE, Fix.ADOPT):
            assert stored is not None
            publications.confirm(publication, stored, finding.state.newest)
    state = read_state(registry.store, lock.dataset)
    return replace(state, pointer_number=max(finding.pointer_number, state.number))


def _readable(registry: BuildRegistry, storage: Storage, publication: Publication) -> StoredManifest | None:
    """Return the manifest if it is undamaged and its run was not cleaned up."""
    run = registry.find_run(publication.dataset, publication.run_id)
    if run is not None and run.deleted_at is not None:
        return None
    try:
        manifest = manifest_at(storage, publication.manifest, publication.checksum)
    except ManifestDamaged as error:
        log.warning("manifest_unusable: publication %d of %s: %s", publication.number, publication.dataset, error)
        return None
    return StoredManifest(publication.manifest, publication.checksum, manifest)


def _completable(registry: BuildRegistry, storage: Storage, unconfirmed: Publication) -> StoredManifest | None:
    """Return the manifest if the run has not failed and all files exist. No reader has seen it, so it may be dropped."""
    run = registry.find_run(unconfirmed.dataset, unconfirmed.run_id)
    if run is None or run.status is RunStatus.FAILED:
        return None
    stored = _readable(registry, storage, unconfirmed)
    if stored is None:
        return None
    try:
        check_files(storage, stored.path, stored.manifest)
    except ManifestDamaged as error:
        log.warning("publication_not_completed: publication %d of %s: %s", unconfirmed.number, unconfirmed.dataset, error)
        return None
    return stored
