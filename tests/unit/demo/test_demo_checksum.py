"""The checksum knows rows, not their order: what a compaction may change, and what it may not."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import CatalogConfig, TableName
from examples.demo.flights import create_table, read_flights
from examples.demo.measure import checksum


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return read_flights(1)


def checksum_of(home: Path, *commits: pa.Table) -> tuple[int, str]:
    catalog = CatalogConfig.embedded(home).load()
    table = create_table(catalog, TableName.parse("demo.flights", catalog="lake"), commits[0])
    for rows in commits:
        table.append(rows)
    return checksum(table.scan().to_arrow())


def test_the_same_rows_in_other_files_and_another_order_have_the_same_checksum(tmp_path: Path, day: pa.Table) -> None:
    backwards = day.take(list(reversed(range(day.num_rows))))
    once = checksum_of(tmp_path / "once", day)
    twice = checksum_of(tmp_path / "twice", backwards.slice(0, 100), backwards.slice(100))
    assert once == twice


def test_one_changed_value_changes_the_checksum(tmp_path: Path, day: pa.Table) -> None:
    distances = day["distance"].to_pylist()
    column = day.schema.get_field_index("distance")
    changed = day.set_column(column, day.schema.field(column), [[distances[0] + 1, *distances[1:]]])
    (rows, mine), (same_rows, theirs) = checksum_of(tmp_path / "a", day), checksum_of(tmp_path / "b", changed)
    assert rows == same_rows
    assert mine != theirs
