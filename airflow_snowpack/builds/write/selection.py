"""Select the winning attempt of each shard, and keep the selection until it is published.

    manifest = select(run, read_attempts(storage, run_id), build_input, Sharding.hash(8), ShardFormat.SQLITE, now)
    keep_selection(storage, manifest)                                             # in one process
    publish(registry, storage, handle, kept_selection(storage, "flights", run_id))      # in another, an hour later

Writers retry and speculate, so a shard often has several successful attempts. The winner is the smallest ``(attempt,
task_attempt_id or 2^63 - 1, url or "")``, in whatever order the attempts are read. They are read from their records, because the
process that started them sees only one attempt per shard. A kept selection contains its own checksum.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.build_spec import BuildInput
from airflow_snowpack.builds.errors import BuildNotFound, ManifestDamaged, ObjectMissing, ShardCoverageError
from airflow_snowpack.builds.json_format import read_attempt, read_selection, selection_json, to_json
from airflow_snowpack.builds.model import NO_TASK_ATTEMPT, Manifest, ShardAttemptResult, ShardFormat, Sharding
from airflow_snowpack.builds.registry.model import BuildRun, RunHandle
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)

SELECTED = "_SELECTED.json"
PARALLEL_READS = 16


def select(
    run: BuildRun | RunHandle,
    attempts: list[ShardAttemptResult],
    build_input: BuildInput,
    sharding: Sharding,
    shard_format: ShardFormat,
    now: datetime,
) -> Manifest:
    """Return the manifest of the winners among :func:`read_attempts`; raises like :func:`select_winners`."""
    return Manifest(
        dataset=run.dataset,
        run_id=run.run_id,
        as_of=run.as_of,
        created_at=now,
        key_column=build_input.key_column,
        key_type=build_input.key_type,
        sharding=sharding,
        shard_format=shard_format,
        columns=build_input.columns,
        shards=select_winners(attempts, sharding.num_shards, run.run_id),
        sources=build_input.sources,
    )


def select_winners(attempts: Iterable[ShardAttemptResult], num_shards: int, run_id: str) -> tuple[ShardAttemptResult, ...]:
    """Return the winners, in the order of their shards; raise :class:`ShardCoverageError` for a missing or unknown shard."""
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


def winner_sort_key(attempt: ShardAttemptResult) -> tuple[int, int, str]:
    """Return the key by which a shard's smallest attempt wins."""
    task_attempt_id = NO_TASK_ATTEMPT if attempt.task_attempt_id is None else attempt.task_attempt_id
    return attempt.attempt, task_attempt_id, attempt.url or ""


def _is_before(one: ShardAttemptResult, other: ShardAttemptResult) -> bool:
    mine, theirs = winner_sort_key(one), winner_sort_key(other)
    # Equal keys are ordered by content: the order of reading must not decide.
    return to_json(one) < to_json(other) if mine == theirs else mine < theirs


def read_attempts(storage: Storage, run_id: str) -> list[ShardAttemptResult]:
    """Read the successful attempts of a run from their records; a damaged record is logged and ignored."""
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

    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="snowpack-attempts") as pool:
        return [attempt for attempt in pool.map(read, records) if attempt is not None]


def _check(attempt: ShardAttemptResult, run_id: str, path: str, sizes: dict[str, int]) -> None:
    """Raise :class:`ManifestDamaged` if the record is in another folder, or its file is missing or has another size."""
    folder = path.removesuffix(layout.RECORD)
    if attempt.run_id != run_id or not folder.startswith(layout.shard_folder(run_id, attempt.shard_id)):
        problem = f"it is the record of shard {attempt.shard_id} of the run {attempt.run_id}, in a folder of another one"
        raise ManifestDamaged(path, problem)
    if attempt.url is None:
        return
    if not attempt.url.startswith(folder):
        raise ManifestDamaged(path, f"its file {attempt.url} is in another folder")
    if sizes.get(attempt.url) != attempt.bytes:
        raise ManifestDamaged(path, f"its file {attempt.url} of {attempt.bytes} bytes has {sizes.get(attempt.url, 'no')} bytes")


def keep_selection(storage: Storage, manifest: Manifest) -> str:
    """Store a selection beside its shards; return its path, relative to the dataset's root."""
    path = _path(manifest.run_id)
    storage.write(path, selection_json(manifest))
    return path


def kept_selection(storage: Storage, dataset: str, run_id: str) -> Manifest:
    """Return a run's latest selection; raise :class:`BuildNotFound` if it has none, :class:`ManifestDamaged` if it is damaged."""
    try:
        return read_selection(storage.read(_path(run_id)), _path(run_id))
    except ObjectMissing:
        raise BuildNotFound(dataset, run_id, "its winners are not selected yet") from None


def _path(run_id: str) -> str:
    return f"{layout.run_folder(run_id)}{SELECTED}"
