"""A registry on each database, a clock that the tests move, and the folder of one dataset.

To migrate a database takes longer than most of these tests: it is done once, and each test finds the registry's tables empty.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from built_runs import MovedClock
from sqlalchemy.engine import make_url

from airflow_snowpack.builds.registry import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store, upgrade_schema
from airflow_snowpack.store.build_tables import build_datasets, build_publications, build_runs
from airflow_snowpack.store.engine import open_engine
from airflow_snowpack.store.operation_tables import operation_edges, operation_tables, operations

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def builds_on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _migrated(f"sqlite:///{tmp_path_factory.mktemp('builds') / 'snowpack.db'}")


@pytest.fixture(scope="session")
def builds_on_postgres(postgres_url: str) -> Iterator[str]:
    server, name = make_url(postgres_url), f"builds_{uuid.uuid4().hex[:12]}"
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
def builds_url(request: pytest.FixtureRequest) -> str:
    """A database without builds: the test runs once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"builds_on_{request.param}")
    with open_engine(url).begin() as conn:
        for table in (build_datasets, build_publications, build_runs, operations, operation_tables, operation_edges):
            conn.execute(table.delete())
    return url


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(builds_url: str, clock: MovedClock) -> Iterator[Store]:
    with Store(open_engine(builds_url), clock, sleep=lambda _: None) as opened:
        yield opened


@pytest.fixture
def naps() -> list[float]:
    """How long the registry would have slept."""
    return []


@pytest.fixture
def registry(store: Store, naps: list[float]) -> BuildRegistry:
    return BuildRegistry(store, sleep=naps.append)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "flights", sleep=lambda _: None)
