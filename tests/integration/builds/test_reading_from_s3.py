"""A reader of a real S3 server copies each shard once, follows the pointer there, and bears a storage that fails in passing."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from bounded import PATIENCE_S
from s3_server import Request, s3_server
from snapshots import publish

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import NothingPublished
from airflow_snowpack.builds.model import ShardFormat, Sharding
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.storage import Storage

URL = "s3://lake/builds/flights"
KEYS = list(range(300))
ROWS = pa.table({"id": KEYS, "name": [f"flight {key}" for key in KEYS]})


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_each_shard_is_fetched_once_and_read_from_its_copy(tmp_path: Path, shard_format: ShardFormat) -> None:
    fetched: list[str] = []

    def note(request: Request) -> bool:
        if request.method == "GET" and "/shard." in request.path:
            fetched.append(request.path)
        return True

    with s3_server(before=note) as options:
        with pytest.raises(NothingPublished):
            SnapshotReader(URL, options, cache_dir=tmp_path)
        first = publish(Storage(URL, options), ROWS, key="id", run_id="r1", shard_format=shard_format)
        for _ in range(2):
            with SnapshotReader(URL, options, cache_dir=tmp_path) as reader:
                assert reader.multi_get(KEYS) == {row["id"]: row for row in ROWS.to_pylist()}
                assert reader.get(7) == {"id": 7, "name": "flight 7"}
                assert len(list(reader.scan())) == 300
        assert len({path.partition("?")[0] for path in fetched}) == 4
        assert len(list(tmp_path.rglob(f"*.{shard_format.value}"))) == 4
        publish(Storage(URL, options), ROWS.slice(0, 10), key="id", run_id="r2", after=first, shard_format=shard_format)
        assert reader.reload()
        assert len(reader.multi_get(KEYS)) == 10
        Storage(URL, options).delete(layout.manifest("r2", 1))
        again = SnapshotReader(URL, options, cache_dir=tmp_path)
        assert (again.manifest.run_id, len(again.multi_get(KEYS))) == ("r1", 300)


def test_a_storage_that_fails_every_third_call_is_read_all_the_same(tmp_path: Path) -> None:
    calls: list[Request] = []

    def every_third(request: Request) -> bool:
        calls.append(request)
        return len(calls) % 3 != 0

    with s3_server(before=every_third) as options:
        # A single shard, which takes few calls: the client waits after each failure.
        publish(Storage(URL, options), ROWS, key="id", sharding=Sharding.hash(1))
        with SnapshotReader(URL, options, cache_dir=tmp_path) as reader:
            assert len(reader.multi_get(KEYS)) == 300
            assert reader.fallback is None


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_a_question_for_keys_of_all_shards_fetches_them_side_by_side(tmp_path: Path, shard_format: ShardFormat) -> None:
    two_at_once = threading.Barrier(2)  # not four: two copies may share one of the cache's locks
    waited: set[str] = set()

    def meet(request: Request) -> bool:
        if request.method == "GET" and "/shard." in request.path and request.path not in waited:
            waited.add(request.path)
            two_at_once.wait(PATIENCE_S)  # breaks, and fails the request, if one is fetched after the other
        return True

    with s3_server(before=meet) as options:
        publish(Storage(URL, options), ROWS, key="id", shard_format=shard_format)
        with SnapshotReader(URL, options, cache_dir=tmp_path) as reader:
            assert len(reader.multi_get(KEYS)) == 300
    assert (len(waited), two_at_once.broken) == (4, False)


@pytest.mark.parametrize(
    ("shard_format", "cold", "warm", "most_bytes"), [(ShardFormat.SQLITE, 4, 1, 300_000), (ShardFormat.PARQUET, 5, 2, 500_000)]
)
def test_a_look_up_in_a_large_shard_takes_few_requests_and_little_of_the_file(
    tmp_path: Path, shard_format: ShardFormat, cold: int, warm: int, most_bytes: int
) -> None:
    """The numbers that docs/builds.md has."""
    asked: list[Request] = []

    def note(request: Request) -> bool:
        if "/shard." in request.path and request.method in ("GET", "HEAD"):
            asked.append(request)
        return True

    keys = range(60_000)
    rows = pa.table({"id": keys, "text": [Random(key).randbytes(60).hex() for key in keys]})
    with s3_server(before=note) as options:
        current = publish(
            Storage(URL, options), rows, key="id", sharding=Sharding.hash(1), shard_format=shard_format, batch_size=2_000
        )
        asked.clear()
        with SnapshotReader(URL, options, cache_dir=tmp_path, range_reads_above=2**20) as reader:
            assert reader.get(7) == rows.slice(7, 1).to_pylist()[0]
            assert len(asked) <= cold
            assert sum(map(length, asked)) <= most_bytes < reader.manifest.shards[0].bytes // 5
            asked.clear()
            assert reader.get(50_000) is not None
            assert len(asked) <= warm
            assert all(request.range for request in asked)
            assert reader.manifest.run_id == current.run_id
        assert [path for path in tmp_path.rglob("*") if path.suffix in (".sqlite", ".parquet")] == []


def length(request: Request) -> int:
    if request.range is None:
        assert request.method == "HEAD", "the whole file was requested"
        return 0
    first, _, last = request.range.removeprefix("bytes=").partition("-")
    return int(last) - int(first) + 1
