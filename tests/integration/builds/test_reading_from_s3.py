"""A reader of a real S3 server copies each shard once, follows the pointer there, and bears a storage that fails in passing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from s3_server import Request, s3_server
from snapshots import publish

from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import NothingPublished
from airflow_snowpack.builds.model import ShardFormat, Sharding
from airflow_snowpack.builds.reader import SnapshotReader
from airflow_snowpack.builds.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

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
