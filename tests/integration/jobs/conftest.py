"""A job lifecycle on both databases, on a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, Submission, TableLocks
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store

VERA = Actor("vera", via="api")
ACTIONS = ["rewrite_data_files", "expire_snapshots"]


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def jobs(store: Store) -> Iterator[Jobs]:
    with Jobs(store) as jobs:
        yield jobs


@pytest.fixture
def locks(store: Store) -> TableLocks:
    return TableLocks(store)


@pytest.fixture
def table() -> TableName:
    return TableName.parse("analytics.page_views", catalog="lake")


@pytest.fixture
def other_table() -> TableName:
    return TableName.parse("analytics.clicks", catalog="lake")


@pytest.fixture
def trail(store: Store) -> AuditTrail:
    return AuditTrail(store)


@pytest.fixture(params=["submit", "dry run"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Submission]:
    """A submit or a dry run with a key."""

    results = None if request.param == "submit" else ()

    def submit(
        jobs: Jobs, table: TableName, key: str = "key", actions: Sequence[str] = ACTIONS, actor: Actor = VERA, **options: Any
    ) -> Submission:
        return jobs.submit_once(table, actions, options=options, key=key, actor=actor, results=results)

    return submit
