"""A scheduler on both databases, with a clock that the tests move and an Airflow that is two dictionaries.

Airflow is replaced at its outermost edge: what runs there, and the call that starts a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock

from airflow_snowpack.hooks.load_probes import measure
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.scheduling import Event, EventLog, MaxConcurrent, PendingRun, Runs, Schedule, Schedules
from airflow_snowpack.scheduling.airflow_port import (
    DagRuns,
    EndedRun,
    EndsFound,
    EndsQuery,
    Launch,
    NotStarted,
    Slots,
    Unavailable,
)
from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.events.clocks import Clocks
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.history import ScheduleEntry, read_history
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.model import RoundReport, pending_from
from airflow_snowpack.scheduling.triggers.trigger import Trigger, custom_key, table_key
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.schedules import pending_jobs

PROBES = {"load": "cluster_probe:load", "time": "time:time", "broken": "operator:eq", "licenses": "acme_airflow:used_licenses"}
"""The load probes of the installation."""


UNLIMITED = MaxConcurrent(1_000_000)


@dataclass
class FakeAirflow:
    """What the scheduler sees of Airflow."""

    running: dict[str, set[str]] = field(default_factory=dict)
    pools: dict[str, Slots] = field(default_factory=dict)
    ended: dict[str, EndedRun] = field(default_factory=dict)
    finished: dict[str, dict[str, EndedRun]] = field(default_factory=dict)
    started: list[Launch] = field(default_factory=list)
    refusal: NotStarted | None = None
    secret: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)

    def dag_runs(self, known: Mapping[str, frozenset[str]]) -> Mapping[str, DagRuns | Unavailable]:
        return {
            dag_id: Unavailable("403")
            if dag_id in self.secret
            else DagRuns(
                others=len(self.running.get(dag_id, set()) - ids),
                ended={run_id: self.ended[run_id] for run_id in ids if run_id in self.ended},
            )
            for dag_id, ids in known.items()
        }

    def active_among(self, dag_id: str, run_ids: frozenset[str]) -> int:
        return len(self.running.get(dag_id, set()) & run_ids)

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        return {
            one.dag_id: EndsFound({run: end for run, end in self.finished.get(one.dag_id, {}).items() if end.at >= one.since})
            for one in asked
        }

    def missing_dags(self, dag_ids: Iterable[str]) -> Mapping[str, bool]:
        return {dag_id: dag_id in self.gone for dag_id in dag_ids}

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        return {pool: self.pools.get(pool) for pool in pools}

    def loads(self, probes: Iterable[str]) -> Mapping[str, float | Unavailable]:
        return measure(probes, PROBES)

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
        self.schedules = Schedules(store, catalog="lake", probes=PROBES)
        self.log, self.runs = EventLog(store), Runs(store)
        self.clocks, self.subscriber = Clocks(store), Subscriber(store)
        self.checker = Checker(store, self.airflow)
        self.launcher = Launcher(store, self.airflow, "test")
        self._snapshots = 0

    def declare(self, name: str, trigger: Trigger, *constraints: Constraint, **fields: Any) -> Schedule:
        """An enabled schedule of DAG ``maintain``, if nothing else is said."""
        declared = Schedule(name, **{"dag_id": "maintain", "enabled": True, **fields}, trigger=trigger, constraints=constraints)
        self.schedules.create(declared)
        return declared

    def change(self, name: str) -> None:
        """Another definition to the same effect: counting begins again, and what waits is discarded."""
        was = self.schedules.get(name).schedule
        others = tuple(one for one in was.constraints if one != UNLIMITED)
        constraints = others if UNLIMITED in was.constraints else (*others, UNLIMITED)
        self.schedules.update(replace(was, constraints=constraints), discard=True)

    def send(self, name: str, times: int = 1) -> None:
        """Events from outside."""
        self.log.publish([Event(custom_key(name), self.clock()) for _ in range(times)])

    def go_on(self, **period: float) -> RoundReport:
        """Let time pass, then one round."""
        self.clock.move(**period)
        return self.work()

    def history(self, name: str) -> list[str]:
        """What is on record of a schedule, oldest first."""
        return [entry.what for entry in self.entries(name)]

    def entries(self, name: str) -> list[ScheduleEntry]:
        return read_history(self.store, name)[::-1]

    def last_entry(self, name: str) -> ScheduleEntry:
        return self.entries(name)[-1]

    def audit_trail(self) -> list[tuple[str, str, str]]:
        """Who changed what in which way, oldest first."""
        return [(entry.actor, entry.change, entry.subject) for entry in reversed(AuditTrail(self.store).latest())]

    def pending(self, name: str) -> list[PendingRun]:
        """The schedule's pending jobs, whatever became of them, oldest first."""
        query = sa.select(pending_jobs).where(pending_jobs.c.schedule == name).order_by(pending_jobs.c.created_at)
        return [pending_from(row) for row in self.store.read(lambda conn: conn.execute(query).all())]

    def arrive(self, table: str = "web.page_views", *, partitions: int = 1, **amounts: int) -> None:
        """A commit that adds partitions that were not there before."""
        self._snapshots += 1
        names = [f"p={self._snapshots}-{number}" for number in range(partitions)]
        key = table_key(TableName.parse(table, catalog="lake"))
        detail: dict[str, Any] = {"partitions": names}
        source = f"snapshot:{table}:{self._snapshots}"
        self.log.publish([Event(key, self.clock(), {"partitions": partitions, **amounts}, detail, source)])

    def work(self) -> RoundReport:
        """One round of every part."""
        self.clocks.step()
        while self.subscriber.step():
            pass
        for role in (Role.SCHEDULER, Role.POLLER):
            SignOfLife(self.store, role).beat()
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
    return MovedClock(datetime(2026, 11, 21, 12, 0, tzinfo=UTC))


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with open_store(store_url, clock=clock) as store:
        yield store


@pytest.fixture
def postgres_scheduler(postgres_database: str, clock: MovedClock) -> Iterator[Scheduler]:
    """A scheduler on Postgres, for what cannot happen where there is one writer at a time."""
    with open_store(postgres_database, clock=clock) as store:
        yield Scheduler(store, clock)


@pytest.fixture
def scheduler(store: Store, clock: MovedClock) -> Scheduler:
    return Scheduler(store, clock)


@pytest.fixture
def asked(scheduler: Scheduler) -> Schedules:
    """The schedules, with changes in the name of the user ``vera``."""
    return Schedules(scheduler.store, catalog="lake", actor=Actor("vera", "api"))
