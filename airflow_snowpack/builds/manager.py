"""Builds for the API, the pages and the command line: inspect, verify, publish, roll back and clean up, by dataset name.

    builds = BuildManager(registry, open_storage)
    found = builds.inspect("flights", "20260101T000000Z", after=99, limit=100)
    found.shards[0].winner, found.shards[0].attempts
    builds.rollback("flights", to="-1", actor=Actor("vera", via="api"))
    builds.cleanup("flights", Retention(keep_runs=7), actor=None)          # a dry run

Invariant: a change of the current build and its audit entry are one transaction. A cleanup takes many; its entry is written
before the first deletion. Inspecting a page of shards lists only the folders of these shards, and reads only the run's manifest.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound, ManifestDamaged
from airflow_snowpack.builds.model import CleanupAction, FileCheck, Manifest, Retention, ShardAttemptResult
from airflow_snowpack.builds.pointer import manifest_at, published_pointer
from airflow_snowpack.builds.publish import outcome_of, publish_selected, rollback
from airflow_snowpack.builds.read.verify import Verification, verify
from airflow_snowpack.builds.registry.model import BuildRun, PublishOutcome, RunStatus
from airflow_snowpack.builds.registry.publications import audit_subject
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage, StoredObject
from airflow_snowpack.durations import format_duration
from airflow_snowpack.store import Actor, write_audit

SHARDS_PER_PAGE = 100
PARALLEL_LISTINGS = 16
ATTEMPT = re.compile(r"attempt=(\d+)-([^/]+)/")


@dataclass(frozen=True, slots=True)
class AttemptInspection:
    """The objects in the folder of one attempt.

    :param folder: relative to the dataset's root; ends in "/".
    :param token: makes the folder unique: Spark's ``taskAttemptId``, for example.
    :param complete: its record exists, so it succeeded.
    :param won: the manifest names it; ``None`` if there is no manifest yet.
    """

    folder: str
    attempt: int
    token: str
    objects: int
    bytes: int
    complete: bool
    won: bool | None


@dataclass(frozen=True, slots=True)
class ShardInspection:
    """A shard of a run.

    :param winner: from the manifest; ``None`` if there is none yet.
    :param attempts: those with objects in the storage, including the winner.
    """

    shard_id: int
    winner: ShardAttemptResult | None
    attempts: tuple[AttemptInspection, ...]

    @property
    def losers(self) -> tuple[AttemptInspection, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.won is False)


@dataclass(frozen=True, slots=True)
class RunInspection:
    """A run and a page of its shards; ``problem`` is why its manifest cannot be read."""

    run: BuildRun
    manifest: Manifest | None
    problem: str | None
    shards: tuple[ShardInspection, ...]
    more: bool
    """More shards follow."""


@dataclass(frozen=True, slots=True)
class Skew:
    """How unevenly rows are distributed over shards.

    :param largest: the id of the shard with the most rows, which has ``rows``.
    :param average: the rows of the average shard.
    :param times: ``rows`` divided by ``average``.
    :param empty: the number of shards without rows.
    """

    largest: int
    rows: int
    average: float
    times: float
    empty: int


class BuildManager:
    """Inspects and changes the builds of all datasets; ``open_storage`` opens a dataset's URL with its credentials."""

    def __init__(self, registry: BuildRegistry, open_storage: Callable[[str], Storage]) -> None:
        self.registry = registry
        self._open_storage = open_storage

    def storage(self, dataset: str) -> Storage:
        """Open a dataset's storage, or raise :class:`DatasetNotFound` if none of its builds has ever begun."""
        return self._open_storage(self.registry.dataset(dataset).url)

    def inspect(self, dataset: str, run_id: str, *, after: int = -1, limit: int = SHARDS_PER_PAGE) -> RunInspection:
        """Inspect a run and a page of its shards.

        :param after: the last shard of the previous page.
        :raises BuildNotFound: there is no such run.
        :raises StorageFailed: the storage could not be read.
        """
        storage, run = self.storage(dataset), self.registry.run(dataset, run_id)
        manifest, problem = _manifest(storage, run)
        ids = range(min(after + 1, run.num_shards), min(after + 1 + limit, run.num_shards))
        winners = manifest.shards if manifest is not None else ()
        with ThreadPoolExecutor(PARALLEL_LISTINGS, "snowpack-inspect") as pool:
            attempts = pool.map(lambda shard_id: _attempts(storage, run, shard_id, winners), ids)
            shards = [
                ShardInspection(shard_id, winners[shard_id] if winners else None, found)
                for shard_id, found in zip(ids, attempts, strict=True)
            ]
        return RunInspection(run, manifest, problem, tuple(shards), ids.stop < run.num_shards)

    def verify(self, dataset: str, run_id: str | None = None) -> Verification:
        """Read a published build back; see :func:`verify`.

        :param run_id: ``None`` for the current build.
        :raises BuildError: there is no such build, or its pointer or manifest is damaged.
        """
        storage = self.storage(dataset)
        if run_id is None:
            current = published_pointer(storage)
            path, checksum = current.manifest, current.checksum
        else:
            run = self.registry.run(dataset, run_id)
            if run.manifest is None or run.checksum is None or run.deleted_at is not None:
                problem = "it is not published" if run.manifest is None else "it was cleaned up"
                raise BuildNotFound(dataset, run_id, problem)
            path, checksum = run.manifest, run.checksum
        return verify(storage, path, manifest_at(storage, path, checksum))

    def publish(self, dataset: str, run_id: str, *, actor: Actor, verify: FileCheck = FileCheck.SIZES) -> PublishOutcome:
        """Publish a run whose winners are selected; a published run is left as it is.

        :param verify: see :func:`publish`.
        :raises DatasetNotFound, BuildNotFound: there is no such run, it has failed, or its winners are not selected.
        :raises BuildError: see :func:`publish`.
        """
        storage = self.storage(dataset)
        self.registry.run(dataset, run_id)
        published = outcome_of(self.registry, dataset, run_id)  # without its selection, which cleanup may have deleted
        if published is not None:
            return published
        return publish_selected(self.registry, storage, dataset, run_id, holder=actor.name, verify=verify, actor=actor)[0]

    def rollback(self, dataset: str, to: str, *, actor: Actor) -> PublishOutcome:
        """Make another published build current; see :func:`rollback`."""
        return rollback(self.registry, self.storage(dataset), dataset, to, actor.name, actor=actor)

    def cleanup(self, dataset: str, retention: Retention, *, actor: Actor | None) -> list[CleanupAction]:
        """Delete what no reader and no writer needs; without an ``actor``, only return the plan (dry run)."""
        storage = self.storage(dataset)
        if actor is None:
            return cleanup(self.registry, storage, dataset, retention, dry_run=True)
        store, subject = self.registry.store, audit_subject(dataset)
        detail = {"keep_runs": retention.keep_runs, "stale_attempt_age": format_duration(retention.stale_attempt_age)}
        store.transact(lambda conn: write_audit(conn, store, actor, "cleanup_builds", subject, **detail))
        return cleanup(self.registry, storage, dataset, retention, holder=actor.name)


def skew(shards: Sequence[ShardAttemptResult]) -> Skew:
    rows = [shard.rows for shard in shards]
    average = sum(rows) / len(rows) if rows else 0.0
    return Skew(
        largest=max(range(len(rows)), key=rows.__getitem__, default=0),
        rows=max(rows, default=0),
        average=average,
        times=max(rows, default=0) / average if average else 1.0,
        empty=rows.count(0),
    )


def can_publish(run: BuildRun) -> bool:
    return run.status is RunStatus.RUNNING


def can_roll_back_to(run: BuildRun, current_run: str | None) -> bool:
    return run.status is RunStatus.SUCCEEDED and run.deleted_at is None and run.run_id != current_run


def _manifest(storage: Storage, run: BuildRun) -> tuple[Manifest | None, str | None]:
    if run.manifest is None or run.deleted_at is not None:
        return None, None
    try:
        return manifest_at(storage, run.manifest, run.checksum), None
    except ManifestDamaged as damage:
        return None, str(damage)


def _attempts(
    storage: Storage, run: BuildRun, shard_id: int, winners: Sequence[ShardAttemptResult]
) -> tuple[AttemptInspection, ...]:
    above = layout.shard_folder(run.run_id, shard_id)
    folders: dict[tuple[str, str], list[StoredObject]] = defaultdict(list)
    for found in storage.objects(above):
        if (match := ATTEMPT.match(found.path, len(above))) is not None:
            folders[match[1], match[2]].append(found)
    winner = f"{posixpath.dirname(winners[shard_id].url or '')}/" if winners else None
    attempts = []
    for (number, token), objects in folders.items():
        folder = f"{above}attempt={number}-{token}/"
        complete = any(each.path == f"{folder}{layout.RECORD}" for each in objects)
        size = sum(each.bytes for each in objects)
        won = None if winner is None else folder == winner
        attempts.append(AttemptInspection(folder, int(number), token, len(objects), size, complete, won))
    return tuple(sorted(attempts, key=lambda each: (each.won is not True, each.attempt, len(each.token), each.token)))
