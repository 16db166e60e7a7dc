"""A scheduler on both databases, with a clock that the tests move and an Airflow that is two dictionaries.

Airflow is replaced at its outermost edge: what runs there, and the call that starts a run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.scheduling import (
    Checker,
    Clocks,
    DagRuns,
    Event,
    EventLog,
    Launcher,
    NotStarted,
    Runs,
    Schedules,
    Subscriber,
)
from airflow_snowpack.scheduling.trigger import table_key
from airflow_snowpack.store import Store, open_store, upgrade_schema
from airflow_snowpack.store.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from airflow_snowpack.scheduling import CheckReport, EndedRun, Launch


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **period: float) -> None:
        self.now += timedelta(**period)


@dataclass
class FakeAirflow:
    """What the scheduler sees of Airflow."""

    running: dict[str, set[str]] = field(default_factory=dict)
    pools: dict[str, int | None] = field(default_factory=dict)
    ended: dict[str, EndedRun] = field(default_factory=dict)
    started: list[Launch] = field(default_factory=list)
    refusal: NotStarted | None = None

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns]:
        return {
            dag_id: DagRuns(
                others=len(self.running.get(dag_id, set()) - ids),
                ended={run_id: self.ended[run_id] for run_id in ids if run_id in self.ended},
            )
            for dag_id, ids in known.items()
        }

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, int | None]:
        return {pool: self.pools.get(pool) for pool in pools}

    def start(self, launch: Launch) -> NotStarted | None:
        if self.refusal is not None:
            return self.refusal
        if launch.run_id not in {one.run_id for one in self.started}:
            self.started.append(launch)
            self.running.setdefault(launch.dag_id, set()).add(launch.run_id)
        return None


class Scheduler:
    """All of its parts on one store."""

    def __init__(self, store: Store, clock: MovedClock) -> None:
        self.store, self.clock, self.airflow = store, clock, FakeAirflow()
        self.schedules = Schedules(store, catalog="lake")
        self.log, self.runs = EventLog(store), Runs(store)
        self.clocks, self.subscriber = Clocks(store), Subscriber(store)
        self.checker = Checker(store, self.airflow)
        self.launcher = Launcher(store, self.airflow, "test")
        self._snapshots = 0

    def arrive(self, table: str = "web.page_views", *, partitions: int = 1, **amounts: int) -> None:
        """A commit that adds partitions that were not there before."""
        self._snapshots += 1
        names = [f"p={self._snapshots}-{number}" for number in range(partitions)]
        key = table_key(TableName.parse(table, catalog="lake"))
        detail: dict[str, Any] = {"partitions": names}
        source = f"snapshot:{table}:{self._snapshots}"
        self.log.publish([Event(key, self.clock(), {"partitions": partitions, **amounts}, detail, source)])

    def work(self) -> CheckReport:
        """One round of every part."""
        self.clocks.step()
        while self.subscriber.step():
            pass
        report = self.checker.step()
        self.launcher.step()
        return report

    @property
    def started(self) -> list[Launch]:
        return self.airflow.started

    def end_run(self, number: int = -1, state: str = "success") -> None:
        launch = self.started[number]
        self.airflow.running[launch.dag_id].discard(launch.run_id)
        self.runs.ended(launch.dag_id, launch.run_id, state, self.clock())


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    upgrade_schema(Store(open_engine(store_url)))
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def scheduler(store: Store, clock: MovedClock) -> Scheduler:
    return Scheduler(store, clock)
