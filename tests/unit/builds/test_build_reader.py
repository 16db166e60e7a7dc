"""A reader answers from one complete build, by whatever rule its rows were placed, and follows the pointer."""

from __future__ import annotations

import logging
import pickle
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import psutil
import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from snapshots import point, publish, remote_storage, twins

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import (
    BuildNotFound,
    InvalidBuild,
    InvalidRowKey,
    ManifestDamaged,
    NothingPublished,
    StorageFailed,
)
from airflow_snowpack.builds.json_format import to_json
from airflow_snowpack.builds.model import ShardFormat, Sharding, hash_shard
from airflow_snowpack.builds.pointer import find_manifest
from airflow_snowpack.builds.read import sqlite_reader
from airflow_snowpack.builds.read.open_build import OpenBuild
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.read.shard_cache import ShardCache
from airflow_snowpack.builds.storage import Storage

both_formats = pytest.mark.parametrize("shard_format", list(ShardFormat))


@pytest.fixture
def root(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "flights")


@pytest.fixture
def far(root: Storage) -> Storage:
    """The same storage as if it were on another machine."""
    return remote_storage(root.url)


def flights(count: int = 1000, *, origin: str = "EWR") -> pa.Table:
    return pa.table(
        {
            "tail": [f"N{number:05d}" for number in range(count)],
            "flown": list(range(count)),
            "origin": [origin if number % 2 else "LGA" for number in range(count)],
        }
    )


class Clock:
    """Seconds that pass when a test moves them."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


# -- look-ups --------------------------------------------------------------------------------------------------------------


@both_formats
def test_every_row_is_found_by_its_key_and_no_other_is(root: Storage, shard_format: ShardFormat) -> None:
    table = flights()
    publish(root, table, key="tail", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert reader.multi_get(table["tail"].to_pylist()) == {row["tail"]: row for row in table.to_pylist()}
        assert [reader.get(row["tail"]) for row in table.slice(0, 20).to_pylist()] == table.slice(0, 20).to_pylist()
        assert reader.get("N99999") is None
        assert reader.get_all("") == []
        assert reader.multi_get(["N00007", "N99999", "N00007"]) == {"N00007": reader.get("N00007")}
        assert reader.multi_get([]) == {}


@both_formats
@pytest.mark.parametrize(
    ("kind", "keys", "absent"),
    [
        (pa.int64(), [-(2**63), -1, 0, 7, 2**63 - 1], 8),
        (pa.int8(), [-128, 0, 127], 2**40),
        (pa.uint64(), [0, 2**63 - 1], -1),
        (pa.string(), ["", "a", "ä", "😀", "\uffff", "a\x00b"], "b"),
        (pa.large_string(), ["a"], "b"),
        (pa.binary(), [b"", b"\x00", b"\xff"], b"\x01"),
        (pa.binary(2), [b"ab"], b"a"),
    ],
    ids=str,
)
def test_keys_of_every_type_are_found(
    root: Storage, shard_format: ShardFormat, kind: pa.DataType, keys: list[Any], absent: Any
) -> None:
    publish(root, pa.table({"key": pa.array(keys, kind), "value": range(len(keys))}), key="key", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert [reader.get(key) for key in keys] == [{"key": key, "value": value} for value, key in enumerate(keys)]
        assert list(reader.multi_get([*keys[::-1], absent])) == keys[::-1]
        assert reader.get(absent) is None


@pytest.mark.parametrize("keys", [[-(2**63), 0, 2**63 - 1], ["", "a\x00b", "ä"], [b"", b"\x00"], ["a", "a", "b"]], ids=str)
def test_a_sqlite_that_takes_no_arrays_finds_many_keys_too(
    root: Storage, monkeypatch: pytest.MonkeyPatch, keys: list[Any]
) -> None:
    monkeypatch.setattr(sqlite_reader, "TAKES_ARRAYS", False)
    publish(root, pa.table({"key": keys, "value": range(len(keys))}), key="key", shard_format=ShardFormat.SQLITE)
    with SnapshotReader(root) as reader:
        found = reader.multi_get(keys)
    assert {key: row["value"] for key, row in found.items()} == {key: keys.index(key) for key in keys}


class Tail(StrEnum):
    FIRST = "N00001"


@pytest.mark.parametrize("arrays", [True, False])
def test_text_of_other_classes_is_a_key_as_its_text_is(root: Storage, monkeypatch: pytest.MonkeyPatch, arrays: bool) -> None:
    monkeypatch.setattr(sqlite_reader, "TAKES_ARRAYS", arrays)
    publish(root, flights(), key="tail")
    keys = [Tail.FIRST, *np.array(["N00002", "N00003"]), "N00004"]
    with SnapshotReader(root) as reader:
        assert [row["flown"] for row in reader.multi_get(keys).values()] == [1, 2, 3, 4]


def test_an_answer_keeps_no_reference_to_its_keys(root: Storage, tmp_path: Path) -> None:
    publish(root, pa.table({"key": pa.array([b"a", b"b"], pa.binary())}), key="key")
    names = tmp_path / "names"
    names.write_bytes(b"ab")
    with (
        SnapshotReader(root) as reader,
        names.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,  # it cannot be closed while anyone holds a part of it
        memoryview(mapped) as view,
        view[:1] as first,
        view[1:] as second,
    ):
        assert list(reader.multi_get([first, second]).values()) == [{"key": b"a"}, {"key": b"b"}]


def test_a_build_may_have_as_many_columns_as_sqlite_takes(root: Storage) -> None:
    table = pa.table({"key": [1, 2]} | {f"a_feature_with_a_long_name_{number}": [number, None] for number in range(1_999)})
    publish(root, table, key="key")
    with SnapshotReader(root) as reader:
        assert list(reader.multi_get([2, 1]).values()) == [reader.get(2), reader.get(1)] == table.to_pylist()[::-1]
        assert list(reader.scan()) == table.to_pylist()


def test_bytes_are_found_by_buffers_as_well(root: Storage) -> None:
    publish(root, pa.table({"key": pa.array([b"a", b"b"], pa.binary())}), key="key", shard_format=ShardFormat.SQLITE)
    with SnapshotReader(root) as reader:
        views = [memoryview(b"b"), memoryview(b"a")]
        assert list(reader.multi_get(views).values()) == [{"key": b"b"}, {"key": b"a"}]


@both_formats
def test_scalars_of_numpy_are_keys(root: Storage, shard_format: ShardFormat) -> None:
    publish(root, pa.table({"key": [1, 2, 3]}), key="key", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert reader.get(np.int64(2)) == reader.get(2)  # type: ignore[arg-type]
        assert reader.get_all(np.uint8(2)) == reader.get_all(2)  # type: ignore[arg-type]
        assert reader.multi_get(np.array([3, 1], np.int32)) == reader.multi_get([3, 1])  # type: ignore[arg-type]
        with pytest.raises(InvalidRowKey):
            reader.get(np.float64(2))  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [None, 7, b"N1", True, 1.5])
def test_what_is_no_key_of_the_build_is_refused(root: Storage, key: Any) -> None:
    publish(root, flights(), key="tail")
    with SnapshotReader(root) as reader:
        with pytest.raises(InvalidRowKey):
            reader.get(key)
        with pytest.raises(InvalidRowKey):
            reader.multi_get(["N00001", key])
        with pytest.raises(InvalidRowKey):
            reader.multi_get([key])


@pytest.mark.parametrize(("keys", "wrong"), [([7], 2**63), ([7], True), (["a"], "\ud800")])
def test_many_keys_are_refused_for_a_single_wrong_one(root: Storage, keys: list[Any], wrong: Any) -> None:
    publish(root, pa.table({"key": keys}), key="key")
    with SnapshotReader(root) as reader, pytest.raises(InvalidRowKey):
        reader.multi_get([*keys, wrong])


def test_values_come_back_as_what_they_were(root: Storage) -> None:
    row = {
        "tail": "N1",
        "due": datetime(2013, 1, 1, 10, 30, tzinfo=UTC),
        "fare": Decimal("129.90"),
        "late": True,
        "stops": ["EWR", None],
        "nothing": None,
    }
    kinds = [pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(8, 2), pa.bool_(), pa.list_(pa.string()), pa.date32()]
    schema = pa.schema(list(zip(row, kinds, strict=True)))
    publish(root, pa.Table.from_pylist([row], schema), key="tail")
    with SnapshotReader(root) as reader:
        assert reader.get("N1") == row
        assert reader.multi_get(["N1"]) == {"N1": row}
        assert list(reader.scan()) == [row]
        assert pa.Table.from_batches(reader.batches()).schema == schema


@both_formats
def test_a_key_that_repeats_has_a_first_row_and_all_of_them(root: Storage, shard_format: ShardFormat) -> None:
    table = pa.table({"tail": ["N1", "N2", "N2", "N3"] + ["N7"] * 300, "leg": range(304)})
    publish(root, table, key="tail", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert [row["leg"] for row in reader.get_all("N2")] == [1, 2]
        assert [row["leg"] for row in reader.get_all("N7")] == list(range(4, 304))
        assert reader.get("N2") == {"tail": "N2", "leg": 1}
        assert {key: row["leg"] for key, row in reader.multi_get(["N7", "N2", "N1"]).items()} == {"N7": 4, "N2": 1, "N1": 0}


def test_columns_may_have_any_name(root: Storage) -> None:
    table = pa.table({'the "key" ?': ["a"], "select": [1], "x; DROP TABLE rows": [2]})
    publish(root, table, key='the "key" ?')
    with SnapshotReader(root) as reader:
        assert reader.get("a") == table.to_pylist()[0] == reader.multi_get(["a"])["a"]


# -- where a key is looked for ---------------------------------------------------------------------------------------------


@both_formats
def test_a_category_leads_to_its_one_shard(root: Storage, shard_format: ShardFormat) -> None:
    sharding = Sharding.categories("origin", ("JFK", "LGA", "EWR"))
    publish(root, flights(), key="tail", sharding=sharding, shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert reader.get("N00007", category="EWR") == reader.get("N00007") != None  # noqa: E711 — all three are compared
        assert reader.get("N00007", category="LGA") is None
        assert reader.get("N00007", category="JFK") is None
        assert set(reader.multi_get(["N00007", "N00008"], category="LGA")) == {"N00008"}
        assert set(reader.multi_get(["N00007", "N00008"])) == {"N00007", "N00008"}
        with pytest.raises(InvalidRowKey, match="not among the 3 categories"):
            reader.get("N00007", category="SFO")


def test_a_build_whose_categories_are_its_keys_needs_no_category(root: Storage) -> None:
    table = pa.table({"origin": ["EWR", "LGA", "EWR"], "n": [1, 2, 3]})
    publish(root, table, key="origin", sharding=Sharding.categories("origin", ("LGA", "EWR")))
    with SnapshotReader(root) as reader:
        assert [row["n"] for row in reader.get_all("EWR")] == [1, 3]
        assert reader.get("SFO") is None


def test_a_build_without_categories_refuses_one(root: Storage) -> None:
    publish(root, flights(), key="tail")
    with SnapshotReader(root) as reader, pytest.raises(InvalidRowKey, match="sharded by hash and has no categories"):
        reader.get("N00007", category="EWR")


def test_an_expression_is_searched_where_the_key_can_be(root: Storage) -> None:
    table = flights()
    sharding = Sharding.expression("flown % 3", 3)
    publish(root, table, key="tail", sharding=sharding, ids=pa.array([number % 3 for number in range(1000)]))
    with SnapshotReader(root) as reader:
        assert reader.multi_get(table["tail"].to_pylist()) == {row["tail"]: row for row in table.to_pylist()}
        assert reader.get("N00500") == table.to_pylist()[500]
        assert reader.get("M") is reader.get("O") is None


def test_of_ranges_only_the_ones_around_a_key_are_opened(root: Storage) -> None:
    table = flights(100)
    sharding = Sharding.expression("flown div 10", 10)
    current = publish(root, table, key="tail", sharding=sharding, ids=pa.array([number // 10 for number in range(100)]))
    for shard in SnapshotReader(root).manifest.shards:
        if shard.shard_id != 4:
            root.delete(shard.url or "")
    with SnapshotReader(root) as reader:
        assert reader.get("N00043") == table.to_pylist()[43]
        assert set(reader.multi_get(["N00040", "N00049"])) == {"N00040", "N00049"}
        assert reader.get("N00048X") is None
    assert current.publication == 1


def test_the_same_key_in_several_shards_is_found_in_all(root: Storage) -> None:
    table = pa.table({"tail": ["N1", "N1", "N2"], "leg": [0, 1, 2]})
    publish(root, table, key="tail", sharding=Sharding.expression("leg % 2", 2), ids=pa.array([0, 1, 0]))
    with SnapshotReader(root) as reader:
        assert [row["leg"] for row in reader.get_all("N1")] == [0, 1]
        assert reader.get("N1") == {"tail": "N1", "leg": 0} == reader.multi_get(["N1"])["N1"]


# -- scans -----------------------------------------------------------------------------------------------------------------


@both_formats
def test_a_scan_gives_every_row_once_and_each_shard_in_order_of_the_key(root: Storage, shard_format: ShardFormat) -> None:
    table = flights()
    publish(root, table, key="tail", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert sorted(reader.scan(), key=lambda row: row["tail"]) == table.to_pylist()
        shard = [row["tail"] for row in reader.scan(2)]
        assert shard == sorted(shard)
        assert len(shard) == reader.manifest.shards[2].rows
        assert pa.Table.from_batches(reader.batches()).sort_by("tail") == table
        with pytest.raises(InvalidBuild, match="shards 0 to 3"):
            list(reader.scan(4))


@both_formats
def test_a_build_without_rows_is_read_as_such(root: Storage, shard_format: ShardFormat) -> None:
    publish(root, flights(1).slice(1), key="tail", shard_format=shard_format)
    with SnapshotReader(root) as reader:
        assert reader.get("N00007") is None
        assert list(reader.scan()) == list(reader.batches(0)) == []


def test_many_shards_need_no_more_than_so_many_open_files(root: Storage) -> None:
    table = flights(400)
    current = publish(root, table, key="tail", sharding=Sharding.hash(50))
    build = OpenBuild(*find_manifest(root, current.run_id), ShardCache(root), most_open=8)
    assert len(list(build.rows())) == 400
    assert build.multi_get(table["tail"].to_pylist()) == {row["tail"]: row for row in table.to_pylist()}
    assert 0 < open_files(root) <= 8
    build.close()
    assert open_files(root) == 0


def open_files(root: Storage) -> int:
    return sum(each.path.startswith(root.url) for each in psutil.Process().open_files())


def test_many_threads_read_at_once_while_the_pointer_moves(root: Storage) -> None:
    current = publish(root, flights(origin="EWR"), key="tail", run_id="r1")
    reader = SnapshotReader(root, reload_every=timedelta(0))
    seen: set[str] = set()
    done = threading.Event()

    def ask() -> None:
        while True:
            got = reader.multi_get([f"N{number:05d}" for number in range(1, 200, 2)])
            origins = {row["origin"] for row in got.values()}
            assert len(got) == 100
            assert len(origins) == 1  # never half of one build and half of another
            assert (reader.get("N00001") or {})["origin"] in ("EWR", "JFK", "SFO")
            seen.update(origins)
            if done.is_set():
                return

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask) for _ in range(6)]
        for run_id, origin in (("r2", "JFK"), ("r3", "SFO")):
            current = publish(root, flights(origin=origin), key="tail", run_id=run_id, after=current)
            while origin not in seen and not any(each.done() for each in asking):
                done.wait(0.01)
        done.set()
        for each in asking:
            each.result(PATIENCE_S)
    assert "SFO" in seen


# -- following the pointer -------------------------------------------------------------------------------------------------


def test_a_dataset_without_a_pointer_is_reported(root: Storage) -> None:
    with pytest.raises(NothingPublished, match="no _CURRENT"):
        SnapshotReader(root)


def test_the_pointer_is_followed_periodically_and_by_reload(root: Storage) -> None:
    clock = Clock()
    first = publish(root, flights(10), key="tail", run_id="r1")
    reader = SnapshotReader(root, reload_every=timedelta(minutes=1), clock=clock)
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    clock.now = 59
    assert reader.get("N00015") is None
    clock.now = 60
    assert reader.get("N00015") is not None
    assert (reader.manifest.run_id, reader.publication) == ("r2", 2)
    publish(root, flights(30), key="tail", run_id="r3", after=second)
    assert reader.get("N00025") is None
    assert reader.reload() is True
    assert reader.reload() is False
    assert reader.get("N00025") is not None


def test_a_reader_without_a_period_changes_builds_only_by_reload(root: Storage) -> None:
    clock = Clock()
    first = publish(root, flights(10), key="tail", run_id="r1")
    reader = SnapshotReader(root, reload_every=None, clock=clock)
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    clock.now = 1e9
    assert reader.get("N00015") is None
    assert reader.reload()
    assert reader.get("N00015") is not None


@both_formats
def test_a_reader_that_is_always_in_a_scan_sees_new_builds_and_each_scan_stays_in_its_own(
    root: Storage, shard_format: ShardFormat
) -> None:
    clock = Clock()
    first = publish(root, flights(10), key="tail", run_id="r1", shard_format=shard_format)
    reader = SnapshotReader(root, reload_every=timedelta(minutes=1), clock=clock)
    scan = reader.scan()
    next(scan)
    second = publish(root, flights(20), key="tail", run_id="r2", after=first, shard_format=shard_format)
    clock.now = 61
    following = reader.scan()
    next(following)
    assert reader.get("N00015") is not None
    assert (len(list(scan)), len(list(following))) == (9, 19)
    abandoned, beside = reader.scan(), reader.scan()
    next(abandoned)
    next(beside)
    publish(root, flights(30), key="tail", run_id="r3", after=second, shard_format=shard_format)
    assert reader.reload()  # by call it moves on, and the scans stay where they are
    assert (len(list(abandoned)), len(list(beside))) == (19, 19)
    assert reader.get("N00025") is not None


def test_a_pointer_with_a_smaller_number_is_ignored(root: Storage, caplog: pytest.LogCaptureFixture) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    reader = SnapshotReader(root)
    root.write(layout.CURRENT, to_json(first))
    assert reader.reload() is False
    assert reader.get("N00015") is not None
    assert "publication 1, but 2 was seen before" in caplog.text


def test_a_rollback_is_followed(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    reader = SnapshotReader(root)
    point(root, first.manifest, "r1", root.read(first.manifest), second)
    assert reader.reload()
    assert (reader.manifest.run_id, reader.publication) == ("r1", 3)
    assert reader.fallback is None


def test_a_reader_keeps_its_build_while_the_storage_is_unavailable(root: Storage, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    publish(root, flights(10), key="tail")
    reader = SnapshotReader(root, reload_every=timedelta(minutes=1), clock=clock)
    reader.get("N00003")
    root.delete(layout.CURRENT)
    clock.now = 61
    assert reader.get("N00003") is not None
    assert "is still read from" in caplog.text
    with pytest.raises(NothingPublished):
        reader.reload()
    assert reader.get("N00003") is not None


def test_an_older_build_can_be_read_by_name_and_stays(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    for ref in ("r1", first.manifest):
        reader = SnapshotReader(root, ref=ref)
        assert reader.reload() is False
        assert reader.manifest.run_id == "r1"
    with pytest.raises(BuildNotFound, match="r9"):
        SnapshotReader(root, ref="r9")
    with pytest.raises(BuildNotFound, match="no manifest at that path"):
        SnapshotReader(root, ref="manifests/r1/9.json")


def test_a_reader_can_be_sent_to_another_process(root: Storage) -> None:
    publish(root, flights(10), key="tail")
    assert pickle.loads(pickle.dumps(SnapshotReader(root))).get("N00003") == SnapshotReader(root).get("N00003")


# -- damage ----------------------------------------------------------------------------------------------------------------


def cut(root: Storage, path: str) -> None:
    root.write(path, root.read(path)[:-7])


def flip(root: Storage, path: str) -> None:
    data = bytearray(root.read(path))
    data[len(data) // 2] ^= 1
    root.write(path, bytes(data))


def lose(root: Storage, path: str) -> None:
    root.delete(path)


every_damage = pytest.mark.parametrize("damage", [cut, flip, lose])


@every_damage
def test_a_reader_falls_back_from_a_damaged_manifest_to_the_one_before(
    root: Storage, damage: Callable[[Storage, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    damage(root, second.manifest)
    reader = SnapshotReader(root)
    assert reader.manifest.run_id == "r1"
    assert reader.get("N00003") is not None
    assert reader.fallback is not None
    assert (reader.fallback.wanted, reader.fallback.used) == (second.manifest, first.manifest)
    assert second.manifest in reader.fallback.problem
    assert f"is read from {first.manifest} instead of {second.manifest}" in caplog.text


@both_formats
@every_damage
def test_a_damaged_shard_takes_the_reader_back_to_the_build_before_it(
    root: Storage, shard_format: ShardFormat, damage: Callable[[Storage, str], None], caplog: pytest.LogCaptureFixture
) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1", shard_format=shard_format)
    second = publish(root, flights(20), key="tail", run_id="r2", after=first, shard_format=shard_format)
    whole = SnapshotReader(root)
    shard = whole.manifest.shards[hash_shard("N00003", whole.manifest.key_type, 4)]
    damage(root, shard.url or "")
    reader = SnapshotReader(root)
    assert reader.get("N00003") == {"tail": "N00003", "flown": 3, "origin": "EWR"}
    assert reader.manifest.run_id == "r1"
    assert reader.fallback is not None
    assert shard.url in reader.fallback.problem
    assert len(caplog.records) == 1
    third = publish(root, flights(30), key="tail", run_id="r3", after=second, shard_format=shard_format)
    assert reader.reload()
    assert (reader.fallback, reader.manifest.run_id) == (None, "r3")
    assert third.previous == second.manifest


@both_formats
@pytest.mark.parametrize("size", [0, 5000])
def test_a_build_that_has_answered_is_never_left_for_an_older_one(root: Storage, shard_format: ShardFormat, size: int) -> None:
    """One of its shards is cut off while it is open."""
    first = publish(root, flights(3000), key="tail", run_id="r1", shard_format=shard_format)
    second = publish(root, flights(4000), key="tail", run_id="r2", after=first, shard_format=shard_format)
    reader = SnapshotReader(root)
    assert reader.get("N00003") is not None
    for shard in reader.manifest.shards:
        with root.local_path(shard.url or "").open("r+b") as file:
            file.truncate(size)
    for _ in range(2):
        with pytest.raises(ManifestDamaged):
            reader.multi_get([f"N{number:05d}" for number in range(3000)])
    assert (reader.manifest.run_id, reader.fallback) == ("r2", None)
    third = publish(root, flights(5000), key="tail", run_id="r3", after=second, shard_format=shard_format)
    assert reader.reload()
    assert reader.get("N00003") is not None
    assert (reader.manifest.run_id, third.previous) == ("r3", second.manifest)
    for shard in reader.manifest.shards:
        lose(root, shard.url or "")
    with pytest.raises(ManifestDamaged):
        reader.multi_get([f"N{number:05d}" for number in range(3000)])


@both_formats
@pytest.mark.parametrize("replaced", [False, True], ids=["overwritten", "replaced"])
@pytest.mark.parametrize("ask", ["get", "get_all", "multi_get", "scan"])
def test_no_row_is_read_from_another_build_s_shard_of_the_same_path_and_size(
    root: Storage, tmp_path: Path, shard_format: ShardFormat, replaced: bool, ask: str
) -> None:
    rows, other = twins(root, Storage(tmp_path / "other"), list(range(30_000)), shard_format)
    reader = SnapshotReader(root.url)
    calls: dict[str, Callable[[int], Any]] = {
        "get": reader.get,
        "get_all": lambda key: reader.get_all(key)[0],
        "multi_get": lambda key: reader.multi_get([key])[key],
        "scan": lambda key: next(row for row in reader.scan() if row["id"] == key),
    }
    assert calls[ask](7) == rows[7]
    path = root.local_path(str(reader.manifest.shards[0].url))
    if replaced:
        root.write(str(reader.manifest.shards[0].url), other)
    else:
        path.write_bytes(other)
    for key in (7, 29_000):
        with pytest.raises(ManifestDamaged):
            calls[ask](key)


@both_formats
def test_a_file_that_was_written_again_with_its_own_bytes_is_not_damaged(root: Storage, shard_format: ShardFormat) -> None:
    publish(root, flights(), key="tail", shard_format=shard_format)
    reader = SnapshotReader(root.url)
    row = reader.get("N00007")
    for shard in reader.manifest.shards:
        root.write(str(shard.url), root.read(str(shard.url)))
    assert (reader.get("N00007"), reader.fallback) == (row, None)


@pytest.mark.parametrize("ask", ["get", "multi_get", "scan"])
def test_text_that_is_none_any_more_is_damage_too(root: Storage, ask: str) -> None:
    publish(root, flights(10), key="tail", sharding=Sharding.hash(1))
    with SnapshotReader(root) as reader:
        [shard] = reader.manifest.shards
        assert reader.get("N00001") is not None  # the file was whole when it was opened
        with closing(sqlite3.connect(root.local_path(shard.url or ""))) as connection:
            connection.execute("UPDATE rows SET origin = CAST(x'ff' AS TEXT) WHERE tail = 'N00003'")
            connection.commit()
        questions = {
            "get": lambda: reader.get("N00003"),
            "multi_get": lambda: reader.multi_get(["N00003"]),
            "scan": lambda: list(reader.scan()),
        }
        with pytest.raises(ManifestDamaged, match="can no longer be read"):
            questions[ask]()


def test_a_machine_out_of_memory_is_no_damage(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    publish(root, flights(20_000), key="tail", run_id="r2", after=first)
    keys = [f"N{number:05d}" for number in range(20_000)]
    with SnapshotReader(root) as reader:
        assert reader.get(keys[0]) is not None
        apsw.hard_heap_limit(apsw.memory_used() + 20_000)
        try:
            with pytest.raises(MemoryError):
                reader.multi_get(keys)
        finally:
            apsw.hard_heap_limit(0)
        assert len(reader.multi_get(keys)) == 20_000
        assert reader.fallback is None


def test_a_damaged_build_gets_another_chance_by_call_only(root: Storage) -> None:
    clock = Clock()
    first = publish(root, flights(10), key="tail", run_id="r1")
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    data = root.read(second.manifest)
    flip(root, second.manifest)
    reader = SnapshotReader(root, clock=clock)
    root.write(second.manifest, data)
    clock.now = 1e6
    assert reader.get("N00015") is None
    assert reader.reload()
    assert reader.get("N00015") is not None
    assert reader.fallback is None


def test_a_scan_that_meets_damage_stops_and_the_next_one_is_of_the_build_before(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    reader = SnapshotReader(root)
    flip(root, reader.manifest.shards[3].url or "")
    with pytest.raises(ManifestDamaged, match="checksum"):
        list(reader.scan())
    assert len(list(reader.scan())) == 10


def test_without_a_whole_build_the_reader_reports_the_damage_of_the_current_one(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    for current in (first, second):
        flip(root, current.manifest)
    with pytest.raises(ManifestDamaged, match=second.manifest):
        SnapshotReader(root)


def test_two_builds_that_name_each_other_as_the_one_before_are_no_endless_loop(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    second = publish(root, flights(20), key="tail", run_id="r2", after=first)
    point(root, first.manifest, "r1", root.read(first.manifest), second)
    reader = SnapshotReader(root)
    for manifest in (reader.manifest, SnapshotReader(root, ref="r2").manifest):
        for shard in manifest.shards:
            lose(root, shard.url or "")
    with pytest.raises(ManifestDamaged):
        reader.get("N00003")


def test_a_build_that_was_cleaned_up_meanwhile_is_left_for_the_new_one(root: Storage) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    reader = SnapshotReader(root, reload_every=None)
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    root.delete(layout.run_folder("r1"))
    assert reader.get("N00003") is not None
    assert (reader.manifest.run_id, reader.fallback) == ("r2", None)


def test_a_damaged_pointer_is_reported(root: Storage) -> None:
    publish(root, flights(10), key="tail")
    root.write(layout.CURRENT, b"{}")
    with pytest.raises(ManifestDamaged, match="_CURRENT"):
        SnapshotReader(root)


def test_a_storage_that_cannot_be_read_is_no_damage(root: Storage, far: Storage, tmp_path: Path) -> None:
    first = publish(root, flights(10), key="tail", run_id="r1")
    publish(root, flights(20), key="tail", run_id="r2", after=first)
    reader = SnapshotReader(far, cache_dir=tmp_path / "cache")
    far._fs.handler.fs.away = True
    with pytest.raises(StorageFailed):
        reader.get("N00003")
    far._fs.handler.fs.away = False
    assert reader.get("N00003") is not None
    assert (reader.manifest.run_id, reader.fallback) == ("r2", None)


def test_quiet_reading_logs_nothing(root: Storage, caplog: pytest.LogCaptureFixture) -> None:
    publish(root, flights(10), key="tail")
    with caplog.at_level(logging.INFO), SnapshotReader(root) as reader:
        reader.get("N00003")
    assert caplog.records == []
