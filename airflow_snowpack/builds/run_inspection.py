"""What there is of one run: its shards, which attempt at each of them counts, and which lost.

    look = look_at(registry, storage, "flights", "20260101T000000Z", after=99, limit=100)
    look.shards[0].winner, look.shards[0].attempts
    skew(look.manifest.shards).times                    # the largest shard is so many times as large as the average

The invariant: a look costs what is looked at. A page of a run lists the folders of its own shards and no others, however many
the run has; of the whole run only the manifest is read.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.model import BuildRun, Manifest, RunStatus, ShardAttemptResult
from airflow_snowpack.builds.pointer import manifest_at
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage, StoredObject

SHARDS = 100
LISTERS = 16
ATTEMPT = re.compile(r"attempt=(\d+)-(.+)")


@dataclass(frozen=True, slots=True)
class AttemptSeen:
    """What stands in one attempt's folder.

    :param folder: relative to the dataset's root; it ends in "/".
    :param token: what makes it unique, such as Spark's ``taskAttemptId``.
    :param complete: its record is there, so it succeeded.
    :param won: it is the one in the manifest; ``None`` while there is none.
    """

    folder: str
    attempt: int
    token: str
    objects: int
    bytes: int
    complete: bool
    won: bool | None


@dataclass(frozen=True, slots=True)
class ShardSeen:
    """One shard.

    :param winner: as the manifest has it; ``None`` while there is none.
    :param attempts: those that are in the storage, the winner among them.
    """

    shard_id: int
    winner: ShardAttemptResult | None
    attempts: tuple[AttemptSeen, ...]

    @property
    def losers(self) -> tuple[AttemptSeen, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.won is False)


@dataclass(frozen=True, slots=True)
class RunSeen:
    """A run, and a page of its shards.

    :param problem: why its manifest cannot be read.
    :param more: there are shards after these.
    """

    run: BuildRun
    manifest: Manifest | None
    problem: str | None
    shards: tuple[ShardSeen, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Skew:
    """How unevenly rows lie in shards.

    :param times: the rows of the largest shard over those of the average one.
    """

    largest: int
    rows: int
    average: float
    times: float
    empty: int


def look_at(
    listing: BuildRegistry, storage: Storage, dataset: str, run_id: str, *, after: int = -1, limit: int = SHARDS
) -> RunSeen:
    """Look at a run.

    :param after: the last shard of the page before.
    :raises BuildNotFound: there is no such run.
    :raises StorageFailed: the storage could not be read.
    """
    run = listing.run(dataset, run_id)
    manifest, problem = _manifest(storage, run)
    ids = range(min(after + 1, run.num_shards), min(after + 1 + limit, run.num_shards))
    winners = manifest.shards if manifest is not None else ()
    with ThreadPoolExecutor(LISTERS, "snowpack-look") as listers:
        attempts = listers.map(lambda shard_id: _attempts(storage, run, shard_id, winners), ids)
        shards = [
            ShardSeen(shard_id, winners[shard_id] if winners else None, found)
            for shard_id, found in zip(ids, attempts, strict=True)
        ]
    return RunSeen(run, manifest, problem, tuple(shards), ids.stop < run.num_shards)


def skew(shards: Sequence[ShardAttemptResult]) -> Skew:
    """How unevenly the rows of a build lie."""
    rows = [shard.rows for shard in shards]
    average = sum(rows) / len(rows) if rows else 0.0
    return Skew(
        largest=max(range(len(rows)), key=rows.__getitem__, default=0),
        rows=max(rows, default=0),
        average=average,
        times=max(rows, default=0) / average if average else 1.0,
        empty=rows.count(0),
    )


def _manifest(storage: Storage, run: BuildRun) -> tuple[Manifest | None, str | None]:
    if run.manifest is None or run.deleted_at is not None:
        return None, None
    try:
        return manifest_at(storage, run.manifest, run.checksum), None
    except ManifestDamaged as damage:
        return None, str(damage)


def _attempts(storage: Storage, run: BuildRun, shard_id: int, winners: Sequence[ShardAttemptResult]) -> tuple[AttemptSeen, ...]:
    above = layout.shard_folder(run.run_id, shard_id)
    folders: dict[str, list[StoredObject]] = defaultdict(list)
    for found in storage.objects(above):
        name, slash, _ = found.path.removeprefix(above).partition("/")
        if slash and ATTEMPT.fullmatch(name):
            folders[name].append(found)
    winner = winners[shard_id] if winners else None
    seen = [_seen(above, name, found, winner) for name, found in folders.items()]
    return tuple(sorted(seen, key=lambda attempt: (attempt.won is not True, attempt.attempt, len(attempt.token), attempt.token)))


def _seen(above: str, name: str, found: Sequence[StoredObject], winner: ShardAttemptResult | None) -> AttemptSeen:
    folder = f"{above}{name}/"
    match = ATTEMPT.fullmatch(name)
    assert match is not None
    won = None
    if winner is not None:
        won = winner.url is not None and posixpath.dirname(winner.url) == folder.rstrip("/")
    return AttemptSeen(
        folder=folder,
        attempt=int(match[1]),
        token=match[2],
        objects=len(found),
        bytes=sum(each.bytes for each in found),
        complete=any(each.path == f"{folder}{layout.RECORD}" for each in found),
        won=won,
    )


def can_publish(run: BuildRun) -> bool:
    """Whether a run may still be published."""
    return run.status is RunStatus.RUNNING


def can_roll_back_to(run: BuildRun, current_run: str | None) -> bool:
    """Whether a run may be gone back to."""
    return run.status is RunStatus.SUCCEEDED and run.deleted_at is None and run.run_id != current_run
