"""What was selected of a run, kept beside its shards until it is published: what somebody has checked is what readers are given.

    manifest = select(storage, run, build_input, Sharding.hash(8), ShardFormat.SQLITE, now)
    keep_selection(storage, manifest)                                    # in one process
    publish(registry, storage, handle, kept_selection(storage, run_id))  # in another, an hour later

The invariant: a selection carries its own checksum, and its winners are attempts of its own run.
"""

from __future__ import annotations

from datetime import datetime

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.build_input import BuildInput
from airflow_snowpack.builds.errors import BuildNotFound, ObjectMissing
from airflow_snowpack.builds.model import BuildRun, Manifest, ShardAttemptResult, ShardFormat, Sharding
from airflow_snowpack.builds.records import read_selection, selection_json
from airflow_snowpack.builds.registered import RunHandle
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.winners import select_winners

SELECTED = "_SELECTED.json"


def select(
    run: BuildRun | RunHandle,
    attempts: list[ShardAttemptResult],
    build_input: BuildInput,
    sharding: Sharding,
    shard_format: ShardFormat,
    now: datetime,
) -> Manifest:
    """The manifest of a run's winners.

    :param attempts: what :func:`read_attempts` gave.
    :raises ShardCoverageError: a shard has no successful attempt.
    """
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


def keep_selection(storage: Storage, manifest: Manifest) -> str:
    """Keep what was selected; its path, relative to the dataset's root."""
    path = _path(manifest.run_id)
    storage.write(path, selection_json(manifest))
    return path


def kept_selection(storage: Storage, dataset: str, run_id: str) -> Manifest:
    """What was selected last.

    :raises BuildNotFound: nothing was.
    :raises ManifestDamaged: it is not what was written.
    """
    try:
        return read_selection(storage.read(_path(run_id)), _path(run_id))
    except ObjectMissing:
        raise BuildNotFound(dataset, run_id, "its winners were not selected yet") from None


def _path(run_id: str) -> str:
    return f"{layout.run_folder(run_id)}{SELECTED}"
