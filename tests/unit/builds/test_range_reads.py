"""A look-up in a large shard of a remote storage reads the pages that it needs; one that reads much has the shard copied."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from snapshots import point, publish, remote_storage, twins

from airflow_snowpack.builds.block_checksums import BLOCK
from airflow_snowpack.builds.errors import ManifestDamaged, StorageFailed
from airflow_snowpack.builds.json_format import to_json
from airflow_snowpack.builds.model import ShardFormat, Sharding
from airflow_snowpack.builds.pointer import find_manifest
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.storage import Storage

IDS = list(range(0, 60_000, 3))
ROWS = pa.table({"id": IDS, "name": [Random(key).randbytes(60).hex() for key in IDS]})
ONE = Sharding.hash(1)
FORMATS = pytest.mark.parametrize("shard_format", list(ShardFormat))


@pytest.fixture
def far(tmp_path: Path) -> Storage:
    return remote_storage(str(tmp_path / "far"))


@pytest.fixture
def opened(far: Storage, tmp_path: Path) -> Callable[..., SnapshotReader]:
    """A reader that reads every shard by ranges, until half of it was read."""

    def open_reader(**how: Any) -> SnapshotReader:
        return SnapshotReader(far, cache_dir=tmp_path / "cache", **{"range_reads_above": 0} | how)

    return open_reader


def copies(tmp_path: Path) -> int:
    return len([path for path in (tmp_path / "cache").rglob("*") if path.suffix in (".sqlite", ".parquet")])


@FORMATS
def test_a_few_look_ups_read_a_part_of_the_shard_and_copy_nothing(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path, shard_format: ShardFormat
) -> None:
    publish(far, ROWS, key="id", sharding=ONE, shard_format=shard_format, batch_size=1000)
    reader = opened()
    row = ROWS.slice(7, 1).to_pylist()[0]
    assert (reader.get(21), reader.get(22), reader.get_all(21)) == (row, None, [row])
    assert reader.multi_get([21, 22]) == {21: row}
    assert copies(tmp_path) == 0


@FORMATS
def test_a_shard_of_which_half_was_read_is_copied(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path, shard_format: ShardFormat
) -> None:
    publish(far, ROWS, key="id", sharding=ONE, shard_format=shard_format, batch_size=1000)
    reader = opened()
    for key in IDS[::500]:
        assert reader.get(key) is not None
    assert copies(tmp_path) == 1
    far._fs.handler.fs.away = True
    assert len(reader.multi_get(IDS)) == len(IDS)


@FORMATS
def test_a_scan_and_a_question_for_many_keys_copy_the_shard_at_once(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path, shard_format: ShardFormat
) -> None:
    publish(far, ROWS, key="id", sharding=ONE, shard_format=shard_format, batch_size=1000)
    reader = opened()
    assert reader.get(21) is not None
    assert copies(tmp_path) == 0
    assert sum(1 for _ in reader.scan()) == len(IDS)
    assert copies(tmp_path) == 1
    other = SnapshotReader(far, cache_dir=tmp_path / "cache" / "other", range_reads_above=0)
    assert len(other.multi_get(IDS)) == len(IDS)
    assert copies(tmp_path) == 2


def test_a_shard_that_is_copied_already_or_small_is_not_read_by_ranges(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path
) -> None:
    publish(far, ROWS, key="id", sharding=ONE)
    assert opened(range_reads_above=2**30).get(21) is not None
    assert copies(tmp_path) == 1
    reader = opened()
    before = len(far._fs.handler.fs.opened)
    assert reader.get(24) is not None
    assert len(far._fs.handler.fs.opened) == before


@FORMATS
@pytest.mark.parametrize("damage", ["gone", "another size", "zeros"])
def test_a_shard_that_turns_out_damaged_makes_the_reader_step_back(
    far: Storage, opened: Callable[..., SnapshotReader], shard_format: ShardFormat, damage: str
) -> None:
    first = publish(far, ROWS, key="id", run_id="r1", sharding=ONE, shard_format=shard_format)
    publish(far, ROWS.slice(0, 5000), key="id", run_id="r2", sharding=ONE, shard_format=shard_format, after=first)
    reader = opened()
    shard = reader.manifest.shards[0]
    path = str(shard.url)
    if damage == "gone":
        far.delete(path)
    else:
        far.write(path, bytes(shard.bytes if damage == "zeros" else 1))
    assert reader.get(IDS[-1]) is not None, "which only the first build has"
    assert reader.fallback is not None
    assert reader.manifest.run_id == "r1"


@FORMATS
@pytest.mark.parametrize("opened_before", [False, True])
def test_no_row_and_no_absence_is_read_from_another_build_s_shard_of_the_same_path_and_size(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path, shard_format: ShardFormat, opened_before: bool
) -> None:
    keys = list(range(0, 180_000, 3))
    rows, other = twins(far, Storage(tmp_path / "other"), keys, shard_format)
    reader = opened()
    if opened_before:
        assert (reader.get(0), reader.get(1)) == (rows[0], None)
    far.write(str(reader.manifest.shards[0].url), other)
    found = []
    for key in [0, *keys[::4999], keys[-1]]:
        with suppress(ManifestDamaged):
            found.append(reader.get(key) == rows[key])
    assert all(found), "blocks that were fetched before may answer"
    assert len(found) < 10
    if not opened_before:
        assert found == []
        with pytest.raises(ManifestDamaged):
            reader.get(keys[-1] + 3)


@FORMATS
def test_a_shard_without_checksums_inside_is_copied_and_verified_whole(
    far: Storage, opened: Callable[..., SnapshotReader], tmp_path: Path, shard_format: ShardFormat
) -> None:
    current = publish(far, ROWS, key="id", sharding=ONE, shard_format=shard_format)
    path, manifest = find_manifest(far, current.run_id)
    data = to_json(replace(manifest, shards=(replace(manifest.shards[0], block_seed=None),)))
    far.write(path, data)
    point(far, path, current.run_id, data, current)
    assert opened().get(21) is not None
    assert copies(tmp_path) == 1


@FORMATS
def test_a_storage_that_is_away_is_no_damage(
    far: Storage, opened: Callable[..., SnapshotReader], shard_format: ShardFormat
) -> None:
    publish(far, ROWS, key="id", sharding=ONE, shard_format=shard_format, batch_size=1000)
    reader = opened()
    far._fs.handler.fs.away = True
    with pytest.raises(StorageFailed, match="the storage is away"):
        reader.get(21)
    far._fs.handler.fs.away = False
    assert reader.get(21) is not None
    assert reader.fallback is None


@FORMATS
def test_any_number_of_threads_may_look_up_at_once(
    far: Storage, opened: Callable[..., SnapshotReader], shard_format: ShardFormat
) -> None:
    publish(far, ROWS, key="id", sharding=Sharding.hash(3), shard_format=shard_format, batch_size=500)
    reader = opened()
    wrong: list[object] = []

    def ask(begin: int) -> None:
        try:
            for key in IDS[begin::400]:
                row = reader.get(key)
                if row is None or row["id"] != key or reader.get(key + 1) is not None:
                    wrong.append((key, row))
        except Exception as error:  # noqa: BLE001 - the test checks which
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=[begin]) for begin in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@settings(max_examples=60)
@given(
    st.integers(1, 6 * BLOCK), st.lists(st.tuples(st.integers(0, 7 * BLOCK), st.integers(0, 3 * BLOCK)), min_size=1, max_size=8)
)
def test_a_range_is_what_the_file_has_there_and_each_block_is_fetched_once(
    tmp_path_factory: pytest.TempPathFactory, size: int, ranges: list[tuple[int, int]]
) -> None:
    storage = Storage(tmp_path_factory.mktemp("ranges"))
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    storage.write("file", data)
    outgrown: list[int] = []
    file = RangedFile(storage, "file", size, lambda: outgrown.append(file.fetched))
    for offset, length in ranges:
        assert file.read(offset, length) == data[offset : offset + length]
    assert file.fetched <= size
    assert file.requests <= len(ranges) * 2
    assert len(outgrown) == (file.fetched > size // 2)


def test_a_file_of_another_size_is_damaged(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    storage.write("file", b"12345")
    with pytest.raises(ManifestDamaged, match="it has 5 bytes, and 6 in the manifest"):
        RangedFile(storage, "file", 6).read(0, 1)
    with pytest.raises(ManifestDamaged, match="it does not exist"):
        RangedFile(storage, "other", 6).read(0, 1)
