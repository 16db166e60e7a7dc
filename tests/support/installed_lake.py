"""Fixtures of tests in an installation: its jobs, and a table in its catalog. They need the fixture ``installation``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_snowpack import hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs

TABLE = "demo.flights"


@pytest.fixture
def jobs(installation: Path) -> Iterator[Jobs]:
    """The store's jobs, as another process would see them."""
    with hooks.SnowpackHook() as hook:
        yield hook.jobs()


@pytest.fixture
def identified(installation: Path) -> Callable[[str], TableName]:
    """Name a table of the installation's catalog as the operators and commands name it."""
    return hooks.IcebergCatalogHook().identified


@pytest.fixture
def flights(identified: Callable[[str], TableName]) -> TableName:
    """A real Iceberg table of six small files."""
    import pyarrow as pa

    catalog = hooks.IcebergCatalogHook().catalog
    catalog.create_namespace("demo")
    rows = pa.table({"month": pa.array([1, 2], pa.int32()), "delay": pa.array([3, 4], pa.int32())})
    table = catalog.create_table(TABLE, schema=rows.schema)
    for _ in range(6):
        table.append(rows)
    return identified(TABLE)
