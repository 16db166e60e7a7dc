"""A registry on each database, a clock that the tests move, and the folder of one dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from built_runs import MIDNIGHT
from clocks import MovedClock

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(MIDNIGHT)


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with Store(open_engine(store_url), clock, sleep=lambda _: None) as opened:
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
