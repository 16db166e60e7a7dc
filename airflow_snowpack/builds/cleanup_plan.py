"""Which runs cleanup deletes from, and which folders of each.

    runs = CleanupRuns(store, "flights")
    for run in runs.stale(now, age): …
    losing_attempts(storage, run)                        # phase 1: folders of attempts that are not in the run's manifest
    runs.mark_deleted(lock, run, now, age)
    whole_run(CleanupPhase.OLD_RUNS, storage, run, why)  # phases 2 and 3: its manifests and its data

The invariants: a run is marked as deleted before the first of its objects goes, in the transaction that checks that it may go;
from then on it can be neither published nor rolled back to. A run that has just ended is examined again after the stale age, as
an attempt of it may still be writing. A planned path is a folder of this very run and ends in "/"; phase 1 ignores what is not
laid out as an attempt.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Set
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildError, ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.json_format import read_attempt, read_manifest
from airflow_snowpack.builds.model import CleanupAction, CleanupPhase, Manifest, ShardAttemptResult
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import BuildRun, RunStatus, build_id, run_from
from airflow_snowpack.builds.registry.runs import NEWEST_FIRST, ended
from airflow_snowpack.builds.storage import Storage, StoredObject
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.tables.builds import build_runs

ATTEMPT = "attempt="
RUN = build_runs.c
SUCCEEDED = RUN.status == sa.literal_column("'succeeded'")
FAILED = RUN.status == sa.literal_column("'failed'")
RUNNING = RUN.status == sa.literal_column("'running'")


class CleanupRuns:
    """Finds the runs that cleanup has to examine, by index, and records what was done."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store = store
        self._dataset = storable(dataset)
        self._of_dataset = RUN.dataset == self._dataset

    def with_losers(self, now: datetime) -> list[BuildRun]:
        """Return the runs of phase 1: published, and not yet searched for losing attempts."""
        return self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_(None))

    def stale(self, now: datetime, age: timedelta) -> list[BuildRun]:
        """Return the runs of phase 2: failed, or running with a lease that expired longer ago than ``age``."""
        failed = self._runs(self._due(now), FAILED)
        # A lease ends after its run has begun; the condition on started_at is for the index.
        return failed + self._runs(self._of_dataset, RUNNING, RUN.started_at <= now - age, RUN.visible_at <= now - age)

    def beyond(self, now: datetime, keep: int, *, current: str | None = None) -> list[BuildRun]:
        """Return the runs of phase 3: published and beyond the ``keep`` newest, or not completely deleted.

        :param current: the current run, which counts as published whatever the registry has recorded.
        """
        kept = sa.select(build_runs).where(self._of_dataset, SUCCEEDED, RUN.deleted_at.is_(None)).order_by(*NEWEST_FIRST.order())
        begun = self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_not(None))
        unrecorded = self._runs(RUN.build_id == build_id(self._dataset, current), ~SUCCEEDED) if current is not None else []
        if not unrecorded:
            return begun + self._read(kept.offset(keep))
        published = sorted([*self._read(kept), *unrecorded], key=lambda run: (run.as_of, run.sequence), reverse=True)
        return begun + published[keep:]

    def mark_deleted(self, lock: DatasetLock, run: BuildRun, now: datetime, age: timedelta) -> bool:
        """Mark a run as deleted; ``False``: it has changed since it was read, and is kept.

        :param age: how long ago the lease of a running run must have expired.
        :raises StaleBuild: the lock was lost.
        """
        if run.status is RunStatus.RUNNING:
            # A run that was resumed or published since does not match: its lease or its status is another.
            unchanged = sa.and_(RUNNING, RUN.visible_at <= now - age)
            abandoned = f"Its lease expired at {run.lease_until or run.started_at:%Y-%m-%d %H:%M} UTC."
            values = ended(RunStatus.FAILED, now, abandoned) | {"deleted_at": now}
        else:
            unchanged = RUN.status == run.status.value
            values = {"deleted_at": sa.func.coalesce(RUN.deleted_at, sa.literal(now, RUN.deleted_at.type)), "cleanup_at": now}

        def write(conn: sa.Connection) -> bool:
            lock.renew_in(conn)
            return conn.execute(sa.update(build_runs).where(self._is(run), unchanged).values(values)).rowcount == 1

        return self._store.transact(write)

    def examined(self, run: BuildRun, now: datetime, age: timedelta) -> None:
        """Record that nothing is left to delete for now; a run whose attempts may still be writing is examined again."""
        again = (run.finished_at or now) + age
        # Not a run that phase 3 has meanwhile begun to delete, which is due at once.
        same = RUN.deleted_at.is_(None) if run.status is RunStatus.SUCCEEDED else FAILED
        self._store.execute(sa.update(build_runs).where(self._is(run), same).values(cleanup_at=again if again > now else None))

    def gone(self, run: BuildRun) -> None:
        """Record that phase 3 has deleted the run; its attempts ended long ago."""
        self._store.execute(sa.update(build_runs).where(self._is(run), RUN.deleted_at.is_not(None)).values(cleanup_at=None))

    def known(self) -> set[str]:
        """Return the ids of the runs that may have folders: not deleted, or still to be examined by cleanup."""
        kept = sa.or_(RUN.deleted_at.is_(None), RUN.cleanup_at.is_not(None))
        return set(self._store.scalars(sa.select(RUN.run_id).where(self._of_dataset, kept)))

    def _due(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self._of_dataset, RUN.cleanup_at.is_not(None), RUN.cleanup_at <= now)

    def _is(self, run: BuildRun) -> sa.ColumnElement[bool]:
        return RUN.build_id == build_id(run.dataset, run.run_id)

    def _runs(self, *where: sa.ColumnElement[bool]) -> list[BuildRun]:
        return self._read(sa.select(build_runs).where(*where).order_by(RUN.as_of, RUN.sequence))

    def _read(self, query: sa.Select[Any]) -> list[BuildRun]:
        return [run_from(row) for row in self._store.all(query)]


def losing_attempts(storage: Storage, run: BuildRun) -> list[CleanupAction]:
    """Return the folders of the attempts that are not in the run's manifest; an action with an error if it cannot be read."""
    try:
        shards = _manifest(storage, run).shards
        actions = []
        for (shard_id, folder), found in sorted(_attempts(storage, run).items()):
            winner = _winner_folder(storage, shards[shard_id], folder)
            if folder != winner:
                reason = f"the attempt {_name(folder)} at shard {shard_id} lost to {_name(winner)}"
                actions.append(_action(CleanupPhase.LOSERS, run, folder, reason, found, shard_id))
        return actions
    except BuildError as error:
        return [_unreadable(CleanupPhase.LOSERS, run, error)]


def whole_run(
    phase: CleanupPhase, storage: Storage, run: BuildRun, reason: str, *, without: Set[str] = frozenset()
) -> list[CleanupAction]:
    """Return the folders of a run: its manifests first, then its data; an action with an error if they cannot be listed.

    :param without: folders of attempts that phase 1 has in its own plan.
    """
    try:
        return list(_folders(phase, storage, run, reason, without))
    except BuildError as error:
        return [_unreadable(phase, run, error)]


def _folders(phase: CleanupPhase, storage: Storage, run: BuildRun, reason: str, without: Set[str]) -> Iterator[CleanupAction]:
    for folder in (layout.manifest_folder(run.run_id), layout.run_folder(run.run_id)):
        found = [each for each in storage.objects(folder, half_written=True) if _attempt_folder(each.path) not in without]
        if found:
            yield _action(phase, run, folder, reason, found)


def _unreadable(phase: CleanupPhase, run: BuildRun, error: BuildError) -> CleanupAction:
    folder = layout.run_folder(run.run_id)
    return CleanupAction(phase, run.dataset, run.run_id, folder, "it could not be read", error=str(error))


def _action(
    phase: CleanupPhase, run: BuildRun, path: str, reason: str, found: list[StoredObject], shard_id: int | None = None
) -> CleanupAction:
    size = sum(each.bytes for each in found)
    return CleanupAction(phase, run.dataset, run.run_id, path, reason, shard_id, objects=len(found), bytes=size)


def _manifest(storage: Storage, run: BuildRun) -> Manifest:
    if run.manifest is None or run.checksum is None:
        raise ManifestDamaged(layout.manifest_folder(run.run_id), "the registry does not know the manifest of this published run")
    return read_manifest(storage.read(run.manifest), run.manifest, run.checksum)


def _attempts(storage: Storage, run: BuildRun) -> dict[tuple[int, str], list[StoredObject]]:
    """Return the objects of each attempt, by its shard and folder."""
    attempts: dict[tuple[int, str], list[StoredObject]] = defaultdict(list)
    above = layout.run_folder(run.run_id)
    for found in storage.objects(above, half_written=True):
        shard, _, rest = found.path.removeprefix(above).partition("/")
        name, slash, _ = rest.partition("/")
        shard_id = layout.shard_of_folder(shard)
        if shard_id is not None and slash and name.startswith(ATTEMPT) and shard_id < run.num_shards:
            attempts[shard_id, f"{above}{shard}/{name}/"].append(found)
    return attempts


def _winner_folder(storage: Storage, winner: ShardAttemptResult, attempt: str) -> str:
    """Return the winner's folder; for a winner without a file, ``attempt`` itself if its record is the winner's."""
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
    return folder.rstrip("/").rpartition("/")[2].removeprefix(ATTEMPT)
