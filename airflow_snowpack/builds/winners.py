"""Chooses, for each shard, the one attempt that counts.

    attempts = read_attempts(storage, run_id)
    shards = select_winners(attempts, num_shards=8, run_id=run_id)

Several attempts at a shard that succeed are normal: writers retry and speculate. The winner is the smallest
``(attempt, task_attempt_id or 2^63 - 1, url or "")``, whatever order they are given in. The attempts come from their own durable
records, as the one who started them hears of one attempt for each shard only.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import ManifestDamaged, ObjectMissing, ShardCoverageError
from airflow_snowpack.builds.model import NO_TASK_ATTEMPT, ShardAttemptResult
from airflow_snowpack.builds.records import read_attempt, to_json
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)

READERS = 16


def winner_sort_key(attempt: ShardAttemptResult) -> tuple[int, int, str]:
    """The specification's comparator: the smallest of a shard's attempts wins."""
    task_attempt_id = NO_TASK_ATTEMPT if attempt.task_attempt_id is None else attempt.task_attempt_id
    return attempt.attempt, task_attempt_id, attempt.url or ""


def select_winners(attempts: Iterable[ShardAttemptResult], num_shards: int, run_id: str) -> tuple[ShardAttemptResult, ...]:
    """The winners, in the order of their shards.

    :raises ShardCoverageError: shards without an attempt, or attempts at shards outside of ``[0, num_shards)``.
    """
    winners: dict[int, ShardAttemptResult] = {}
    for attempt in attempts:
        best = winners.get(attempt.shard_id)
        if best is None or _is_before(attempt, best):
            winners[attempt.shard_id] = attempt
    missing = [shard_id for shard_id in range(num_shards) if shard_id not in winners]
    unknown = sorted(shard_id for shard_id in winners if not 0 <= shard_id < num_shards)
    if missing or unknown:
        raise ShardCoverageError(run_id, num_shards, missing, unknown)
    return tuple(winners[shard_id] for shard_id in range(num_shards))


def _is_before(one: ShardAttemptResult, other: ShardAttemptResult) -> bool:
    mine, theirs = winner_sort_key(one), winner_sort_key(other)
    # Two attempts that the comparator takes for the same must not be told apart by who came first.
    return to_json(one) < to_json(other) if mine == theirs else mine < theirs


def read_attempts(storage: Storage, run_id: str) -> list[ShardAttemptResult]:
    """All successful attempts of a run, by their records. What has no sound record did not succeed, and is logged.

    :raises StorageFailed: the storage cannot be read, so that nobody knows.
    """
    sizes = {found.path: found.bytes for found in storage.objects(layout.run_folder(run_id))}
    records = sorted(path for path in sizes if path.endswith(f"/{layout.RECORD}"))

    def read(path: str) -> ShardAttemptResult | None:
        try:
            attempt = read_attempt(storage.read(path), path)
            _check(attempt, run_id, path, sizes)
        except (ManifestDamaged, ObjectMissing) as error:
            log.warning("attempt_ignored: %s", error)
            return None
        return attempt

    with ThreadPoolExecutor(READERS, thread_name_prefix="snowpack-attempts") as readers:
        return [attempt for attempt in readers.map(read, records) if attempt is not None]


def _check(attempt: ShardAttemptResult, run_id: str, path: str, sizes: dict[str, int]) -> None:
    """A record tells of its own folder, and of a file that is there."""
    folder = path.removesuffix(layout.RECORD)
    if attempt.run_id != run_id or not folder.startswith(layout.shard_folder(run_id, attempt.shard_id)):
        raise ManifestDamaged(path, f"it tells of shard {attempt.shard_id} of the run {attempt.run_id}, and stands elsewhere")
    if attempt.url is None:
        return
    if not attempt.url.startswith(folder):
        raise ManifestDamaged(path, f"its file {attempt.url} stands in another folder")
    if sizes.get(attempt.url) != attempt.bytes:
        raise ManifestDamaged(path, f"its file {attempt.url} of {attempt.bytes} bytes has {sizes.get(attempt.url, 'no')} bytes")
