"""A build without Spark publishes a null list of structs as null, or fails: PyIceberg itself makes an empty one of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.frames.tables import write_table
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from pyiceberg.table import Table

ITEMS = pa.table({"id": [1, 2, 3], "items": pa.array([None, [], [{"sku": "x"}]], pa.list_(pa.struct({"sku": pa.string()})))})


@pytest.fixture
def items(installation: Path) -> Table:
    catalog = hooks.IcebergCatalogHook().catalog
    name = TableName("lake", "demo", "items")
    write_table(ITEMS, name, catalog, "0" * 32)
    return catalog.load_table(name.identifier)


def build() -> operators.ShardedBuildOperator:
    return operators.ShardedBuildOperator(
        task_id="build",
        dataset="items",
        key="id",
        num_shards=1,
        engine="python",
        table="demo.items",
        as_of=datetime(2026, 1, 1, tzinfo=UTC),
        retries=1,
    )


def test_a_null_list_of_structs_is_published_as_null(items: Table, installation: Path, run_operator: Runner) -> None:
    outcome = run_operator(build())

    assert outcome.state == "success", outcome.error
    reader = SnapshotReader(installation / "lake" / "builds" / "items")
    assert [reader.get(key) for key in (1, 2, 3)] == ITEMS.to_pylist()


def test_a_table_that_cannot_be_read_past_pyiceberg_fails_for_good(items: Table, run_operator: Runner) -> None:
    with items.update_schema() as change:
        change.add_column("more", items.schema().find_type("id"))
    items.append(ITEMS.append_column("more", pa.array([1, 2, 3])))

    outcome = run_operator(build())

    assert outcome.state == "failed"
    assert "it has no column with the id" in str(outcome.error)
    assert "build it with engine='spark'" in str(outcome.error)
