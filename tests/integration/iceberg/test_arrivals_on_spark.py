"""What arrives by Spark's own statements: a net gain, also where it was compacted and expired unread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.arrivals import EXPIRED, Arrival, HistoryPlace, head_of, read_arrivals
from airflow_snowpack.iceberg.catalog import load_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

MODES = "write.delete.mode", "write.update.mode", "write.merge.mode"
MERGE = """
MERGE INTO {table} t
 USING (SELECT * FROM VALUES (1L, 0, 'merged'), (7L, 0, 'new'), (8L, 1, 'new') AS v (id, part, note)) s ON t.id = s.id
 WHEN MATCHED THEN UPDATE SET note = s.note WHEN NOT MATCHED THEN INSERT *
"""


class Watched:
    """A table, and what arrives in it from statement to statement."""

    def __init__(self, spark: SparkSession, catalog: Catalog, name: TableName) -> None:
        self._spark, self._catalog, self._name = spark, catalog, name
        self._place: HistoryPlace = head_of(load_table(catalog, name))

    def run(self, *statements: str) -> Sequence[Arrival]:
        """What arrived by these statements, read after the last of them."""
        for statement in statements:
            self._spark.sql(statement.format(table=self._name.quoted, name=self._name.dotted))
        found = read_arrivals(load_table(self._catalog, self._name), self._place)
        self._place = found.head
        return found.new


@pytest.fixture
def watched(spark: SparkSession, catalog: Catalog, new_table: Callable[..., TableName]) -> Callable[..., Watched]:
    def make(mode: str, format_version: str = "2") -> Watched:
        table = Watched(spark, catalog, new_table(partitioned_by="part", format_version=format_version))
        settings = ", ".join(f"'{name}' = '{mode}'" for name in MODES)
        table.run(f"ALTER TABLE {{table}} SET TBLPROPERTIES ({settings})")
        assert len(table.run("INSERT INTO {table} VALUES (1, 0, 'a'), (2, 0, 'b'), (3, 0, 'c'), (4, 1, 'd')")) == 1
        return table

    return make


def amounts(arrivals: Sequence[Arrival]) -> list[tuple[Any, ...]]:
    return [(arrival.partitions, arrival.records) for arrival in arrivals]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_only_what_a_statement_adds_to_a_table_arrives(watched: Callable[[str], Watched], mode: str) -> None:
    table = watched(mode)
    assert table.run("DELETE FROM {table} WHERE id = 2") == ()
    assert table.run("UPDATE {table} SET note = 'x' WHERE id = 3") == ()
    assert amounts(table.run(MERGE)) == [(("part=0", "part=1"), 2)]
    assert table.run("DELETE FROM {table} WHERE part = 1") == ()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_with_row_lineage_exactly_the_rows_that_were_not_there_before_arrive(watched: Callable[..., Watched], mode: str) -> None:
    table = watched(mode, "3")
    source = "(SELECT * FROM VALUES (2L, 0, 'b'), (7L, 0, 'new') AS v (id, part, note)) s"
    cases = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    assert amounts(table.run(f"MERGE INTO {{table}} t USING {source} ON t.id = s.id {cases}")) == [(("part=0",), 1)]
    assert table.run("UPDATE {table} SET part = 5 WHERE id = 3") == ()
    assert table.run("DELETE FROM {table} WHERE id = 1") == ()


def test_a_dynamic_overwrite_arrives_and_compaction_does_not(watched: Callable[[str], Watched], spark: SparkSession) -> None:
    table = watched("copy-on-write")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        assert amounts(table.run("INSERT OVERWRITE {table} VALUES (9, 0, 'z')")) == [(("part=0",), 1)]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    compaction = "CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
    assert table.run(compaction) == ()


def test_what_was_compacted_and_expired_between_two_reads_arrives(watched: Callable[[str], Watched]) -> None:
    table = watched("copy-on-write")
    arrivals = table.run(
        "INSERT INTO {table} VALUES (5, 0, 'e')",
        "INSERT INTO {table} VALUES (6, 1, 'f'), (7, 1, 'g')",
        "CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        "CALL lake.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)",
    )
    assert amounts(arrivals) == [(("part=0",), 1), (("part=1",), 2)]
    assert [arrival.operation for arrival in arrivals] == [EXPIRED, EXPIRED]
