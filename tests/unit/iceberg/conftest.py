"""Real PyIceberg tables in a SQLite catalog in a temporary folder; no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from airflow_snowpack.iceberg import CatalogConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    Flights = Callable[..., Table]

SCHEMA = Schema(
    NestedField(1, "month", LongType(), required=False),
    NestedField(2, "carrier", StringType(), required=False),
)
BY_MONTH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    loaded = CatalogConfig.embedded(tmp_path / "lake").load()
    loaded.create_namespace("db")
    return loaded


@pytest.fixture
def flights(catalog: Catalog) -> Flights:
    """Make a table partitioned by month, with one commit of one row for each month that is given."""

    def make(*months: int, name: str = "flights", location: str | None = None, properties: dict[str, str] | None = None) -> Table:
        table = catalog.create_table(
            f"db.{name}", SCHEMA, location=location, partition_spec=BY_MONTH, properties=properties or {}
        )
        for month in months:
            table.append(pa.table({"month": pa.array([month], pa.int64()), "carrier": ["UA"]}))
        return table

    return make
