"""What PyIceberg and the tests write by hand, Spark reads as it is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from table_zoo import Zoo

from airflow_snowpack.iceberg import MetadataReader
from airflow_snowpack.iceberg.metadata_reader import DeleteKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ids(spark: SparkSession, zoo: Zoo, kind: str) -> list[int]:
    return sorted(row.id for row in spark.table(zoo.shared(kind).quoted).select("id").collect())


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("position_deletes", set(range(40)) - {0, 1, 2, 13, 14, 25}),
        ("equality_deletes", set(range(20)) - {13}),
        ("mixed_deletes", set(range(18)) - {0, 2, 8}),
        ("upgraded_to_version_2", set(range(6)) - {0}),
        ("many_snapshots", set(range(4))),
        ("nan_partitions", set(range(24))),
        ("deletion_vectors", {*range(40), *range(100, 140)} - {3, 13, 23, 33, 103, 113, 123, 133}),
    ],
)
def test_spark_sees_the_rows_that_are_left(spark: SparkSession, zoo: Zoo, kind: str, seen: set[int]) -> None:
    assert ids(spark, zoo, kind) == sorted(seen)


def test_the_deletes_of_version_3_are_deletion_vectors(zoo: Zoo) -> None:
    files = MetadataReader(zoo.load(zoo.shared("deletion_vectors"))).files()

    assert {delete.kind for delete in files.deletes} == {DeleteKind.VECTOR}
    assert len(files.deletes) == 2
