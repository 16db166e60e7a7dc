"""A published build comes back as a Spark DataFrame with the same rows."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from s3_server import s3_server
from snapshots import publish

from airflow_snowpack.builds.errors import BuildNotFound, InvalidBuild, NothingPublished
from airflow_snowpack.builds.model import ShardFormat, Sharding
from airflow_snowpack.builds.read.spark_reader import read_build
from airflow_snowpack.builds.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("tail", pa.string()),
        ("seats", pa.uint16()),
        ("owed", pa.uint64()),
        ("fare", pa.decimal128(9, 2)),
        ("due", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("ms")),
        ("day", pa.date32()),
        ("legs", pa.list_(pa.struct([("to", pa.string()), ("at", pa.timestamp("us", "UTC"))]))),
        ("notes", pa.map_(pa.string(), pa.int64())),
        ("raw", pa.binary(2)),
        ("nothing", pa.string()),
    ]
)


def flight(number: int) -> dict[str, object]:
    due = datetime(2013, 1, 1, 10, number % 60, tzinfo=UTC)
    return {
        "tail": f"N{number:05d}",
        "seats": number,
        "owed": 2**64 - 1 - number,
        "fare": Decimal(number) / 100,
        "due": due,
        "local": due.replace(tzinfo=None),
        "day": date(2013, 1, 1),
        "legs": [{"to": "EWR", "at": due}] * (number % 3),
        "notes": [("stops", number)],
        "raw": b"\x00\xff",
        "nothing": None,
    }


FLIGHTS = pa.Table.from_pylist([flight(number) for number in range(100)], SCHEMA)


@pytest.mark.parametrize("shard_format", list(ShardFormat))
def test_every_row_comes_back_with_its_values(spark: SparkSession, tmp_path: Path, shard_format: ShardFormat) -> None:
    publish(Storage(tmp_path), FLIGHTS, key="tail", shard_format=shard_format)
    read = read_build(spark, str(tmp_path))
    assert read.rdd.getNumPartitions() == 4
    expected = [{**row, "owed": Decimal(str(row["owed"]))} for row in FLIGHTS.to_pylist()]
    assert read.toArrow().sort_by("tail").to_pylist() == expected
    assert read.where("seats = 7").select("tail").collect() == [("N00007",)]


def test_an_older_build_comes_back_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    first = publish(storage, FLIGHTS.slice(0, 10), key="tail", run_id="r1")
    publish(storage, FLIGHTS, key="tail", run_id="r2", after=first)
    assert read_build(spark, str(tmp_path)).count() == 100
    assert read_build(spark, str(tmp_path), "r1").count() == 10
    assert read_build(spark, storage, first.manifest).columns == SCHEMA.names
    with pytest.raises(BuildNotFound):
        read_build(spark, str(tmp_path), "r9")
    with pytest.raises(NothingPublished):
        read_build(spark, str(tmp_path / "elsewhere"))


def test_a_build_on_s3_is_read_by_the_executors_themselves(spark: SparkSession) -> None:
    with s3_server() as options:
        publish(Storage("s3://lake/flights", options), FLIGHTS, key="tail")
        assert read_build(spark, "s3://lake/flights", options=options).count() == 100


def test_a_build_without_rows_has_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    publish(Storage(tmp_path), FLIGHTS.slice(100), key="tail")
    read = read_build(spark, str(tmp_path))
    assert (read.count(), read.columns) == (0, SCHEMA.names)


def test_a_damaged_shard_fails_the_job_that_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    publish(Storage(tmp_path), FLIGHTS, key="tail")
    shard = next(tmp_path.glob("data/**/shard.sqlite"))
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(Exception, match=r"ManifestDamaged.*in the manifest"):
        read_build(spark, str(tmp_path)).count()


def test_what_spark_cannot_hold_is_refused_by_its_column(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"tail": ["N1"], "price": pa.array([Decimal(10) ** 40], pa.decimal256(50, 0))})
    publish(Storage(tmp_path), table, key="tail", sharding=Sharding.hash(1))
    with pytest.raises(InvalidBuild, match=r"price.*decimal256"):
        read_build(spark, str(tmp_path))
