"""A build is read back whole, and whatever is not as it was written is found, shard by shard."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from s3_server import s3_server
from snapshots import publish

from airflow_snowpack.builds.model import Manifest, ShardFormat, Sharding
from airflow_snowpack.builds.pointer import manifest_at
from airflow_snowpack.builds.read.verify import verify
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import AttemptPlace, ShardPlan, write_attempt

ROWS = pa.table(
    {
        "id": range(300),
        "country": ["de", "fr", "it"] * 100,
        "at": pa.array([datetime(2026, 1, 1)] * 300, pa.timestamp("s")),  # noqa: DTZ001 - a column without a zone
        "price": pa.array([Decimal("1.50")] * 300, pa.decimal128(5, 2)),
        "tags": pa.array([["a"], [], None] * 100, pa.list_(pa.string())),
    }
)
PATH = "manifests/r1/1.json"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "set")


def written(storage: Storage, **how: Any) -> Manifest:
    publish(storage, ROWS, key="id", run_id="r1", **how)
    return manifest_at(storage, PATH)


@pytest.mark.parametrize("shard_format", list(ShardFormat))
@pytest.mark.parametrize(
    "how",
    [
        {"sharding": Sharding.hash(3)},
        {"sharding": Sharding.categories("country", ("de", "fr", "it"))},
        {"sharding": Sharding.expression("id % 2", 2), "ids": pa.array([n % 2 for n in range(300)])},
        {"sharding": Sharding.hash(500)},
    ],
)
def test_a_sound_build_is_read_to_its_last_row(storage: Storage, shard_format: ShardFormat, how: dict[str, Any]) -> None:
    manifest = written(storage, shard_format=shard_format, **how)
    found = verify(storage, PATH, manifest)
    assert (found.problems, found.rows, found.shards) == ((), 300, manifest.sharding.num_shards)


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_every_damaged_shard_is_named(storage: Storage, shard_format: ShardFormat) -> None:
    manifest = written(storage, shard_format=shard_format, sharding=Sharding.hash(4))
    urls = [shard.url or "" for shard in manifest.shards]
    data = storage.read(urls[1])
    storage.delete(urls[0])
    storage.write(urls[1], data[:200] + bytes([data[200] ^ 1]) + data[201:])
    storage.write(urls[2], data)
    found = verify(storage, PATH, manifest)
    assert [(each.shard_id, each.path) for each in found.problems] == list(enumerate(urls[:3]))
    assert "does not exist" in found.problems[0].problem
    assert "its checksum is" in found.problems[1].problem
    assert found.rows == manifest.shards[3].rows


@pytest.mark.parametrize("shard_format", list(ShardFormat))
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "rows, and 1 in the manifest"),
        ({"min_key": -1}, "its smallest key is"),
        ({"max_key": 10**6}, "its greatest key is"),
    ],
)
def test_a_whole_file_that_differs_from_the_manifest_is_found(
    storage: Storage, shard_format: ShardFormat, change: dict[str, Any], message: str
) -> None:
    manifest = written(storage, shard_format=shard_format)
    changed = (replace(manifest.shards[0], **change), *manifest.shards[1:])
    (problem,) = verify(storage, PATH, replace(manifest, shards=changed)).problems
    assert (problem.shard_id, message in problem.problem) == (0, True)


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_rows_in_the_wrong_shard_are_found(storage: Storage, shard_format: ShardFormat) -> None:
    manifest = written(storage, shard_format=shard_format, sharding=Sharding.hash(2))
    one, other = manifest.shards
    exchanged = (replace(other, shard_id=0), replace(one, shard_id=1))
    problems = verify(storage, PATH, replace(manifest, shards=exchanged)).problems
    assert ["belongs to another shard" in each.problem for each in problems] == [True, True]


def test_a_type_that_the_manifest_cannot_name_is_no_damage(storage: Storage) -> None:
    ids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes([at]) * 16 for at in range(4)], pa.binary(16)))
    table = pa.table({"id": range(4), "uuid": ids})
    publish(storage, table, key="id", run_id="r1", shard_format=ShardFormat.PARQUET)
    assert verify(storage, PATH, manifest_at(storage, PATH)).problems == ()


def test_columns_that_differ_from_the_manifest_are_found(storage: Storage) -> None:
    manifest = written(storage, shard_format=ShardFormat.PARQUET, sharding=Sharding.hash(1))
    plan = ShardPlan(ROWS.schema.remove(4), "id", ShardFormat.PARQUET)
    other = write_attempt(storage, AttemptPlace("r1", 0, 1, "1"), plan, ROWS.drop_columns("tags").to_batches())
    (problem,) = verify(storage, PATH, replace(manifest, shards=(other,))).problems
    assert "its columns are" in problem.problem


def test_a_build_on_s3_is_read_and_no_copy_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with s3_server() as options:
        storage = Storage("s3://lake/set", options)
        assert verify(storage, PATH, written(storage)).sound
    assert list(tmp_path.iterdir()) == []
