"""A registry on each database, a catalog that PyIceberg writes to, a clock that tests move, and runs whose states tests tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from clocks import MovedClock
from interim_lake import NOON, InterimLake, ReportedRuns, new_catalog

from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(NOON)


@pytest.fixture
def interim_store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with Store(open_engine(store_url), clock, sleep=lambda _: None) as opened:
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
def reported() -> ReportedRuns:
    return ReportedRuns()
