"""A store with passes, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from clocks import MovedClock

from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.store import Store, open_store


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(datetime(2026, 11, 23, 2, tzinfo=UTC))


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url) as opened:
        opened.clock = clock
        yield opened


@pytest.fixture
def passes(store: Store) -> FleetPasses:
    return FleetPasses(store)
