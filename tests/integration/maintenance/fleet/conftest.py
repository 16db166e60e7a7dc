"""A store with passes, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from airflow_snowpack.maintenance.fleet.passes import FleetPasses
from airflow_snowpack.store import Store, open_store


@dataclass
class MovedClock:
    """The present moment, as the test sets it."""

    now: datetime = datetime(2026, 11, 23, 2, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, span: timedelta) -> None:
        self.now += span


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url) as opened:
        opened.clock = clock
        yield opened


@pytest.fixture
def passes(store: Store) -> FleetPasses:
    return FleetPasses(store)
