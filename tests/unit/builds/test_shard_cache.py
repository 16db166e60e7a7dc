"""Shards of a far storage are copied once, whole, within a limit, and for all processes of the machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from snapshots import ask_all, downloads, publish, remote_storage

from airflow_snowpack.builds.errors import ManifestDamaged, StorageFailed
from airflow_snowpack.builds.model import Manifest, ShardAttemptResult, ShardFormat, Sharding
from airflow_snowpack.builds.pointer import find_manifest
from airflow_snowpack.builds.read import shard_cache
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.read.shard_cache import PART, ShardCache
from airflow_snowpack.builds.storage import Storage

KEYS = list(range(400))


@pytest.fixture
def far(tmp_path: Path) -> Storage:
    storage = remote_storage(str(tmp_path / "flights"))
    publish(storage, pa.table({"id": KEYS, "name": [f"flight {key}" for key in KEYS]}), key="id", run_id="r1")
    storage._fs.handler.fs.opened.clear()
    return storage


@pytest.fixture
def manifest(far: Storage) -> Manifest:
    return find_manifest(far, "r1")[1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def located(cache: ShardCache, shard: ShardAttemptResult) -> Path:
    with cache.path(shard) as path:
        return path


def copies(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("lock-")]


def test_a_local_storage_is_read_in_place(tmp_path: Path, folder: Path) -> None:
    storage = Storage(tmp_path / "flights")
    publish(storage, pa.table({"id": KEYS}), key="id")
    with SnapshotReader(storage, cache_dir=folder) as reader:
        assert len(reader.multi_get(KEYS)) == 400
    assert not folder.exists()


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_each_shard_is_copied_once_for_all_readers(far: Storage, folder: Path, shard_format: ShardFormat) -> None:
    publish(far, pa.table({"id": KEYS}), key="id", shard_format=shard_format, run_id="r2")
    far._fs.handler.fs.opened.clear()
    for _ in range(2):
        with SnapshotReader(far, cache_dir=folder) as reader:
            assert len(reader.multi_get(KEYS)) == len(list(reader.scan())) == 400
    assert len(downloads(far)) == len(set(downloads(far))) == 4
    assert len(copies(folder)) == 4


def test_shards_of_one_question_do_not_evict_each_other_from_a_small_cache(far: Storage, folder: Path) -> None:
    publish(far, pa.table({"id": KEYS}), key="id", sharding=Sharding.hash(32), run_id="r2")
    far._fs.handler.fs.opened.clear()
    for again in range(8):
        with SnapshotReader(far, cache_dir=folder / str(again), cache_bytes=1) as reader:
            assert len(reader.multi_get(KEYS)) == 400
            assert reader.fallback is None
    assert len(downloads(far)) == 8 * 32


@pytest.mark.parametrize("copied_already", [False, True])
def test_a_copy_that_is_being_opened_is_not_evicted_by_another_process(
    far: Storage, folder: Path, manifest: Manifest, copied_already: bool
) -> None:
    cache, other = (ShardCache(far, folder, max_bytes=1) for _ in range(2))
    if copied_already:
        located(cache, manifest.shards[0])
    with cache.path(manifest.shards[0]) as path:
        evicting = threading.Thread(target=located, args=(other, manifest.shards[1]))
        evicting.start()
        evicting.join(0.2)
        assert evicting.is_alive()
        assert path.exists()
    evicting.join(PATIENCE_S)
    assert not path.exists()


def test_threads_that_want_one_shard_at_once_copy_it_once(far: Storage, folder: Path) -> None:
    reader = SnapshotReader(far, cache_dir=folder)
    together = threading.Barrier(8)

    def ask(key: int) -> bool:
        together.wait()
        return reader.get(key) is not None

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, [7] * 8))
    assert len(downloads(far)) == 1


def test_processes_that_want_the_same_shards_at_once_copy_each_once(far: Storage, folder: Path) -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        asking = [pool.submit(ask_all, far.url, str(folder), KEYS) for _ in range(2)]
        answers = [each.result(PATIENCE_S) for each in asking]
    assert [found for found, _ in answers] == [400, 400]
    assert sum(copied for _, copied in answers) == 4


def test_a_copy_that_was_spoilt_is_copied_again(far: Storage, folder: Path) -> None:
    SnapshotReader(far, cache_dir=folder).multi_get(KEYS)
    for copy in copies(folder):
        copy.write_bytes(copy.read_bytes()[:-1] + b"?")
    assert len(SnapshotReader(far, cache_dir=folder).multi_get(KEYS)) == 400
    assert len(downloads(far)) == 8


def test_what_arrives_damaged_never_gets_a_name(far: Storage, folder: Path, manifest: Manifest) -> None:
    shard = manifest.shards[0]
    far.write(shard.url or "", far.read(shard.url or "")[:-1])
    with pytest.raises(ManifestDamaged, match="in the manifest"):
        located(ShardCache(far, folder), shard)
    assert copies(folder) == []


def test_a_missing_file_is_damage_and_an_unavailable_storage_is_not(far: Storage, folder: Path, manifest: Manifest) -> None:
    cache = ShardCache(far, folder)
    far._fs.handler.fs.away = True
    with pytest.raises(StorageFailed):
        located(cache, manifest.shards[0])
    far._fs.handler.fs.away = False
    far.delete(manifest.shards[0].url or "")
    with pytest.raises(ManifestDamaged, match="it does not exist"):
        located(cache, manifest.shards[0])
    assert copies(folder) == []


def test_the_longest_unused_copies_go_when_they_outgrow_the_limit(far: Storage, folder: Path, manifest: Manifest) -> None:
    size = max(shard.bytes for shard in manifest.shards)
    cache = ShardCache(far, folder, max_bytes=2 * size)
    paths = []
    for age, shard in enumerate(manifest.shards[:2]):
        paths.append(located(cache, shard))
        os.utime(paths[-1], (age, age))
    located(cache, manifest.shards[0])  # used again, so the other one is the longest unused
    third = located(cache, manifest.shards[2])
    assert set(copies(folder)) == {paths[0], third}


def test_a_shard_above_the_limit_is_kept_alone(
    far: Storage, folder: Path, manifest: Manifest, caplog: pytest.LogCaptureFixture
) -> None:
    cache = ShardCache(far, folder, max_bytes=1)
    for shard in manifest.shards:
        assert located(cache, shard).exists()
    assert len(copies(folder)) == 1
    assert "alone exceeds the cache's limit of 1 bytes" in caplog.text


def test_a_reader_continues_after_an_eviction(far: Storage, folder: Path) -> None:
    reader = SnapshotReader(far, cache_dir=folder, cache_bytes=1)
    for _ in range(3):
        assert len(reader.multi_get(KEYS)) == 400
    for copy in copies(folder):
        copy.unlink()
    assert len(reader.multi_get(KEYS)) == 400
    reader.close()
    assert len(reader.multi_get(KEYS)) == 400


def test_the_halves_of_killed_downloads_are_taken_away(far: Storage, folder: Path, manifest: Manifest) -> None:
    cache = ShardCache(far, folder)
    first = located(cache, manifest.shards[0])
    left_over = first.with_name(f"{first.name}{PART}.writing-1")
    left_over.write_bytes(b"half")
    first.unlink()
    located(cache, manifest.shards[0])
    assert copies(folder) == [first]


def test_a_download_in_progress_is_no_copy(far: Storage, folder: Path, manifest: Manifest) -> None:
    now = 1_000_000.0
    cache = ShardCache(far, folder, max_bytes=1, clock=lambda: now)
    first = located(cache, manifest.shards[0])
    running, forgotten = (first.with_name(f"{name}{PART}") for name in ("running", "forgotten"))
    for half, age in ((running, 10), (forgotten, 7200)):
        half.write_bytes(b"half")
        os.utime(half, (now - age, now - age))
    second = located(cache, manifest.shards[1])
    assert set(copies(folder)) == {running, second}


def test_datasets_do_not_share_copies(far: Storage, folder: Path, manifest: Manifest, tmp_path: Path) -> None:
    other = remote_storage(str(tmp_path / "other"))
    url = str(manifest.shards[0].url)
    other.write(url, far.read(url))
    assert located(ShardCache(far, folder), manifest.shards[0]) != located(ShardCache(other, folder), manifest.shards[0])


def test_a_copy_that_another_process_evicts_while_it_is_checked_is_copied_again(
    far: Storage, folder: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = located(ShardCache(far, folder), manifest.shards[0])
    checked = shard_cache.problem_of

    def evicted_meanwhile(path: Path, checksum: str, size: int) -> str | None:
        monkeypatch.setattr(shard_cache, "problem_of", checked)
        path.unlink()
        return checked(path, checksum, size)

    monkeypatch.setattr(shard_cache, "problem_of", evicted_meanwhile)
    assert located(ShardCache(far, folder), manifest.shards[0]) == path
    assert len(downloads(far)) == 2


def test_a_download_that_another_process_deletes_is_not_taken_for_a_damaged_build(
    far: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(far, pa.table({"id": KEYS, "name": ["newer"] * 400}), key="id", run_id="r2")
    reader, checked = SnapshotReader(far, cache_dir=folder), shard_cache.problem_of

    def deleted_meanwhile(path: Path, checksum: str, size: int) -> str | None:
        path.unlink(missing_ok=True)
        return checked(path, checksum, size)

    monkeypatch.setattr(shard_cache, "problem_of", deleted_meanwhile)
    with pytest.raises(FileNotFoundError):
        reader.multi_get(KEYS)
    monkeypatch.setattr(shard_cache, "problem_of", checked)
    assert reader.multi_get([1])[1]["name"] == "newer", "an older build was served"
