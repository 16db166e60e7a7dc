"""Health of the tables that only Spark writes: deletion vectors, and partition values that PyIceberg does not write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from health_from_entries import check_counts
from table_zoo import KINDS_OF_SPARK, Zoo

from airflow_snowpack.iceberg import HealthBounds, read_health
from airflow_snowpack.iceberg.health.encoding import decode, encode

NOW = datetime(2026, 11, 23, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize("kind", KINDS_OF_SPARK)
def test_health_counts_what_the_entries_of_the_manifests_have(zoo: Zoo, kind: str) -> None:
    table = zoo.load(zoo.shared(kind))

    health = read_health(table, now=NOW)

    check_counts(table, health)
    check_counts(table, read_health(table, now=NOW, bounds=HealthBounds(target_file_size_bytes=100_000, min_file_size_bytes=1)))
    assert decode(encode(health)) == health


def test_deletion_vectors_are_counted_with_their_own_bytes(zoo: Zoo) -> None:
    name = zoo.shared("deletion_vectors")
    seen = zoo.session.sql(
        f"SELECT count(*), sum(content_size_in_bytes), sum(record_count) FROM {name.quoted}.delete_files"
    ).first()
    assert seen is not None

    health = read_health(zoo.load(name), now=NOW)

    assert (health.deletion_vectors, health.delete_bytes, health.totals.position_deletes) == tuple(seen)
    assert (health.position_delete_files, health.equality_delete_files) == (0, 0)


def test_two_partition_values_of_one_decimal_type_are_read(zoo: Zoo) -> None:
    """PyIceberg does not read the manifests of such a table: the type of the second value is the name of the first one's."""
    name = zoo.named("two_decimals")
    columns = "low DECIMAL(4, 1), high DECIMAL(4, 1)"
    zoo.session.sql(f"CREATE TABLE {name.quoted} ({columns}) USING iceberg PARTITIONED BY (low, high)")
    zoo.session.sql(f"INSERT INTO {name.quoted} VALUES (-1.5, 2.5), (-1.5, NULL)")

    health = read_health(zoo.load(name), now=NOW)

    assert sorted(each.label for each in health.partitions) == ["low=-1.5/high=2.5", "low=-1.5/high=null"]
    assert {each.values for each in health.partitions} == {("-1.5", "2.5"), ("-1.5", None)}
