"""What of a run cleanup would delete; reads, and never writes.

    losing_attempts(storage, run)                        # phase 1: folders of attempts that are not in the run's manifest
    whole_run(CleanupPhase.OLD_RUNS, storage, run, why)  # phases 2 and 3: its manifests and its data

The invariant: a path is a folder of this very run and ends in "/". What is not laid out as an attempt is left alone by phase 1.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Set

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildError, ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.model import BuildRun, CleanupAction, CleanupPhase, Manifest
from airflow_snowpack.builds.records import read_attempt, read_manifest
from airflow_snowpack.builds.storage import Storage, StoredObject

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
