"""Rows become shards without Spark: each in its place, each shard written by a subprocess, and tried again when that fails."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bounded import PATIENCE_S, Beside
from built_runs import everything
from shard_writing import write_rows

from airflow_snowpack.builds.build_spec import BuildInput
from airflow_snowpack.builds.errors import BuildError, InvalidBuild, InvalidRowKey, ShardFailed
from airflow_snowpack.builds.json_format import read_attempt
from airflow_snowpack.builds.model import KeyType, ShardAttemptResult, ShardFormat, Sharding, hash_shard
from airflow_snowpack.builds.sharding import Placing
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import ShardPlan
from airflow_snowpack.builds.write.rows_source import InputBatches
from airflow_snowpack.builds.write.shard_pool import ShardPool, Spool, SpooledRun, spooled_rows

SUPPORT = str(Path(__file__).parents[2] / "support")
NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - a local time
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "set")


def attempts(storage: Storage) -> list[ShardAttemptResult]:
    records = [found.path for found in storage.objects("data/") if found.path.endswith("_ATTEMPT.json")]
    return sorted((read_attempt(storage.read(path), path) for path in records), key=lambda each: each.shard_id)


def content(storage: Storage) -> dict[int, list[dict[str, Any]]]:
    return {each.shard_id: pq.read_table(storage.local_path(str(each.url))).to_pylist() for each in attempts(storage)}


def test_rows_are_in_their_shards_sorted_by_key(storage: Storage) -> None:
    rows = [{"id": number * 7 % 101, "name": f"n{number}"} for number in range(101)]
    written = write_rows(rows, storage, "r1", Sharding.hash(4), "id", processes=2, sources=({"file": "x"},))
    assert written == BuildInput("id", KeyType.INTEGER, (("id", "int64"), ("name", "string")), ({"file": "x"},))
    assert BuildInput.from_dict(written.as_dict()) == written
    shards = content(storage)
    assert sorted(shards) == [0, 1, 2, 3]
    assert sorted((row["id"], row["name"]) for part in shards.values() for row in part) == sorted(
        (r["id"], r["name"]) for r in rows
    )
    for shard_id, part in shards.items():
        ids = [row["id"] for row in part]
        assert ids == sorted(ids)
        assert {hash_shard(key, KeyType.INTEGER, 4) for key in ids} == {shard_id}
    assert [(each.attempt, each.task_attempt_id) for each in attempts(storage)] == [(0, None)] * 4


def test_an_empty_input_makes_empty_shards(storage: Storage) -> None:
    write_rows([], storage, "r1", Sharding.hash(3), "id", shard_format=ShardFormat.SQLITE, schema=SCHEMA, processes=1)
    assert [(each.shard_id, each.rows, each.min_key) for each in attempts(storage)] == [(0, 0, None), (1, 0, None), (2, 0, None)]
    assert all(str(each.url) in everything(storage) for each in attempts(storage))
    with pytest.raises(InvalidBuild, match="set the schema"):
        write_rows([], storage, "r1", Sharding.hash(3), "id")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1}, {"id": 2**63}], "9223372036854775808 cannot be placed: an integer key must fit into 64 bits"),
        ([{"id": 1}, {"id": None}], "a key must not be null"),
        ([{"id": 1, "name": "a"}, {"name": "b"}], "a key must not be null"),
        ([{"id": 1}, {"id": "two"}], "'two' cannot be placed: it is of the type str"),
        (pa.table({"id": pa.array([1, 2**63], pa.uint64())}), "9223372036854775808 cannot be placed"),
    ],
)
def test_a_key_that_cannot_be_placed_is_refused_before_anything_is_written(storage: Storage, rows: Any, message: str) -> None:
    with pytest.raises(InvalidRowKey, match=message):
        write_rows(rows, storage, "r1", Sharding.hash(2), "id")
    assert list(storage.objects("")) == []


@pytest.mark.parametrize(
    "rows", [[{"id": 1}, {"id": 2, "other": 3}] * 6000, [pa.table({"id": [1]}), pa.table({"name": ["a"]})], [{"id": 1}, 2], [3]]
)
def test_rows_that_do_not_fit_the_columns_are_refused(storage: Storage, rows: Any) -> None:
    rows = rows[:1] * 10_000 + rows if isinstance(rows[0], dict) else rows
    with pytest.raises(InvalidBuild, match="rows = "):
        write_rows(rows, storage, "r1", Sharding.hash(2), "id")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "day": NOON}], "day = .* does not fit date32.*Its time of day would be cut off"),
        ([{"id": 1, "leg": {"to": "EWR", "miles": 200}}], "leg = .*Its field 'miles' would be cut off"),
        ([pa.table({"id": [1], "day": [NOON], "leg": [None]})], "casting from timestamp.* would lose data"),
    ],
)
def test_a_value_that_its_column_would_change_is_refused(storage: Storage, rows: Any, message: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("leg", pa.struct([("to", pa.string())]))])
    with pytest.raises(InvalidBuild, match=f"(?s){message}"):
        write_rows(rows, storage, "r1", Sharding.hash(1), "id", schema=schema)
    assert list(storage.objects("")) == []


def test_an_expression_needs_spark(storage: Storage) -> None:
    with pytest.raises(InvalidBuild, match="an SQL expression needs Spark"):
        write_rows([{"id": 1}], storage, "r1", Sharding.expression("id % 2", 2), "id")


def test_many_shards_need_few_files(tmp_path: Path) -> None:
    placing = Placing(Sharding.hash(10_000), KeyType.INTEGER)
    spool = Spool(tmp_path, SCHEMA, placing, "id", chunk_bytes=1_000_000)
    table = pa.table(
        {"id": pa.array(range(99_999, -1, -1), pa.int64()), "name": [f"n{n}" for n in range(99_999, -1, -1)]}, SCHEMA
    )
    for batch in table.to_batches(20_000):
        spool.add(batch)
    spool.close()
    assert len(list(tmp_path.iterdir())) == 4
    expected = Counter(placing.shards(table.column("id").combine_chunks()).to_pylist())
    for shard_id in (0, 1, 17, 1000, 9_999):
        rows = pa.Table.from_batches(spooled_rows(tmp_path, spool.chunks, shard_id, "id", 3), SCHEMA).to_pylist()
        assert len(rows) == expected[shard_id]
        assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)
        assert all(row["name"] == f"n{row['id']}" for row in rows)
        assert {hash_shard(row["id"], KeyType.INTEGER, 10_000) for row in rows} <= {shard_id}
    assert sum(expected.values()) == 100_000


def test_rows_that_vanish_from_the_local_disk_fail_their_shard_instead_of_leaving_it_empty(tmp_path: Path) -> None:
    folder, set_ = tmp_path / "spool", Storage(tmp_path / "set")
    folder.mkdir()
    spool = Spool(folder, SCHEMA, Placing(Sharding.hash(1), KeyType.INTEGER), "id")
    spool.add(pa.record_batch({"id": [1], "name": ["a"]}, SCHEMA))
    spool.close()
    shutil.rmtree(folder)
    with pytest.raises(ShardFailed, match="No such file or directory"):
        ShardPool(SpooledRun(set_, "r1", ShardPlan(SCHEMA, "id"), folder, spool.chunks), tries=1).write([0], 1)
    assert attempts(set_) == []


def test_dictionaries_batches_and_tables_give_the_same_rows() -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]}, SCHEMA)
    for rows in (table, table.to_reader(), table.to_batches(2), [table, *table.slice(0, 0).to_batches()], table.to_pylist()):
        batches = InputBatches(rows, "id")
        assert pa.Table.from_batches(batches, batches.schema) == table


@pytest.fixture
def flaky_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage that kills the process that writes to it, as often as the file ``left`` has it."""
    module = tmp_path / "modules" / "deadly_files.py"
    module.parent.mkdir()
    module.write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "from fsspec.implementations.local import LocalFileSystem\n"
        f"LEFT = Path({str(tmp_path / 'left')!r})\n"
        "class Deadly(LocalFileSystem):\n"
        "    protocol = ('deadly',)\n"
        "    def open(self, path, mode='rb', **options):\n"
        "        left = int(LEFT.read_text())\n"
        "        if 'w' in mode and '_ATTEMPT' in str(path) and left:\n"
        "            LEFT.write_text(str(left - 1))\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().open(path, mode, **options)\n"
    )
    (module.parent / "sitecustomize.py").write_text(
        "import fsspec\nfsspec.register_implementation('deadly', 'deadly_files.Deadly', clobber=True)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(module.parent))
    monkeypatch.syspath_prepend(str(module.parent))
    import fsspec

    fsspec.register_implementation("deadly", "deadly_files.Deadly", clobber=True)
    return Storage(f"deadly://{tmp_path / 'set'}", {"auto_mkdir": True})


def write_with_pauses(storage: Storage, folder: Path, *, num_shards: int, tries: int) -> list[float]:
    """Write ten rows, and return the pauses between tries instead of making them."""
    table, sharding, naps = pa.table({"id": pa.array(range(10), pa.int64())}), Sharding.hash(num_shards), list[float]()
    spool = Spool(folder, table.schema, Placing(sharding, KeyType.INTEGER), "id")
    spool.add(table.to_batches()[0])
    spool.close()
    run = SpooledRun(storage, "r1", ShardPlan(table.schema, "id"), folder, spool.chunks)
    pool = ShardPool(run, tries=tries, pause=naps.append)
    with suppress(ShardFailed):
        pool.write(range(num_shards), 1)
    return naps


def test_a_shard_whose_process_is_killed_is_written_by_a_fresh_one(flaky_storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "left").write_text("2")
    (tmp_path / "spool").mkdir()
    assert write_with_pauses(flaky_storage, tmp_path / "spool", num_shards=2, tries=3) == [1, 2]
    found = attempts(Storage(tmp_path / "set"))
    assert [(each.shard_id, each.attempt) for each in found] == [(0, 2), (1, 0)]
    assert sum(each.rows for each in found) == 10
    files = [each.path for each in Storage(tmp_path / "set").objects("data/r1/shard=00000/")]
    assert len([path for path in files if path.endswith("shard.parquet")]) == 3  # two losers without a record


def test_a_shard_that_fails_too_often_fails_the_build(flaky_storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "left").write_text("100")
    with pytest.raises(ShardFailed, match=r"in 1 attempts\. Last error: its process ended with signal 9"):
        write_rows([{"id": 1}], flaky_storage, "r1", Sharding.hash(1), "id", shard_retry=0)


def test_the_tries_of_a_shard_are_1_2_and_4_seconds_apart(flaky_storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "left").write_text("100")
    (tmp_path / "spool").mkdir()
    assert write_with_pauses(flaky_storage, tmp_path / "spool", num_shards=1, tries=5) == [1, 2, 4, 4]


def test_a_build_that_is_stopped_does_not_wait_for_the_next_try(flaky_storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "left").write_text("100")
    stop = threading.Event()
    stopping = Beside(lambda: (_wait_for(lambda: (tmp_path / "left").read_text() == "99"), stop.set()))
    begin = time.monotonic()
    with pytest.raises(BuildError, match="was stopped"):
        write_rows([{"id": 1}], flaky_storage, "r1", Sharding.hash(1), "id", shard_retry=10**6, stop=stop)
    stopping.join()
    assert time.monotonic() - begin < PATIENCE_S


def test_a_build_can_be_stopped(storage: Storage) -> None:
    stop, before = threading.Event(), set(psutil.Process().children())

    def stop_once_it_writes() -> None:
        _wait_for(lambda: set(psutil.Process().children()) - before)
        stop.set()

    stopping = Beside(stop_once_it_writes)
    with pytest.raises(BuildError, match="was stopped"):
        write_rows([{"id": n} for n in range(1000)], storage, "r1", Sharding.hash(1), "id", rows_per_second=1, stop=stop)
    stopping.join()
    assert attempts(storage) == []


def test_no_subprocess_outlives_a_killed_parent(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\nfrom shard_writing import *\n"
        f"write_rows([{{'id': n}} for n in range(1000)], Storage({str(tmp_path / 'set')!r}), 'r1', Sharding.hash(2), 'id',"
        " rows_per_second=1, processes=2)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, SUPPORT])
    try:
        children = _wait_for(lambda: psutil.Process(parent.pid).children())
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    _, alive = psutil.wait_procs(children, timeout=PATIENCE_S)
    assert alive == []
    assert not list(Storage(tmp_path / "set").objects("data/"))


def _wait_for(condition: Any) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
