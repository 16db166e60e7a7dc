"""An attempt is its file and then its record, at a place that no other attempt has, on storages that fail in passing too."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey, StorageFailed
from airflow_snowpack.builds.json_format import read_attempt
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, file_checksum, write_attempt

PLAN = ShardPlan(pa.schema([("id", pa.int64())]), "id")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FOLDER = "data/r1/shard=00003/attempt=00-31/"


def rows(*ids: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"id": list(ids)}, PLAN.schema)]


def failing(every: int, root: Path) -> tuple[fs.FileSystem, list[str]]:
    """A storage whose every n-th call fails, and the calls that it received."""
    calls: list[str] = []

    class Handler(fs.FSSpecHandler):
        def _asked(self, what: str, path: object) -> None:
            calls.append(f"{what} {path}")
            if len(calls) % every == 0:
                raise OSError("the storage has a bad day")

        def open_output_stream(self, path: str, metadata: Any) -> Any:
            self._asked("write", path)
            return super().open_output_stream(path, metadata)

        def open_input_stream(self, path: str) -> Any:
            self._asked("read", path)
            return super().open_input_stream(path)

        def get_file_info(self, paths: list[str]) -> Any:
            self._asked("look at", paths)
            return super().get_file_info(paths)

    import fsspec

    memory = fsspec.filesystem("dir", path=str(root), target_protocol="file", target_options={"auto_mkdir": True})
    return fs.PyFileSystem(Handler(memory)), calls


def test_the_record_is_what_the_attempt_wrote(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    result = write_attempt(storage, AttemptPlace("r1", 3, 0, "31", 31), PLAN, rows(1, 5), clock=lambda: NOW)
    assert sorted(found.path for found in storage.objects("data/")) == [f"{FOLDER}_ATTEMPT.json", f"{FOLDER}shard.parquet"]
    assert read_attempt(storage.read(f"{FOLDER}_ATTEMPT.json"), "record") == result
    assert (result.url, result.rows, result.min_key, result.max_key) == (f"{FOLDER}shard.parquet", 2, 1, 5)
    assert (result.attempt, result.task_attempt_id, result.finished_at) == (0, 31, NOW)
    file = storage.local_path(f"{FOLDER}shard.parquet")
    assert (result.bytes, result.checksum) == (file.stat().st_size, file_checksum(file))


def test_an_attempt_that_fails_leaves_no_record(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    with pytest.raises(InvalidRowKey):
        write_attempt(storage, AttemptPlace("r1", 3, 0, "31", 31), PLAN, rows(5, 1))
    assert list(storage.objects("data/")) == []


def test_columns_in_another_order_are_not_taken_for_each_other(tmp_path: Path) -> None:
    plan = ShardPlan(pa.schema([("id", pa.int64()), ("leg", pa.struct([("to", pa.string()), ("from", pa.string())]))]), "id")
    place, leg = AttemptPlace("r1", 0, 0, "31", 31), {"from": "EWR", "to": "IAH"}
    with pytest.raises(InvalidBuild, match="the columns of the shard are id, leg"):
        write_attempt(Storage(tmp_path), place, plan, [pa.RecordBatch.from_pylist([{"leg": leg, "id": 1}])])
    result = write_attempt(Storage(tmp_path), place, plan, [pa.RecordBatch.from_pylist([{"id": 1, "leg": leg}])])
    assert result.url is not None
    assert pq.read_table(tmp_path / result.url).to_pylist() == [{"id": 1, "leg": leg}]


def test_a_storage_that_fails_every_third_call_gets_the_whole_attempt(tmp_path: Path) -> None:
    filesystem, calls = failing(3, tmp_path)
    storage = Storage("set", filesystem=filesystem, sleep=lambda _: None)
    results = [write_attempt(storage, AttemptPlace("r1", shard, 0, "1"), PLAN, rows(1, 5)) for shard in range(4)]
    assert len(calls) > 8
    for result in results:
        assert result.url is not None
        assert file_checksum(tmp_path / "set" / result.url) == result.checksum
        record = (tmp_path / "set" / result.url).with_name("_ATTEMPT.json")
        assert read_attempt(record.read_bytes(), "record") == result


def test_a_storage_that_always_fails_ends_the_attempt(tmp_path: Path) -> None:
    filesystem, _ = failing(1, tmp_path)
    storage = Storage("set", filesystem=filesystem, sleep=lambda _: None)
    with pytest.raises(StorageFailed, match=r"Could not write set/data/r1/shard=00003/attempt=00-31/shard.parquet: .*bad day"):
        write_attempt(storage, AttemptPlace("r1", 3, 0, "31", 31), PLAN, rows(1))
