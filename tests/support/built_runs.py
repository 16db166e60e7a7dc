"""Builds without an engine: attempts written by hand, their manifests, and what a reader who comes now would see.

handle, manifest = built(registry, storage, MIDNIGHT)
publish(registry, storage, handle, manifest)
assert current_run(storage) == handle.run_id
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

import sqlalchemy as sa

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.json_format import checksum_of, read_manifest, to_json
from airflow_snowpack.builds.model import CleanupPhase, KeyType, Manifest, ShardAttemptResult, ShardFormat, Sharding
from airflow_snowpack.builds.pointer import read_pointer
from airflow_snowpack.builds.publish import publish
from airflow_snowpack.builds.registry.model import RunHandle
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.selection import read_attempts, select_winners
from airflow_snowpack.store.tables.builds import build_runs

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
DATASET = "flights"

cleanup_losers = partial(cleanup, phases=(CleanupPhase.LOSERS,))
cleanup_stale_attempts = partial(cleanup, phases=(CleanupPhase.STALE_ATTEMPTS,))
cleanup_old_runs = partial(cleanup, phases=(CleanupPhase.OLD_RUNS,))


def write_attempt(
    storage: Storage, run_id: str, shard_id: int, attempt: int = 0, task: int | None = 0, data: bytes | None = None
) -> ShardAttemptResult:
    """One successful attempt: its file, and its record last."""
    data = data if data is not None else f"{run_id} {shard_id} {attempt} {task}".encode()
    folder = layout.attempt_folder(run_id, shard_id, attempt, "local" if task is None else str(task))
    result = ShardAttemptResult(
        run_id=run_id,
        shard_id=shard_id,
        attempt=attempt,
        task_attempt_id=task,
        url=f"{folder}shard.parquet",
        rows=1,
        bytes=len(data),
        min_key=shard_id,
        max_key=shard_id,
        checksum=checksum_of(data),
        finished_at=MIDNIGHT,
    )
    storage.write(f"{folder}shard.parquet", data)
    storage.write(f"{folder}{layout.RECORD}", to_json(result))
    return result


def damage_shard(storage: Storage, run_id: str) -> str:
    """Change one byte of the first shard's file, so that its size stays; return the path."""
    path = next(each.path for each in storage.objects(f"data/{run_id}/shard=00000/") if not each.path.endswith(layout.RECORD))
    data = storage.read(path)
    storage.delete(path)
    storage.write(path, data[:-1] + bytes([data[-1] ^ 1]))
    return path


def manifest_of(handle: RunHandle, shards: tuple[ShardAttemptResult, ...]) -> Manifest:
    return Manifest(
        dataset=handle.dataset,
        run_id=handle.run_id,
        as_of=handle.as_of,
        created_at=MIDNIGHT,
        key_column="id",
        key_type=KeyType.INTEGER,
        sharding=Sharding.hash(handle.num_shards),
        shard_format=ShardFormat.PARQUET,
        columns=(("id", "int64"),),
        shards=shards,
    )


def begun(registry: BuildRegistry, storage: Storage, as_of: datetime, *, shards: int = 2, owner: str | None = None) -> RunHandle:
    return registry.begin(DATASET, storage.url, as_of=as_of, num_shards=shards, owner=owner, storage=storage)


def selected(storage: Storage, handle: RunHandle) -> Manifest:
    return manifest_of(handle, select_winners(read_attempts(storage, handle.run_id), handle.num_shards, handle.run_id))


def built(
    registry: BuildRegistry, storage: Storage, as_of: datetime, *, shards: int = 2, owner: str | None = None, losers: int = 0
) -> tuple[RunHandle, Manifest]:
    """A run with all its shards written, ready to be published."""
    handle = begun(registry, storage, as_of, shards=shards, owner=owner)
    for shard_id in range(shards):
        for task in range(losers + 1):
            write_attempt(storage, handle.run_id, shard_id, task=task)
    return handle, selected(storage, handle)


def published(registry: BuildRegistry, storage: Storage, *days: int, losers: int = 0) -> list[str]:
    """Builds of these days, published in this order; their run ids."""
    run_ids = []
    for day in days:
        handle, manifest = built(registry, storage, MIDNIGHT + day * DAY, losers=losers)
        publish(registry, storage, handle, manifest)
        run_ids.append(handle.run_id)
    return run_ids


def complete(storage: Storage, path: str, checksum: str | None) -> Manifest:
    """The manifest, of which every file is there as it was written.

    :raises ManifestDamaged, ObjectMissing: it is not complete.
    """
    manifest = read_manifest(storage.read(path), path, checksum)
    for shard in manifest.shards:
        if shard.url is not None and checksum_of(storage.read(shard.url)) != shard.checksum:
            raise ManifestDamaged(shard.url, "its checksum is another")
    return manifest


def current_run(storage: Storage) -> str | None:
    """Return the run that a new reader reads, complete; ``None`` when nothing is published. It falls back as readers do."""
    pointer = read_pointer(storage)
    if pointer is None:
        return None
    if pointer.previous is not None:
        with suppress(ManifestDamaged, ObjectMissing):
            return complete(storage, pointer.manifest, pointer.checksum).run_id
        return complete(storage, pointer.previous, pointer.previous_checksum).run_id
    return complete(storage, pointer.manifest, pointer.checksum).run_id


def everything(storage: Storage) -> set[str]:
    """Return the paths of all objects, half-written ones included."""
    return {found.path for found in storage.objects("", half_written=True)}


def folders(storage: Storage, above: str) -> list[str]:
    """Return the names of the folders below ``manifests/`` or ``data/`` that have objects, in order."""
    return sorted({found.path.split("/")[1] for found in storage.objects(above, half_written=True)})


def unknown_folders(registry: BuildRegistry, storage: Storage, dataset: str) -> list[str]:
    """Return the folders with objects of runs that the registry does not know, or whose deletion is complete."""
    run = build_runs.c
    kept = sa.or_(run.deleted_at.is_(None), run.cleanup_at.is_not(None))
    known = registry.store.scalars(sa.select(run.run_id).where(run.dataset == dataset, kept))
    found = [f"{above}{run_id}/" for above in (layout.MANIFESTS, layout.DATA) for run_id in folders(storage, above)]
    return [folder for folder in found if folder.split("/")[1] not in known]
