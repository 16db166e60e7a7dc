"""Fixtures of tests in an installation: its jobs, and a table in its catalog. They need the fixture ``installation``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import CatalogConfig, TableName
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


@pytest.fixture(scope="session")
def six_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The metadata file of an Iceberg table of six small files, which took six commits."""
    import pyarrow as pa

    rows = pa.table({"month": pa.array([1, 2], pa.int32()), "delay": pa.array([3, 4], pa.int32())})
    with closing(CatalogConfig.embedded(tmp_path_factory.mktemp("flights")).load()) as catalog:
        catalog.create_namespace("demo")
        table = catalog.create_table(TABLE, schema=rows.schema)
        for _ in range(6):
            table.append(rows)
        return table.metadata_location


@pytest.fixture
def flights(identified: Callable[[str], TableName], six_files: str) -> TableName:
    """A real Iceberg table of six small files. Its commits are its own; the six files are those of all tests."""
    catalog = hooks.IcebergCatalogHook().catalog
    catalog.create_namespace("demo")
    catalog.register_table(TABLE, six_files)
    return identified(TABLE)
