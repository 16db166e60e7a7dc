"""Cleanup deletes what no reader and no writer needs, as its dry run shows, and forgets nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from built_runs import (
    DATASET,
    DAY,
    MIDNIGHT,
    begun,
    built,
    cleanup_losers,
    cleanup_old_runs,
    current_run,
    everything,
    folders,
    manifest_of,
    published,
    selected,
    write_attempt,
)
from clocks import MovedClock

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.cleanup import cleanup
from airflow_snowpack.builds.errors import BuildNotFound, DatasetBusy, DatasetNotFound, InvalidBuild, StaleBuild
from airflow_snowpack.builds.json_format import to_json
from airflow_snowpack.builds.model import CleanupAction, Retention
from airflow_snowpack.builds.publish import publish, rollback
from airflow_snowpack.builds.registry.model import BuildRun
from airflow_snowpack.builds.registry.retention import CleanupRuns
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Deleted, Storage


def paths(actions: list[CleanupAction]) -> list[str]:
    return [action.path for action in actions]


@pytest.mark.one_database
def test_a_winner_whose_folders_name_begins_like_a_losers_stays(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=1)
    for task in (10, 1, 100):
        write_attempt(storage, handle.run_id, 0, task=task)
    for run_id in (f"{handle.run_id}0", f"{handle.run_id}.2"):
        write_attempt(storage, run_id, 0, task=1)
    publish(registry, storage, handle, selected(storage, handle))
    above = f"data/{handle.run_id}/shard=00000/"
    assert paths(cleanup_losers(registry, storage, DATASET)) == [f"{above}attempt=00-10/", f"{above}attempt=00-100/"]
    assert current_run(storage) == handle.run_id
    assert folders(storage, "data/") == [handle.run_id, f"{handle.run_id}.2", f"{handle.run_id}0"]


@pytest.mark.one_database
def test_what_a_killed_attempt_half_wrote_is_a_loser_too(registry: BuildRegistry, storage: Storage) -> None:
    handle, manifest = built(registry, storage, MIDNIGHT, shards=1)
    left = layout.attempt_folder(handle.run_id, 0, 0, "1")
    storage.write(f"{left}x", b"")
    storage.local_path(f"{left}x").rename(storage.local_path(f"{left}shard.parquet.writing-1"))
    publish(registry, storage, handle, manifest)
    (action,) = cleanup_losers(registry, storage, DATASET)
    assert (action.path, action.objects) == (left, 1)
    assert not storage.local_path(left).exists()


@pytest.mark.one_database
def test_a_winner_without_a_file_is_known_by_its_record(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=1)
    winner = replace(write_attempt(storage, handle.run_id, 0, task=None), url=None, rows=0, bytes=0, checksum=None)
    storage.write(f"{layout.attempt_folder(handle.run_id, 0, 0, 'local')}{layout.RECORD}", to_json(winner))
    write_attempt(storage, handle.run_id, 0, attempt=1, task=None)
    publish(registry, storage, handle, manifest_of(handle, (winner,)))
    assert paths(cleanup_losers(registry, storage, DATASET)) == [layout.attempt_folder(handle.run_id, 0, 1, "local")]


@pytest.mark.one_database
def test_an_attempt_that_ends_after_its_build_was_published_is_found_later(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    (run_id,) = published(registry, storage, 0)
    assert cleanup(registry, storage, DATASET) == []
    write_attempt(storage, run_id, 1, task=9)
    clock.move(DAY)
    assert paths(cleanup(registry, storage, DATASET)) == [f"data/{run_id}/shard=00001/attempt=00-9/"]
    assert not registry.run(DATASET, run_id).losers_left
    write_attempt(storage, run_id, 1, task=9)
    assert cleanup(registry, storage, DATASET) == [], "two looks are all, so that runs that are kept cost nothing"


@pytest.mark.one_database
def test_losers_of_a_damaged_manifest_stay_and_are_reported(registry: BuildRegistry, storage: Storage) -> None:
    damaged, sound = published(registry, storage, 0, 1, losers=1)
    storage.write(f"manifests/{damaged}/1.json", b"{}")
    done = cleanup_losers(registry, storage, DATASET)
    assert [(action.run_id, action.error is None) for action in done] == [(damaged, False), (sound, True), (sound, True)]
    assert "its checksum is" in (done[0].error or "")
    assert registry.run(DATASET, damaged).losers_left


@pytest.mark.one_database
def test_a_run_that_was_long_in_the_making_is_kept_for_as_long_after_its_last_holder(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    handle, _ = built(registry, storage, MIDNIGHT)
    clock.move(2 * DAY)
    assert registry.heartbeat(handle)
    clock.move(timedelta(hours=1))  # between two tasks: its lease is over, and its checks wait for a free slot
    assert cleanup(registry, storage, DATASET) == []
    again = registry.resume(DATASET, handle.run_id, holder="publish")
    assert publish(registry, storage, again, selected(storage, again)).moved


def test_a_deleted_run_can_neither_be_published_nor_rolled_back_to(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    left, manifest = built(registry, storage, MIDNIGHT)
    old, _, _ = published(registry, storage, 0, 1, 2)
    clock.move(2 * DAY)
    cleanup(registry, storage, DATASET, Retention(keep_runs=1))
    with pytest.raises(StaleBuild):
        publish(registry, storage, left, manifest)
    with pytest.raises(BuildNotFound, match="it was cleaned up at 2026-01-03T00:00:00"):
        rollback(registry, storage, DATASET, to=old, by=None)
    with pytest.raises(BuildNotFound, match="are kept before the current one"):
        rollback(registry, storage, DATASET, to="-1", by=None)


@pytest.mark.one_database
def test_what_a_failed_run_still_writes_is_found_later(registry: BuildRegistry, storage: Storage, clock: MovedClock) -> None:
    handle, _ = built(registry, storage, MIDNIGHT)
    registry.fail(handle, "x")
    assert len(cleanup(registry, storage, DATASET)) == 1
    write_attempt(storage, handle.run_id, 0, task=5)
    clock.move(DAY)
    (action,) = cleanup(registry, storage, DATASET)
    assert action.reason == "something was written after the failed run was deleted"
    clock.move(DAY)
    assert cleanup(registry, storage, DATASET) == []
    assert everything(storage) == set()


class Stubborn(Storage):
    """A storage that does not delete some folders."""

    keeps: tuple[str, ...] = ()

    def delete(self, path: str) -> Deleted:
        if path.startswith(self.keeps):
            return Deleted(0, 0, (f"Could not delete {path}: it is stubborn",))
        return super().delete(path)


@pytest.mark.one_database
def test_one_deletion_that_fails_stops_no_other_and_the_next_pass_finds_it(
    registry: BuildRegistry, tmp_path: Path, clock: MovedClock
) -> None:
    storage = Stubborn(tmp_path / "flights")
    first, second, third = published(registry, storage, 0, 1, 2, losers=1)
    failed, _ = built(registry, storage, MIDNIGHT + DAY)
    registry.fail(failed, "x")
    retention = Retention(keep_runs=1)
    storage.keeps = (f"data/{third}/shard=00000/attempt=00-1/", f"data/{failed.run_id}/", f"manifests/{second}/")
    done = cleanup(registry, storage, DATASET, retention)
    assert {action.path for action in done if action.error} == set(storage.keeps)
    assert len(done) > len(storage.keeps)
    kept, storage.keeps = storage.keeps, ()
    again = cleanup(registry, storage, DATASET, retention)
    assert {action.path for action in again} == set(kept)
    assert not any(action.error for action in again)
    assert folders(storage, "data/") == [third]
    assert first not in folders(storage, "manifests/")
    assert current_run(storage) == third


@pytest.mark.one_database
def test_the_half_written_pointer_of_a_killed_process_is_deleted(
    registry: BuildRegistry, storage: Storage, clock: MovedClock
) -> None:
    published(registry, storage, 0)
    old, young = (storage.local_path(f"_CURRENT.writing-{number}") for number in (1, 2))
    for half, written in ((old, clock.now - registry.policy.lock_lease), (young, clock.now)):
        half.write_bytes(b"{")
        os.utime(half, (written.timestamp(), written.timestamp()))
    assert cleanup(registry, storage, DATASET) == []
    assert (old.exists(), young.exists()) == (False, True)
    assert current_run(storage) == "20260101T000000Z"


def test_a_cleanup_fails_while_another_process_publishes(registry: BuildRegistry, storage: Storage) -> None:
    published(registry, storage, 0, 1)
    with registry.lock(DATASET, "the publisher"), pytest.raises(DatasetBusy, match="the publisher"):
        cleanup(registry, storage, DATASET, Retention(keep_runs=1))
    assert len(folders(storage, "data/")) == 2
    with pytest.raises(DatasetNotFound):
        cleanup(registry, storage, "nothing")


def test_a_publication_need_not_wait_for_deletions(registry: BuildRegistry, tmp_path: Path) -> None:
    outcomes = []

    class Watched(Storage):
        def delete(self, path: str) -> Deleted:
            day = 3 + len(outcomes)
            outcomes.append(publish(registry, self, *built(registry, self, MIDNIGHT + day * DAY)).moved)
            return super().delete(path)

    storage = Watched(tmp_path / "flights")
    runs = published(registry, storage, 0, 1, 2)
    done = cleanup_old_runs(registry, storage, DATASET, Retention(keep_runs=1))
    assert paths(done) == [f"{kind}/{run_id}/" for run_id in (runs[1], runs[0]) for kind in ("manifests", "data")]
    assert outcomes == [True] * 4
    assert current_run(storage) == "20260107T000000Z"


def test_a_run_that_is_being_deleted_can_neither_be_rolled_back_to_nor_resumed(
    registry: BuildRegistry, tmp_path: Path, clock: MovedClock
) -> None:
    class Watched(Storage):
        def delete(self, path: str) -> Deleted:
            with pytest.raises(BuildNotFound, match="it was cleaned up"):
                rollback(registry, self, DATASET, to=old, by=None)
            with pytest.raises(BuildNotFound, match="has already failed"):
                registry.resume(DATASET, left.run_id)
            return super().delete(path)

    storage = Watched(tmp_path / "flights")
    old, current = published(registry, storage, 0, 1)
    left, _ = built(registry, storage, MIDNIGHT + 2 * DAY)
    clock.move(2 * DAY)
    assert len(cleanup(registry, storage, DATASET, Retention(keep_runs=1))) == 3
    assert current_run(storage) == current


def test_a_cleanup_that_lost_the_dataset_deletes_nothing(
    registry: BuildRegistry, storage: Storage, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = CleanupRuns.beyond

    def find_slowly(runs: CleanupRuns, now: datetime, keep: int, *, current: str | None = None) -> list[BuildRun]:
        clock.move(registry.policy.lock_lease)
        registry.lock(DATASET, "another")
        return find(runs, now, keep, current=current)

    monkeypatch.setattr(CleanupRuns, "beyond", find_slowly)
    published(registry, storage, 0, 1, 2)
    with pytest.raises(StaleBuild, match="the dataset flights"):
        cleanup_old_runs(registry, storage, DATASET, Retention(keep_runs=1))
    assert len(folders(storage, "manifests/")) == 3


@pytest.mark.one_database
def test_ten_thousand_shards_are_cleaned_up(registry: BuildRegistry, storage: Storage) -> None:
    handle = begun(registry, storage, MIDNIGHT, shards=10_000)
    shard = write_attempt(storage, handle.run_id, 0)
    shards = tuple(
        replace(shard, shard_id=shard_id, url=f"{layout.attempt_folder(handle.run_id, shard_id, 0, '0')}shard.parquet")
        for shard_id in range(10_000)
    )
    data = storage.read(shard.url or "")
    for each in shards:
        file = storage.local_path(each.url or "")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    loser = write_attempt(storage, handle.run_id, 9_999, task=1)
    publish(registry, storage, handle, manifest_of(handle, shards))
    (action,) = cleanup_losers(registry, storage, DATASET)
    assert (action.shard_id, action.path) == (9_999, (loser.url or "").removesuffix("shard.parquet"))


@pytest.mark.parametrize("wrong", [{"keep_runs": 0}, {"stale_attempt_age": timedelta(seconds=-1)}])
def test_a_retention_that_would_delete_the_current_run_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidBuild):
        Retention(**wrong)  # type: ignore[arg-type]  # one of the two
