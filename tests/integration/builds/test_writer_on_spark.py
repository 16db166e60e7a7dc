"""Every row of a DataFrame is in the shard of its key, in files whose records are correct."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bounded import PATIENCE_S, Beside
from s3_server import BUCKET, s3_server
from scripted_engine import eventually
from shard_writing import write_shards

from airflow_snowpack.builds.build_spec import BuildSpec, Interrupt
from airflow_snowpack.builds.columns import from_cell
from airflow_snowpack.builds.errors import InvalidBuild, InvalidRowKey, TooManyKeys
from airflow_snowpack.builds.model import KeyType, ShardAttemptResult, ShardFormat, Sharding, hash_shard
from airflow_snowpack.builds.sharding import fewest_shards
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.builds.write.attempt import file_checksum
from airflow_snowpack.builds.write.selection import read_attempts, select_winners
from airflow_snowpack.builds.write.spark_source import SparkSource, arrow_schema_of
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.spark import SparkInterrupted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "set")


@pytest.fixture
def flights(spark: SparkSession) -> DataFrame:
    return spark.range(0, 300, 1, 3).selectExpr(
        "id",
        "concat('N', id % 290) AS tail",
        "timestamp_seconds(id) AS at",
        "CAST(id AS DECIMAL(10, 2)) AS fare",
        "IF(id % 2 = 0, array(id, NULL), NULL) AS legs",
        "named_struct('day', DATE '2013-01-01', 'notes', map('k', id)) AS more",
    )


def rows_of(storage: Storage, winner: ShardAttemptResult, schema: pa.Schema) -> list[dict[str, Any]]:
    path = storage.local_path(str(winner.url))
    assert (path.stat().st_size, file_checksum(path)) == (winner.bytes, winner.checksum)
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        assert table.schema == schema
        return list(table.to_pylist())
    reads = [from_cell(field.type) or (lambda cell: cell) for field in schema]
    cells = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True).execute("SELECT * FROM rows")
    return [
        {name: None if cell is None else read(cell) for name, read, cell in zip(schema.names, reads, row, strict=True)}
        for row in cells
    ]


def written_rows(storage: Storage, run_id: str) -> list[int]:
    return [attempt.rows for attempt in sorted(read_attempts(storage, run_id), key=lambda attempt: attempt.shard_id)]


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_every_row_is_in_its_shard(flights: DataFrame, storage: Storage, shard_format: ShardFormat) -> None:
    written = write_shards(flights, storage, "r1", Sharding.hash(3), "tail", shard_format=shard_format)
    schema = arrow_schema_of(flights)
    assert written.key_type is KeyType.STRING
    assert written.columns[1:3] == (("tail", "string"), ("at", "timestamp[us, tz=UTC]"))
    winners = select_winners(read_attempts(storage, "r1"), 3, "r1")
    found = []
    for winner in winners:
        rows = rows_of(storage, winner, schema)
        keys = [row["tail"] for row in rows]
        assert (winner.rows, winner.min_key, winner.max_key) == (len(rows), keys[0], keys[-1])
        assert keys == sorted(keys)
        assert {hash_shard(key, KeyType.STRING, 3) for key in keys} == {winner.shard_id}
        assert winner.url == f"data/r1/shard=0000{winner.shard_id}/attempt=00-{winner.task_attempt_id}/shard.{shard_format.value}"
        found += rows
    expected = pa.Table.from_batches(flights.toArrow().to_batches()).cast(schema).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


def test_rows_go_by_category_or_expression(flights: DataFrame, storage: Storage) -> None:
    by_category = flights.selectExpr("id", "CAST(id % 3 AS STRING) AS kind")
    write_shards(by_category, storage, "categories", Sharding.categories("kind", ("2", "0", "1")), "id")
    assert [attempt.min_key for attempt in select_winners(read_attempts(storage, "categories"), 3, "categories")] == [2, 0, 1]
    write_shards(flights.select("id"), storage, "expression", Sharding.expression("id DIV 200", 2), "id")
    assert written_rows(storage, "expression") == [200, 100]


@pytest.mark.parametrize(
    ("column", "sharding", "message"),
    [
        ("nullif(id, 7) AS id", Sharding.hash(2), "a key must not be null"),
        ("id % 3 AS id", Sharding.categories("id", (0, 1)), "The key 2 cannot be placed: it is not among the 2 categories"),
        ("id", Sharding.expression("id % 3 - 1", 2), "it must return an integer from 0 to 1 for every row, and it returned"),
    ],
)
def test_a_row_that_has_no_place_fails_the_build_with_its_reason(
    flights: DataFrame, storage: Storage, column: str, sharding: Sharding, message: str
) -> None:
    with pytest.raises((InvalidRowKey, InvalidBuild), match=message):
        write_shards(flights.selectExpr(column), storage, "r1", sharding, "id")
    assert read_attempts(storage, "r1") == []


@pytest.mark.parametrize(
    ("columns", "sharding", "message"),
    [
        (["CAST(9223372036854775808 AS DECIMAL(19)) AS id"], Sharding.hash(2), "but a key must be an integer of up to 64 bits"),
        (["id"], Sharding.categories("nothing", (1, 2)), "it must be one of the columns id"),
        (["id"], Sharding.expression("no_such % 3", 2), "UNRESOLVED_COLUMN"),
        (["id", "make_interval(1) AS age"], Sharding.hash(2), "a shard cannot hold interval"),
        (["id", "1 AS ID"], Sharding.hash(2), "another column has the same name"),
    ],
)
def test_a_build_that_cannot_be_is_refused_at_once(
    flights: DataFrame, storage: Storage, columns: list[str], sharding: Sharding, message: str
) -> None:
    with pytest.raises(InvalidBuild, match=message):
        write_shards(flights.selectExpr(*columns), storage, "r1", sharding, "id")


def test_shards_without_rows_are_written_too(spark: SparkSession, flights: DataFrame, storage: Storage) -> None:
    nothing = {"constant": spark.range(0), "filtered": flights.where("id < 0").select("id")}
    for run_id, df in nothing.items():
        write_shards(df, storage, run_id, Sharding.hash(3), "id")
        winners = select_winners(read_attempts(storage, run_id), 3, run_id)
        assert [rows_of(storage, winner, arrow_schema_of(df)) for winner in winners] == [[], [], []]


def test_a_hot_key_and_more_shards_than_keys(spark: SparkSession, storage: Storage) -> None:
    hot = spark.range(0, 20_000, 1, 2).selectExpr("IF(id < 19990, 7, id) AS id", "id AS visit")
    write_shards(hot, storage, "r1", Sharding.hash(12), "id", shard_format=ShardFormat.SQLITE, batch_size=1000)
    counts = written_rows(storage, "r1")
    assert sum(counts) == 20_000
    assert counts[hash_shard(7, KeyType.INTEGER, 12)] >= 19_990
    assert counts.count(0) >= 1
    write_shards(hot.limit(5), storage, "r10", Sharding.hash(1), "id")
    assert sum(written_rows(storage, "r1")) == 20_000, "the paths of r10 begin with those of r1"


def test_a_storage_whose_every_third_request_fails_gets_the_whole_build(flights: DataFrame) -> None:
    asked = itertools.count(1)
    with s3_server(before=lambda request: next(asked) % 3 != 0) as options:
        storage = Storage(f"s3://{BUCKET}/set", options)
        write_shards(flights, storage, "r1", Sharding.hash(2), "id")
        winners = select_winners(read_attempts(storage, "r1"), 2, "r1")
        ids = [
            row["id"] for winner in winners for row in pq.read_table(pa.BufferReader(storage.read(str(winner.url)))).to_pylist()
        ]
    assert sorted(ids) == list(range(300))
    assert next(asked) > 6


def test_a_shard_with_more_keys_than_it_may_have_is_refused(flights: DataFrame, storage: Storage) -> None:
    with pytest.raises(TooManyKeys, match="max_keys_per_shard = 299"):
        write_shards(flights, storage, "r1", Sharding.hash(1), "id", max_keys_per_shard=299)
    assert read_attempts(storage, "r1") == []
    counts = SparkSource(flights).count_keys("id", Interrupt())
    assert (counts.sum(), 4 <= fewest_shards(counts, 100) <= 6) == (300, True)


def test_a_table_is_read_as_of_the_snapshot_that_the_manifest_names(
    spark: SparkSession, storage: Storage, new_table: Callable[..., TableName], append: Callable[..., None]
) -> None:
    name = new_table("id BIGINT")
    assert SparkSource.table(spark, name).sources == ({"table": str(name)},)
    append(name, id=[1, 2, 2])
    source = SparkSource.table(spark, name)
    append(name, id=[3])
    spec = BuildSpec(dataset="set", key="id", max_keys_per_shard=2)
    sharding = Sharding.hash(fewest_shards(source.count_keys("id", Interrupt()), 2))
    assert sharding == Sharding.hash(1)
    written = source.write(storage, "r1", spec, sharding, Interrupt())
    assert written_rows(storage, "r1") == [3]
    snapshot_id = spark.sql(f"SELECT min_by(snapshot_id, committed_at) FROM {name.quoted}.snapshots").collect()[0][0]
    assert written.sources == ({"table": str(name), "snapshot_id": snapshot_id},)
    assert SparkSource.sql(spark, f"SELECT id FROM {name.quoted}").df.count() == 4


def test_a_writer_can_be_interrupted(flights: DataFrame, storage: Storage) -> None:
    interrupt, tracker = Interrupt(), flights.sparkSession.sparkContext.statusTracker()
    watching = Beside(lambda: (eventually(lambda: bool(tracker.getActiveJobsIds()), PATIENCE_S), interrupt()))
    spec = BuildSpec(dataset="set", key="id", sharding=Sharding.hash(1), rows_per_second=0.5)
    with pytest.raises(SparkInterrupted):
        SparkSource(flights).write(storage, "r1", spec, Sharding.hash(1), interrupt)
    watching.join()
    assert read_attempts(storage, "r1") == []
