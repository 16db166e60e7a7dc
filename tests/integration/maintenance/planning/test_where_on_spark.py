"""Generated predicates, as Iceberg's own rewrite plans with them: the files of the chosen partitions, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from table_zoo import KINDS, KINDS_OF_SPARK, Zoo

from airflow_snowpack.iceberg import MetadataReader, TableName
from airflow_snowpack.iceberg.health import read_health
from airflow_snowpack.iceberg.metadata_reader import partition_label
from airflow_snowpack.maintenance.planning.where import where_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

WITH_FUNCTIONS = ("bucket_of_string", "bucket_of_timestamp", "year_of_date", "month_of_timestamp", "day_of_date", "two_fields")
NAMED = ("identity_of_", "truncate_of_", "hour_of_", "nan_")
PARTITIONED = [kind for kind in (*KINDS, *KINDS_OF_SPARK) if kind.startswith(NAMED) or kind in WITH_FUNCTIONS]
"""A function is written in the same way for each type of its column, and a value is not."""


@pytest.fixture(scope="module")
def selected(spark: SparkSession) -> Callable[[TableName, str], set[str]]:
    """Return the paths of the files that ``rewrite_data_files`` takes with a predicate, without rewriting them."""
    jvm: Any = spark._jvm
    session = spark._jsparkSession
    converter = jvm.org.apache.spark.sql.execution.datasources.SparkExpressionConverter

    def plan(name: TableName, where: str) -> set[str]:
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, str(name))
        resolved = converter.collectResolvedSparkExpression(session, str(name), where)
        expression = converter.convertToIcebergExpression(resolved)
        files = table.newScan().filter(expression).ignoreResiduals().planFiles()
        found = set[str]()
        tasks = files.iterator()
        while tasks.hasNext():
            found.add(str(tasks.next().file().location()))
        files.close()
        return found

    return plan


def by_partition(table: Table) -> dict[tuple[Any, ...], set[str]]:
    """Return the paths of the data files by the key of their partition."""
    found: dict[Any, set[str]] = {}
    for file in MetadataReader(table).files().data:
        found.setdefault(key_of(partition_label(table, file.partition_key), file.partition), set()).add(file.path)
    return found


def key_of(label: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Distinguish null from the text ``null``, whose labels are the same."""
    return label, *(value is None for value in values)


@pytest.mark.parametrize("kind", PARTITIONED)
def test_a_predicate_selects_exactly_the_files_of_its_partitions(
    zoo: Zoo, selected: Callable[[TableName, str], set[str]], kind: str
) -> None:
    name = zoo.new(kind)
    table = zoo.load(name)
    health, files = read_health(table, now=datetime.now(UTC)), by_partition(table)
    fields = health.specs[health.spec_id]
    assert len(health.partitions) > 1

    for partition in health.partitions:
        where = where_of(fields, [partition.values], catalog=name.catalog)
        assert selected(name, where) == files[key_of(partition.label, partition.values)], where
    for several in (health.partitions[::2], health.partitions[1:]):  # a short list, and one that Spark makes a set of
        where = where_of(fields, [partition.values for partition in several], catalog=name.catalog)
        chosen = (files[key_of(partition.label, partition.values)] for partition in several)
        assert selected(name, where) == set().union(*chosen), where


def test_a_predicate_of_two_hundred_partitions_with_several_fields_is_one_for_spark(
    zoo: Zoo, selected: Callable[[TableName, str], set[str]]
) -> None:
    name = zoo.new("two_fields")
    table = zoo.load(name)
    health, files = read_health(table, now=datetime.now(UTC)), by_partition(table)
    one = next(each for each in health.partitions if None not in each.values)
    others = [(one.values[0], bucket) for bucket in range(1_000, 1_199)]

    where = where_of(health.specs[health.spec_id], [one.values, *others], catalog=name.catalog)

    assert selected(name, where) == files[key_of(one.label, one.values)]
