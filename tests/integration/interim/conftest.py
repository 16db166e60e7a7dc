"""A registry on each database, a catalog that PyIceberg writes to, a clock that tests move, and runs whose states tests tell.

To migrate a database takes longer than most of these tests: it is done once, and each test finds the interim tables empty.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from interim_lake import InterimLake, MovedClock, ToldRuns, new_catalog
from sqlalchemy.engine import make_url

from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.engine import open_engine
from airflow_snowpack.store.interim_tables import (
    interim_names,
    interim_pins,
    interim_refs,
    interim_runs,
    interim_slots,
    interim_tables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

ALL = (interim_names, interim_pins, interim_refs, interim_runs, interim_slots, interim_tables)


@pytest.fixture(scope="session")
def interim_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _migrated(f"sqlite:///{tmp_path_factory.mktemp('interim') / 'snowpack.db'}")


@pytest.fixture(scope="session")
def interim_on_postgres(postgres_url: str) -> Iterator[str]:
    server, name = make_url(postgres_url), f"interim_{uuid.uuid4().hex[:12]}"
    admin = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield _migrated(server.set(database=name).render_as_string(hide_password=False))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _migrated(url: str) -> str:
    with Store(open_engine(url)) as store:
        upgrade_schema(store)
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def interim_url(request: pytest.FixtureRequest) -> str:
    """A database without interim tables: the test runs once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"interim_on_{request.param}")
    with open_engine(url).begin() as conn:
        for table in ALL:
            conn.execute(table.delete())
    return url


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def interim_store(interim_url: str, clock: MovedClock) -> Iterator[Store]:
    with Store(open_engine(interim_url), clock, sleep=lambda _: None) as opened:
        yield opened


@pytest.fixture
def registry(interim_store: Store) -> InterimRegistry:
    return InterimRegistry(interim_store)


@pytest.fixture(scope="session")
def interim_catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """PyIceberg's view of an embedded catalog."""
    return new_catalog(tmp_path_factory.mktemp("interim-lake"))


@pytest.fixture
def lake_of_tables(registry: InterimRegistry, interim_catalog: Catalog) -> InterimLake:
    return InterimLake(registry, interim_catalog)


@pytest.fixture
def told() -> ToldRuns:
    return ToldRuns()
