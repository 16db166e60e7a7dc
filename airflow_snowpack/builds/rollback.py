"""Goes back to an older build, or forth again: the pointer moves, and nothing else does.

    rollback(registry, storage, "flights", to="-1", by="ada")                       # the published build before the current one
    rollback(registry, storage, "flights", to="20260101T000000Z", by="ada")         # a run
    rollback(registry, storage, "flights", to="manifests/20260101T000000Z/1.json", by="ada")

It is a publication of its own, with a higher number. What was newest stays so: a run older than the one that was rolled back from
does not become current by itself.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.model import BuildRun, Manifest, RunStatus
from airflow_snowpack.builds.moves import Also, Moves, Served, Standing
from airflow_snowpack.builds.publish import move
from airflow_snowpack.builds.published import check_files
from airflow_snowpack.builds.reconcile import reconcile
from airflow_snowpack.builds.records import read_manifest
from airflow_snowpack.builds.registered import PublicationKind, PublishOutcome
from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.rows import run_from
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import storable
from airflow_snowpack.store.build_tables import build_runs

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
