"""Tables in need of maintenance, and an engine to give it to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from catalog_servers import CatalogServers
from spark_world import FirstMade, SparkWorld

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.store import open_store
from tests.integration.conftest import DATABASE, appender, table_maker

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def no_tables_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop what a test adds to the catalog of the session, because each removal and each expiry reads all of its tables."""
    if "spark" not in request.fixturenames:
        yield
        return
    catalog: Catalog = request.getfixturevalue("catalog")
    before = tables_in(catalog)
    yield
    for identifier in tables_in(catalog) - before:
        catalog.drop_table(identifier)


def tables_in(catalog: Catalog) -> set[tuple[str, ...]]:
    return {identifier for namespace in catalog.list_namespaces() for identifier in catalog.list_tables(namespace)}


@pytest.fixture(scope="session")
def removals(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Removals]:
    """Where the engine of these tests keeps the lists of what it deletes."""
    file = shutil.copy(migrated_sqlite, tmp_path_factory.mktemp("removals") / "snowpack.db")
    with open_store(f"sqlite:///{file}") as store:
        yield Removals(store)


@pytest.fixture(scope="session")
def first_made(tmp_path_factory: pytest.TempPathFactory) -> FirstMade:
    return FirstMade(tmp_path_factory.mktemp("fragmented"))


@pytest.fixture
def world(
    spark: SparkSession,
    catalog: Catalog,
    removals: Removals,
    new_table: Callable[..., TableName],
    append: Callable[..., None],
    first_made: FirstMade,
) -> SparkWorld:
    return SparkWorld(spark, catalog, removals, new_table, append, first_made)


@pytest.fixture
def one_commit(world: SparkWorld) -> TableName:
    """A table of one commit, for the tests of what must not change a table."""
    return world.fragmented(commits=1, deletes=0)


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[CatalogServers]:
    found = CatalogServers(tmp_path_factory.mktemp("servers"), spark, DATABASE)
    yield found
    found.stop()


@pytest.fixture
def world_of(
    servers: CatalogServers, spark: SparkSession, removals: Removals, tmp_path: Path
) -> Iterator[Callable[[str | CatalogConfig], SparkWorld]]:
    """Worlds in the catalogs of servers, by their kinds, or in one that Spark has, too. Their tables go with the test."""
    used: dict[str, tuple[Catalog, set[tuple[str, ...]]]] = {}

    def world(where: str | CatalogConfig) -> SparkWorld:
        config = servers.catalog(where) if isinstance(where, str) else where
        catalog = config.load(limit=timedelta(seconds=60))
        used.setdefault(config.name, (catalog, tables_in(catalog)))
        return SparkWorld(spark, catalog, removals, table_maker(spark, config.name), appender(catalog), FirstMade(tmp_path))

    yield world
    for catalog, before in used.values():
        for identifier in tables_in(catalog) - before:
            catalog.drop_table(identifier)
