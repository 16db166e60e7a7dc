"""Exchange folders: inputs are written as they are, and a folder goes when nothing uses it any more."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from airflow_snowpack.runners import Exchange, Exchanges, ModuleEntry, ShellEntry
from airflow_snowpack.runners.errors import ExchangeFolderUnusable, InvalidEntry, UnusableInput
from airflow_snowpack.runners.tables import ROW_GROUP_ROWS

TASK = "dag/run/task/-1"


@pytest.fixture
def exchanges(tmp_path: Path) -> Exchanges:
    return Exchanges(tmp_path / "exchange")


@pytest.fixture
def exchange(exchanges: Exchanges) -> Iterator[Exchange]:
    with exchanges.begin(TASK, "1") as begun:
        yield begun


ROWS: list[dict[str, Any]] = [
    {"n": pa.array([1, None], pa.int32()), "m": pa.array([1, 2], pa.int64()), "x": [1.5, float("nan")]},
    {"t": ["a", None], "large": pa.array(["a", None], pa.large_string()), "b": [b"\0", None]},
    {"at": pa.array([1, None], pa.timestamp("us")), "utc": pa.array([1, None], pa.timestamp("us", "UTC"))},
    {"zoned": pa.array([1, None], pa.timestamp("us", "Europe/Berlin")), "day": pa.array([1, None], pa.date32())},
    {"time": pa.array([1, None], pa.time64("us")), "d": pa.array([None, 1], pa.decimal128(38, 10))},
    {"u": pa.array([b"0123456789abcdef", None], pa.uuid()), "f": pa.array([b"ab", None], pa.binary(2))},
    {"s": pa.array([{"a": None}, None]), "l": pa.array([[1, None], None]), "e": pa.array([[], None], pa.list_(pa.string()))},
    {"m": pa.array([[("k", None)], None], pa.map_(pa.string(), pa.int64())), "bool": [True, None]},
]


@pytest.mark.parametrize("columns", ROWS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_an_input_is_written_with_its_types_whatever_number_of_rows_it_has(
    exchange: Exchange, columns: dict[str, Any], number: int
) -> None:
    rows = pa.table(columns).slice(2 - number)
    assert exchange.write_input("flights", rows) == number
    kept = parquet.ParquetFile(exchange.folder / "inputs" / "flights" / "part-0.parquet").read()
    assert kept.schema.equals(rows.schema)
    assert repr(kept.to_pylist()) == repr(rows.to_pylist())


def test_small_batches_are_collected_and_large_inputs_are_not(exchange: Exchange) -> None:
    schema = pa.schema([("n", pa.int64())])
    alive: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(1000):
            alive.append(pa.total_allocated_bytes())
            yield pa.record_batch([pa.repeat(pa.scalar(number, pa.int64()), 4000)], schema=schema)

    assert exchange.write_input("flights", pa.RecordBatchReader.from_batches(schema, batches())) == 4_000_000
    metadata = parquet.read_metadata(exchange.folder / "inputs" / "flights" / "part-0.parquet")
    assert metadata.num_row_groups == 4
    assert metadata.row_group(0).num_rows >= ROW_GROUP_ROWS
    assert max(alive) - alive[0] < 24_000_000  # of 32 MB


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.time32("s"), pa.date64(), pa.struct([])])
def test_a_column_that_parquet_would_change_is_refused_by_name(exchange: Exchange, kind: pa.DataType) -> None:
    with pytest.raises(UnusableInput, match="odd"):
        exchange.write_input("flights", pa.table({"odd": pa.nulls(1, kind)}))


@pytest.mark.parametrize("name", ["../flights", "", "a/b", ".", "a b", "1a"])
def test_an_input_has_a_name_and_no_path(exchange: Exchange, name: str) -> None:
    with pytest.raises(InvalidEntry):
        exchange.write_input(name, pa.table({"n": [1]}))


def test_an_input_is_written_once(exchange: Exchange) -> None:
    exchange.write_input("flights", pa.table({"n": [1]}))
    with pytest.raises(InvalidEntry, match="was written already"):
        exchange.write_input("flights", pa.table({"n": [1]}))


def test_a_folder_goes_with_its_block_and_is_nobody_elses(exchanges: Exchanges) -> None:
    with exchanges.begin(TASK, "1") as exchange:
        assert stat.S_IMODE(exchange.folder.stat().st_mode) == 0o700
        assert TASK.replace("/", "") not in exchange.folder.name
    assert not exchange.folder.exists()


def test_a_shared_folder_can_be_written_by_the_user_of_an_image_whatever_the_umask(exchanges: Exchanges) -> None:
    before = os.umask(0o077)
    try:
        with exchanges.begin(TASK, "1", shared=True) as exchange:
            exchange.write_input("flights", pa.table({"n": [1]}))
            exchange.write_call(ModuleEntry("f", source="def f(): ..."))
            exchange.invocation(isolated=True, inside="/snowpack")
            modes = {
                str(path.relative_to(exchange.folder)): stat.S_IMODE(path.stat().st_mode)
                for path in [exchange.folder, *exchange.folder.rglob("*")]
            }
    finally:
        os.umask(before)
    assert modes == {
        ".": 0o777,
        "in_use": 0o600,
        "inputs": 0o755,
        "inputs/flights": 0o755,
        "inputs/flights/part-0.parquet": 0o644,
        "outputs": 0o777,
        "call.json": 0o644,
        "entry_process.pyz": 0o644,
        "source": 0o755,
        "source/snowpack_task_function.py": 0o644,
    }


def test_the_next_attempt_removes_what_a_killed_one_left_and_nothing_else(exchanges: Exchanges) -> None:
    def left_by(task: str, attempt: str) -> Path:
        """What a killed process leaves: its folder, without the lock."""
        exchange = exchanges.begin(task, attempt)
        exchange.leave()
        return exchange.folder

    own, other = left_by(TASK, "1"), left_by("dag/run/task/0", "1")
    with (
        exchanges.begin("dag/run/live/-1", "1") as live,
        exchanges.begin(TASK, "2") as new,
        exchanges.begin("dag/run/live/-1", "2") as also_live,
    ):
        assert not own.exists()
        assert all(folder.exists() for folder in (other, live.folder, new.folder, also_live.folder))


def test_a_sweep_removes_what_no_process_has_used_for_that_long(exchanges: Exchanges) -> None:
    begun = {name: exchanges.begin(name, "1") for name in ("old", "recent", "old and live")}
    folders = {name: exchange.folder for name, exchange in begun.items()}
    for name, hours in (("old", 25), ("recent", 23), ("old and live", 25)):
        if name != "old and live":
            begun[name].leave()
        for path in (folders[name] / "in_use", folders[name]):
            moment = path.stat().st_mtime - hours * 3600
            os.utime(path, (moment, moment))
    assert exchanges.sweep() == [folders["old"]]
    assert not folders["old"].exists()
    assert folders["recent"].exists()
    assert folders["old and live"].exists()
    assert exchanges.sweep() == []
    begun["old and live"].remove()


def test_a_sweep_leaves_the_folder_of_a_task_that_waits_for_days(exchanges: Exchanges) -> None:
    exchange = exchanges.begin(TASK, "1")
    exchange.leave(needed_for=timedelta(days=3))
    assert exchanges.sweep(unused_for=timedelta(0)) == []
    for path in (exchange.folder / "in_use", exchange.folder):  # as three days later
        moment = path.stat().st_mtime - 3 * 24 * 3600
        os.utime(path, (moment, moment))
    assert exchanges.sweep() == []
    assert exchanges.sweep(unused_for=timedelta(0)) == [exchange.folder]


def test_a_sweep_leaves_what_is_not_an_exchange_folder(exchanges: Exchanges) -> None:
    (exchanges.root / "precious").mkdir(parents=True)
    assert exchanges.sweep(unused_for=timedelta(0)) == []
    assert (exchanges.root / "precious").exists()


def test_a_sweep_of_a_worker_that_has_run_no_entry_makes_no_folder(exchanges: Exchanges) -> None:
    assert exchanges.sweep() == []
    assert not exchanges.root.exists()


def test_the_entry_of_any_task_removes_what_was_left_on_its_worker_a_day_ago(exchanges: Exchanges) -> None:
    left = exchanges.begin("dag/run/killed/-1", "1")
    left.leave()
    for path in (left.folder / "in_use", left.folder):
        os.utime(path, (0, 0))
    exchanges.begin(TASK, "1").remove()
    assert not left.folder.exists()


def test_a_folder_that_a_task_left_is_continued_by_the_same_attempt_alone(exchanges: Exchanges) -> None:
    exchange = exchanges.begin(TASK, "1")
    exchange.leave()
    with pytest.raises(ExchangeFolderUnusable, match="it has no folder of dag/run/task/-1"):
        exchanges.resume(TASK, "2", ShellEntry(("true",)))
    with exchanges.resume(TASK, "1", ShellEntry(("true",))) as resumed:
        assert resumed.folder == exchange.folder
        assert resumed.result(0).value is None
    assert not exchange.folder.exists()


def test_read_only_folders_of_an_entry_are_removed_too(exchanges: Exchanges) -> None:
    exchange = exchanges.begin(TASK, "1")
    (exchange.folder / "outputs" / "cache").mkdir()
    (exchange.folder / "outputs" / "cache" / "file").touch()
    (exchange.folder / "outputs" / "cache").chmod(0o500)
    exchange.remove()
    assert not exchange.folder.exists()


def test_links_in_a_folder_are_removed_and_not_followed(exchanges: Exchanges, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    exchange = exchanges.begin(TASK, "1")
    (exchange.folder / "outputs" / "link").symlink_to(tmp_path / "precious")
    exchange.remove()
    assert not exchange.folder.exists()
    assert (tmp_path / "precious" / "file").exists()


def test_a_link_in_place_of_the_lock_is_not_followed(exchanges: Exchanges, tmp_path: Path) -> None:
    """The folder of a container is open to its user, which may replace each file in it."""
    (tmp_path / "other").touch()
    os.utime(tmp_path / "other", (1, 1))
    for target in ("new", "other"):
        exchange = exchanges.begin(TASK, "1", shared=True)
        (exchange.folder / "in_use").unlink()
        (exchange.folder / "in_use").symlink_to(tmp_path / target)
        exchange.leave(needed_for=timedelta(days=1))
        with pytest.raises(ExchangeFolderUnusable, match="in_use: Too many levels of symbolic links"):
            exchanges.resume(TASK, "1", ShellEntry(("true",)))
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "other").stat().st_mtime == 1
    exchanges.begin(TASK, "2").remove()
    assert list(exchanges.root.iterdir()) == []


def test_a_folder_that_an_image_has_taken_for_its_own_user_stops_no_other_entry() -> None:
    is_root = os.geteuid() == 0  # a worker is not; the folder is another user's then
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)
        exchanges = Exchanges(Path(place))
        taken = exchanges.begin("dag/run/other/-1", "1", shared=True)
        taken.leave()
        os.utime(taken.folder / "in_use", (0, 0))
        os.utime(taken.folder, (0, 0))
        taken.folder.chmod(0)
        if is_root:
            os.seteuid(65534)
        try:
            with exchanges.begin(TASK, "1") as exchange:
                assert exchange.folder.is_dir()
        finally:
            if is_root:
                os.seteuid(0)


def test_installations_that_share_a_root_leave_each_others_folders(tmp_path: Path) -> None:
    waiting = Exchanges(tmp_path, "production").begin(TASK, "1")
    waiting.leave()
    Exchanges(tmp_path, "staging").begin(TASK, "2").remove()
    with Exchanges(tmp_path, "production").resume(TASK, "1", ShellEntry(("true",))) as resumed:
        assert resumed.folder == waiting.folder


def test_a_root_that_cannot_be_created_is_reported_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExchangeFolderUnusable, match="runner_folder"):
        Exchanges(tmp_path / "file" / "exchange").begin(TASK, "1")
