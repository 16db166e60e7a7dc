"""Real PyIceberg tables in a SQLite catalog in a temporary folder; no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from table_zoo import Zoo

    Flights = Callable[..., Table]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """An empty catalog with a database ``db``."""
    from airflow_snowpack.iceberg import CatalogConfig

    loaded = CatalogConfig.embedded(tmp_path / "lake").load()
    loaded.create_namespace("db")
    return loaded


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Zoo:
    """Tables of every kind, made when they are first asked for, in a catalog of their own."""
    from table_zoo import Zoo

    from airflow_snowpack.iceberg import CatalogConfig

    return Zoo(CatalogConfig.embedded(tmp_path_factory.mktemp("zoo")).load())


@pytest.fixture
def flights(catalog: Catalog) -> Flights:
    """Make a table partitioned by month, with one commit of one row for each month that is given."""
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType

    schema = Schema(
        NestedField(1, "month", LongType(), required=False),
        NestedField(2, "carrier", StringType(), required=False),
    )
    by_month = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))

    def make(*months: int, name: str = "flights", location: str | None = None, properties: dict[str, str] | None = None) -> Table:
        table = catalog.create_table(
            f"db.{name}", schema, location=location, partition_spec=by_month, properties=properties or {}
        )
        for month in months:
            table.append(pa.table({"month": pa.array([month], pa.int64()), "carrier": ["UA"]}))
        return table

    return make
