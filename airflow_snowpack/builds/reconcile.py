"""Makes the registry and the pointer agree again, after somebody was killed, cut off, or slept through the end of his lock.

    with registry.lock("flights") as lock:
        standing = reconcile(Moves(store, lock), registry, storage, lock)

What readers may have seen is the truth, because a publication that goes back is what nobody expects:

| the pointer | what was left undone | what happens |
|---|---|---|
| is the registry's | nothing, or it cannot be served | nothing, and the note is forgotten |
| is ahead of the registry | whatever | the registry adopts it, unless what it names is not there |
| is behind, missing or damaged | a publication that can be served | it is completed: the pointer is set |
| is behind, missing or damaged | nothing | the registry's is written again |
| is ahead, and what it names is not there | nothing | the pointer goes to the current run, with a new number |
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_snowpack.builds.errors import ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.json_format import read_manifest
from airflow_snowpack.builds.model import RunStatus
from airflow_snowpack.builds.pointer import check_files, set_pointer, sound_pointer
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import Publication, PublicationKind
from airflow_snowpack.builds.registry.publications import Moves, Served, Standing, of_pointer, pointer_of, read_standing
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)


class Mend(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    ADOPT = "adopt"
    COMPLETE = "complete"
    WRITE_AGAIN = "write_again"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what is to be done about it.

    :param seen: the number of the pointer in the storage; 0 for none.
    :param publication: what the dataset stands on once it is done; ``None`` while nothing is published.
    :param served: its manifest, where it was read.
    """

    mend: Mend
    standing: Standing
    seen: int
    publication: Publication | None
    served: Served | None = None


def inspect(registry: BuildRegistry, storage: Storage, dataset: str) -> Finding:
    """See how registry and pointer stand to each other, and write nothing.

    :raises DatasetNotFound: nothing was ever built under this name.
    :raises InvalidBuild: the folder is another dataset's.
    """
    standing = read_standing(registry.store, dataset)
    pointer = sound_pointer(storage, dataset)
    seen = 0 if pointer is None else pointer.publication
    ahead = of_pointer(pointer) if pointer is not None and seen > standing.number else None
    intended = standing.intended
    if ahead is not None and intended is not None and pointer == pointer_of(intended):
        ahead = intended  # the registry knows more of it than the pointer says
    if ahead is not None and (served := _servable(registry, storage, ahead)) is not None:
        return Finding(Mend.ADOPT, standing, seen, ahead, served)
    if intended is not None and seen < intended.number and (served := _completable(registry, storage, intended)) is not None:
        return Finding(Mend.COMPLETE, standing, seen, intended, served)
    current = standing.current
    if current is None or pointer == pointer_of(current):
        return Finding(Mend.NOTHING, standing, seen, current)
    if ahead is None:
        return Finding(Mend.WRITE_AGAIN, standing, seen, current)
    return Finding(Mend.REPAIR, standing, seen, current, _servable(registry, storage, current))


def reconcile(registry: BuildRegistry, storage: Storage, lock: DatasetLock) -> Standing:
    """Do what :func:`inspect` finds to be done; where the dataset stands then.

    :raises StaleBuild: the lock was lost.
    :raises PublishFailed: the pointer could not be set.
    """
    moves = Moves(registry.store, lock)
    finding = inspect(registry, storage, lock.dataset)
    publication, served = finding.publication, finding.served
    if finding.mend is not Mend.NOTHING:
        log.warning("pointer_reconciled: %s of %s, to %s", finding.mend.value, lock.dataset, publication and publication.run_id)
    match finding.mend:
        case Mend.NOTHING:
            if finding.standing.intended is not None:
                moves.forget_intended()
        case Mend.WRITE_AGAIN:
            assert publication is not None
            _point(registry, storage, lock, publication, finding.seen)
        case Mend.ADOPT | Mend.COMPLETE:
            assert publication is not None
            assert served is not None
            if finding.mend is Mend.COMPLETE:
                _point(registry, storage, lock, publication, finding.seen)
            moves.confirm(publication, served, finding.standing.newest)
        case Mend.REPAIR:
            assert publication is not None
            _repair(registry, storage, lock, finding)
    standing = moves.standing()
    return replace(standing, seen=max(finding.seen, standing.number))


def _repair(registry: BuildRegistry, storage: Storage, lock: DatasetLock, finding: Finding) -> None:
    if finding.served is None:
        log.error("nothing_to_repair_with: the current manifest of %s is damaged or gone", lock.dataset)
        return
    current, moves = finding.publication, Moves(registry.store, lock)
    assert current is not None
    previous = (current.previous, current.previous_checksum)
    repair = moves.intend(PublicationKind.REPAIR, finding.served, previous=previous, above=finding.seen, by=None)
    _point(registry, storage, lock, repair, finding.seen)
    moves.confirm(repair, finding.served, finding.standing.newest)


def _point(registry: BuildRegistry, storage: Storage, lock: DatasetLock, publication: Publication, seen: int) -> None:
    policy = registry.policy
    set_pointer(storage, pointer_of(publication), lock, above=seen, waits=policy.pointer_waits, sleep=registry.sleep)


def _servable(registry: BuildRegistry, storage: Storage, publication: Publication) -> Served | None:
    """The manifest, if it is what was written and cleanup has not been at its run."""
    run = registry.find_run(publication.dataset, publication.run_id)
    if run is not None and run.deleted_at is not None:
        return None
    try:
        manifest = read_manifest(storage.read(publication.manifest), publication.manifest, publication.checksum)
    except (ObjectMissing, ManifestDamaged) as error:
        log.warning("manifest_unusable: publication %d of %s: %s", publication.number, publication.dataset, error)
        return None
    return Served(publication.manifest, publication.checksum, manifest)


def _completable(registry: BuildRegistry, storage: Storage, intended: Publication) -> Served | None:
    """As above, with all of its files, and unless the run has failed since. No reader has seen it, so it may be dropped."""
    run = registry.find_run(intended.dataset, intended.run_id)
    if run is None or run.status is RunStatus.FAILED:
        return None
    served = _servable(registry, storage, intended)
    if served is None:
        return None
    try:
        check_files(storage, served.path, served.manifest)
    except ManifestDamaged as error:
        log.warning("publication_not_completed: publication %d of %s: %s", intended.number, intended.dataset, error)
        return None
    return served
