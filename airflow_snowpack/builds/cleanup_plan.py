"""What of a run cleanup would delete; reads, and never writes.

    losing_attempts(storage, run)                        # phase 1: folders of attempts that are not in the run's manifest
    whole_run(CleanupPhase.OLD_RUNS, storage, run, why)  # phases 2 and 3: its manifests and its data

The invariant: a path is a folder of this very run and ends in "/". What is not laid out as an attempt is left alone by phase 1.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Set
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildError, ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.json_format import read_attempt, read_manifest
from airflow_snowpack.builds.model import BuildRun, CleanupAction, CleanupPhase, Manifest, RunStatus
from airflow_snowpack.builds.registry.dataset_lock import DatasetLock
from airflow_snowpack.builds.registry.model import build_id, run_from
from airflow_snowpack.builds.registry.runs import ended
from airflow_snowpack.builds.storage import Storage, StoredObject
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.build_tables import build_runs

ATTEMPT = "attempt="


def losing_attempts(storage: Storage, run: BuildRun) -> list[CleanupAction]:
    """The folders of the attempts that are not in the run's manifest; an action with an error when that cannot be told."""

    def plan() -> Iterator[CleanupAction]:
        manifest = _manifest(storage, run)
        winners = _Winners(storage, manifest)
        for (shard_id, folder), found in sorted(_attempts(storage, run).items()):
            winner = winners.folder(shard_id, folder)
            if folder == winner:
                continue
            reason = f"the attempt {_name(folder)} at shard {shard_id} lost to {_name(winner)}"
            yield _action(CleanupPhase.LOSERS, run, folder, reason, found, shard_id)

    return _planned(CleanupPhase.LOSERS, run, plan)


def whole_run(
    phase: CleanupPhase, storage: Storage, run: BuildRun, reason: str, *, without: Set[str] = frozenset()
) -> list[CleanupAction]:
    """Everything of a run: what points to its data first, and then the data.

    :param without: folders of attempts that phase 1 has in its own plan.
    """

    def plan() -> Iterator[CleanupAction]:
        for folder in (layout.manifest_folder(run.run_id), layout.run_folder(run.run_id)):
            found = [each for each in storage.objects(folder, half_written=True) if _attempt_folder(each.path) not in without]
            if found:
                yield _action(phase, run, folder, reason, found)

    return _planned(phase, run, plan)


def _planned(phase: CleanupPhase, run: BuildRun, plan: Callable[[], Iterator[CleanupAction]]) -> list[CleanupAction]:
    try:
        return list(plan())
    except BuildError as error:
        folder = layout.run_folder(run.run_id)
        return [CleanupAction(phase, run.dataset, run.run_id, folder, "it could not be looked at", error=str(error))]


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
    """The objects of each attempt, by its shard and folder."""
    attempts: dict[tuple[int, str], list[StoredObject]] = defaultdict(list)
    above = layout.run_folder(run.run_id)
    for found in storage.objects(above, half_written=True):
        shard, _, rest = found.path.removeprefix(above).partition("/")
        name, slash, _ = rest.partition("/")
        shard_id = layout.shard_of_folder(shard)
        if shard_id is not None and slash and name.startswith(ATTEMPT) and shard_id < run.num_shards:
            attempts[shard_id, f"{above}{shard}/{name}/"].append(found)
    return attempts


class _Winners:
    """Where the winner of each shard stands."""

    def __init__(self, storage: Storage, manifest: Manifest) -> None:
        self._storage = storage
        self._shards = manifest.shards

    def folder(self, shard_id: int, attempt: str) -> str:
        """The winner's folder; for a winner without a file, ``attempt`` itself if its record is the winner's."""
        winner = self._shards[shard_id]
        if winner.url is not None:
            return f"{posixpath.dirname(winner.url)}/"
        record = f"{attempt}{layout.RECORD}"
        try:
            mine = read_attempt(self._storage.read(record), record) == winner
        except (ObjectMissing, ManifestDamaged):
            mine = False
        return attempt if mine else "another"


def _attempt_folder(path: str) -> str:
    return "/".join(path.split("/", maxsplit=4)[:4]) + "/"


def _name(folder: str) -> str:
    return folder.rstrip("/").rpartition("/")[2].removeprefix(ATTEMPT)


RUN = build_runs.c
SUCCEEDED = RUN.status == sa.literal_column("'succeeded'")
FAILED = RUN.status == sa.literal_column("'failed'")
RUNNING = RUN.status == sa.literal_column("'running'")


class CleanupLedger:
    """Finds runs by index, so that those with nothing to do cost nothing."""

    def __init__(self, store: Store, dataset: str) -> None:
        self._store = store
        self._dataset = storable(dataset)
        self._of_dataset = RUN.dataset == self._dataset

    def with_losers(self, now: datetime) -> list[BuildRun]:
        """Phase 1: published runs whose losing attempts were not looked for yet."""
        return self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_(None))

    def stale(self, now: datetime, age: timedelta) -> list[BuildRun]:
        """Phase 2: runs that failed, and runs that nobody has held for ``age``: so long ago their leases ran out."""
        failed = self._runs(self._due(now), FAILED)
        # A run's lease ends after its beginning; that condition is for the index.
        return failed + self._runs(self._of_dataset, RUNNING, RUN.started_at <= now - age, RUN.visible_at <= now - age)

    def beyond(self, now: datetime, keep: int, *, served: str | None = None) -> list[BuildRun]:
        """Phase 3: published runs beyond the ``keep`` newest, and those whose deletion did not get through.

        :param served: the run that readers see. It is published, whatever is on record of it.
        """
        newest_first = (RUN.as_of.desc(), RUN.sequence.desc())
        kept = sa.select(build_runs).where(self._of_dataset, SUCCEEDED, RUN.deleted_at.is_(None)).order_by(*newest_first)
        begun = self._runs(self._due(now), SUCCEEDED, RUN.deleted_at.is_not(None))
        unrecorded = self._runs(RUN.build_id == build_id(self._dataset, served), ~SUCCEEDED) if served is not None else []
        if not unrecorded:
            return begun + self._rows(kept.offset(keep))
        published = sorted([*self._rows(kept), *unrecorded], key=lambda run: (run.as_of, run.sequence), reverse=True)
        return begun + published[keep:]

    def doom(self, lock: DatasetLock, run: BuildRun, now: datetime, age: timedelta) -> bool:
        """Decide that the run's objects go; ``False``: it is another run than it was, and stays.

        :param age: for how long nobody must have held a run that has not ended.
        :raises StaleBuild: the lock was lost.
        """
        left = sa.and_(RUNNING, RUN.visible_at <= now - age)
        abandoned = f"Nobody has held it since {run.lease_until or run.started_at:%Y-%m-%d %H:%M} UTC."
        values = ended(RunStatus.FAILED, now, abandoned) | {"deleted_at": now}
        # A run that was resumed or published since does not match: its status or its lease is another.
        still = left if run.status is RunStatus.RUNNING else RUN.status == run.status.value
        if run.status is not RunStatus.RUNNING:
            values = {"deleted_at": sa.func.coalesce(RUN.deleted_at, sa.literal(now, RUN.deleted_at.type)), "cleanup_at": now}

        def write(conn: sa.Connection) -> bool:
            lock.holds(conn)
            return conn.execute(sa.update(build_runs).where(self._is(run), still).values(values)).rowcount == 1

        return self._store.transact(write)

    def looked_at(self, run: BuildRun, now: datetime, age: timedelta) -> None:
        """Nothing of it is left to delete for now. Those whose attempts may still be writing are looked at once more."""
        again = (run.finished_at or now) + age
        values: dict[str, Any] = {"cleanup_at": again if again > now else None}
        # Not a run that phase 3 has begun to delete meanwhile, which is to be looked at at once.
        same = RUN.deleted_at.is_(None) if run.status is RunStatus.SUCCEEDED else FAILED
        self._write(run, same, values)

    def gone(self, run: BuildRun) -> None:
        """Phase 3 is through with the run; its attempts ended long ago."""
        self._write(run, RUN.deleted_at.is_not(None), {"cleanup_at": None})

    def accounted_for(self) -> set[str]:
        """The ids of the runs whose folders are there for a reason: not deleted, or still to be looked at by cleanup."""
        there = sa.or_(RUN.deleted_at.is_(None), RUN.cleanup_at.is_not(None))
        query = sa.select(RUN.run_id).where(self._of_dataset, there)
        return set(self._store.read(lambda conn: conn.execute(query).scalars().all()))

    def _write(self, run: BuildRun, still: sa.ColumnElement[bool], values: dict[str, Any]) -> None:
        update = sa.update(build_runs).where(self._is(run), still).values(values)
        self._store.transact(lambda conn: conn.execute(update))

    def _due(self, now: datetime) -> sa.ColumnElement[bool]:
        return sa.and_(self._of_dataset, RUN.cleanup_at.is_not(None), RUN.cleanup_at <= now)

    def _is(self, run: BuildRun) -> sa.ColumnElement[bool]:
        return RUN.build_id == build_id(run.dataset, run.run_id)

    def _runs(self, *where: sa.ColumnElement[bool]) -> list[BuildRun]:
        query = sa.select(build_runs).where(*where).order_by(RUN.as_of, RUN.sequence)
        return self._rows(query)

    def _rows(self, query: sa.Select[Any]) -> list[BuildRun]:
        return [run_from(row) for row in self._store.read(lambda conn: conn.execute(query).all())]
