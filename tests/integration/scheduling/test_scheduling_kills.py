"""kill -9 of any number of the scheduler's processes at random points: every event counts once, and each wanted run starts once.

In each round events are sent, tables get data, runs end, DAGs are paused, missing or broken for a while, and some of seven
processes are killed, or kill themselves between two statements; whoever is left goes on, and the others come back in the next
round. Airflow is a real HTTP server that keeps whoever starts a run waiting for a moment when the run is there, and now and then
does not answer.

Three rounds run with the other tests; each process is killed in at least one of them. Several hundred run with

    SNOWPACK_SOAK=1 make test TESTS=tests/integration/scheduling/test_scheduling_kills.py

``SNOWPACK_SEED`` chooses other moments.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import cycle, islice, pairwise
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import schedule_process
import sqlalchemy as sa
from bounded import started
from clocks import ShiftedClock
from effort import rounds, seed
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from schedule_process import PARTS, SENT
from tiny_airflow import TinyAirflow, tiny_airflow

from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.dag_runs import RestDagRuns
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import (
    Cron,
    CustomEvents,
    Event,
    EventLog,
    MaxConcurrent,
    PartitionsAdded,
    Poller,
    Runs,
    RunsSucceeded,
    Schedule,
    Scheduler,
    Schedules,
    SinceLastRun,
    send_event,
)
from airflow_snowpack.scheduling.triggers.trigger import clock_key, custom_key, run_key, table_key
from airflow_snowpack.store import Actor, Store, open_store
from airflow_snowpack.store.tables.schedules import events, launches, pending_events, pending_jobs, schedule_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from tiny_airflow import Run

pytestmark = pytest.mark.both_in_soak

ROUNDS = rounds(3, soak=200)
SEED = seed(2026)
LONGEST_S = 600 + 30 * ROUNDS
"""Far more than a busy machine needs; it only ends a test that hangs."""
KILLED_IN_TURN = 3
"""How many processes each round kills in turn, so that three rounds kill each of them; it kills others at random."""

VIEWS = TableName("lake", "db", "views")
GO, VIEWED, TICKED, SUCCEEDED = custom_key(SENT), table_key(VIEWS), clock_key("clock", 0), run_key("dag_single", "success")
APART = timedelta(seconds=5)
TICK = timedelta(seconds=10)
CLOSED = ("paused", "missing", "stale")
GROUP = {"one_at_a_time": frozenset({"dag_a", "dag_b"})}
IN_GROUP = MaxConcurrent(1, group="one_at_a_time")
DECLARED = {
    "each": (CustomEvents(SENT), [], GO),
    "third": (CustomEvents(SENT, 3), [], GO),
    "single": (CustomEvents(SENT), [MaxConcurrent(1), SinceLastRun(APART)], GO),
    "a": (CustomEvents(SENT), [IN_GROUP], GO),
    "b": (CustomEvents(SENT), [IN_GROUP], GO),
    "parts": (PartitionsAdded("db.views", 2), [], VIEWED),
    "after": (RunsSucceeded("dag_single", 2), [], SUCCEEDED),
    "clock": (Cron("*/10 * * * * *"), [], TICKED),
}
# Three rounds satisfy these triggers with any seed. A second success of ``dag_single``, for ``dag_after``, is not certain.
SURE_TO_START = {f"dag_{name}" for name in DECLARED} - {"dag_after"}


class World:
    """What happens while the scheduler's processes are killed."""

    def __init__(self, store: Store, clock: ShiftedClock, airflow: TinyAirflow, views: Table) -> None:
        self.store, self.clock, self.airflow, self.chance = store, clock, airflow, random.Random(SEED)
        self.wanted = self.snapshots = 0
        self._turns = cycle(self.chance.sample(PARTS, len(PARTS)))
        self._views, self._log, self._runs = views, EventLog(store), Runs(store)

    def go_on(self) -> None:
        """Something happens, and the clock goes faster than it should."""
        self.wanted += self.chance.randint(1, 3)
        self._log.publish(Event(GO, self.clock()) for _ in range(self.chance.randint(0, 3)))
        if self.snapshots < 2 or self.chance.random() < 0.3:
            self._views.append(pa.table({"part": [self.snapshots]}))
            self.snapshots += 1
        for dag_id in ("dag_third", "dag_parts"):
            if self.chance.random() < 0.2:
                self.airflow.closed[dag_id] = self.chance.choice(CLOSED)
            elif self.chance.random() < 0.3:
                self.airflow.closed.pop(dag_id, None)
        for run in self.airflow.end_some(0.5):
            if self.chance.random() < 0.5:  # the others' ends nobody tells
                self.tell_end(run)
        self.clock.ahead += timedelta(seconds=self.chance.uniform(0, 4))

    def tell_end(self, run: Run) -> None:
        assert run.ended_at is not None
        self._runs.ended(run.dag_id, run.run_id, "success", run.ended_at, began_at=run.began_at)

    def order(self) -> dict[str, Any]:
        """Which processes to kill in this round: those whose turn it is, and any number of others."""
        doomed = {*islice(self._turns, KILLED_IN_TURN), *self.chance.sample(PARTS, self.chance.randint(0, len(PARTS)))}
        suicides = {part: self.chance.randint(1, 60) for part in PARTS if self.chance.random() < 0.3}
        ahead = self.clock.ahead.total_seconds()
        return {
            "ms": self.chance.randint(20, 200),
            "kill": sorted(doomed),
            "suicides": suicides,
            "ahead": ahead,
            "wanted": self.wanted,
        }


@contextmanager
def fleet(url: str, airflow: TinyAirflow, lake: Path) -> Iterator[Callable[[dict[str, Any]], dict[str, list[str]]]]:
    """The processes; gives what has them live for a while and kills some."""
    command = [sys.executable, schedule_process.__file__, url, airflow.address, str(lake)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # its threads would not come along into a fork
    with started(command, patience_s=LONGEST_S, stdin=PIPE, stdout=PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def live(order: dict[str, Any]) -> dict[str, list[str]]:
            stdin.write(f"{json.dumps(order)}\n")
            stdin.flush()
            told: dict[str, list[str]] = json.loads(stdout.readline())
            return told

        assert stdout.readline() == "ready\n"
        yield live


@pytest.fixture
def world(store_url: str, tmp_path: Path) -> Iterator[World]:
    catalog, clock = CatalogConfig.embedded(tmp_path / "lake").load(), ShiftedClock()
    catalog.create_namespace("db")
    columns = Schema(NestedField(1, "part", LongType()))
    by_part = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
    views = catalog.create_table("db.views", columns, partition_spec=by_part)
    dag_ids = [f"dag_{name}" for name in DECLARED]
    with open_store(store_url, clock=clock) as store, tiny_airflow(clock, dag_ids, GROUP, SEED) as airflow:
        schedules = Schedules(store, catalog="lake")
        for name, (trigger, constraints, _) in DECLARED.items():
            schedules.create(Schedule(name, dag_id=f"dag_{name}", trigger=trigger, constraints=constraints, enabled=True))
        yield World(store, clock, airflow, views)


@pytest.mark.timeout(LONGEST_S + 120)
def test_kills_lose_no_event_and_start_no_run_twice(
    store_url: str, world: World, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    killed = Counter[str]()
    with fleet(store_url, world.airflow, tmp_path / "lake") as live:
        for _ in range(ROUNDS):
            world.go_on()
            told = live(world.order())
            assert told["ended"] == [], "nobody ends but by a kill"
            killed.update(told["killed"])
    finish(world, tmp_path / "lake")

    for name, (_, _, key) in DECLARED.items():
        assert_every_event_counted_once(world.store, name, key)
    assert_every_satisfied_job_launched_once(world)
    assert_no_two_at_once(world.airflow)
    assert_ticks_are_whole(world.store)
    assert len(found(world.store, sa.select(events.c.id).where(events.c.source_id.like("sent:%")))) == world.wanted
    assert len(found(world.store, sa.select(events.c.id).where(events.c.key == VIEWED))) == world.snapshots
    counts = {"rounds": ROUNDS, "faults": killed.total(), "runs": len(world.airflow.runs), "events": newest_event(world.store)}
    asked_again = world.airflow.asked.total() - len(world.airflow.runs)
    for name, number in {**counts, "starts_asked_for_again": asked_again}.items():
        record_property(name, number)
    assert min(killed[part] for part in PARTS) >= KILLED_IN_TURN * ROUNDS // len(PARTS) > 0, "every process was killed"
    assert {run.dag_id for run in world.airflow.runs.values()} >= SURE_TO_START, "every kind of trigger started a run"


def finish(world: World, lake: Path) -> None:
    """Without kills: every DAG is there, each event is sent once more, and the leases of the killed processes expire."""
    store = world.store
    world.airflow.closed.clear()
    world.clock.ahead += 3 * TICK  # however short the rounds were, the cron has several ticks
    for number in range(world.wanted):
        send_event(store, Actor("sender", "api"), SENT, source_id=str(number))
    with AirflowRest(world.airflow.address, token="of-the-tests") as rest:
        runs = RestDagRuns(rest)
        survivor = Scheduler(store, runs, runs, "survivor")
        poller = Poller(store, catalog_name="lake", broker=Broker(CatalogConfig.embedded(lake).load), every=timedelta(0))
        left: list[str] = []
        for _ in range(300):
            poller.step()
            while not survivor.step().is_idle:
                pass
            left = what_is_left(world)
            if not left:
                return
            world.airflow.end_some(1.0)
            world.clock.ahead += timedelta(seconds=15)
    raise AssertionError(f"It is never finished: {left}")


def what_is_left(world: World) -> list[str]:
    """What somebody still has to do."""
    heard = sa.select(sa.func.coalesce(sa.func.max(pending_events.c.event_id), 0)).scalar_subquery()
    listened_to = events.c.key.in_({key for _, _, key in DECLARED.values()})
    unheard = sa.select(events.c.key).where(events.c.id > heard, listened_to)
    moving = sa.select(pending_jobs.c.schedule).where(pending_jobs.c.state.in_(["pending_launch", "pending_constraint"]))
    waiting = sa.select(launches.c.run_id)
    left = [row[0] for query in (unheard, moving, waiting) for row in found(world.store, query)]
    ended = {run.run_id for run in world.airflow.runs.values() if run.dag_id == "dag_single" and not run.is_active}
    told = {row.detail["run_id"] for row in found(world.store, sa.select(events.c.detail).where(events.c.key == SUCCEEDED))}
    return left + sorted(ended - told)


def assert_every_event_counted_once(store: Store, schedule: str, key: str) -> None:
    happened = [row.id for row in found(store, sa.select(events.c.id).where(events.c.key == key).order_by(events.c.id))]
    counted = sa.select(pending_events.c.event_id).join(pending_jobs, pending_jobs.c.pending_id == pending_events.c.pending_id)
    counted = counted.where(pending_jobs.c.schedule == schedule).order_by(pending_events.c.event_id)
    assert [row.event_id for row in found(store, counted)] == happened, f"every event is in exactly one job of {schedule}"


def assert_every_satisfied_job_launched_once(world: World) -> None:
    jobs = {row.pending_id: row for row in found(world.store, sa.select(pending_jobs))}
    launched = {job.run_id: job for job in jobs.values() if job.state == "launched"}
    gone = {job.ended_because for job in jobs.values() if job.state == "discarded"}
    assert all(why.startswith("its events were added to run") for why in gone), "it joined one that waits for its DAG"
    assert {job.state for job in jobs.values()} <= {"launched", "pending_trigger", "discarded"}
    assert world.airflow.runs.keys() == launched.keys(), "what was to be launched runs, and nothing else does"
    assert len({job.pending_id for job in launched.values()}) == len(launched)
    entries = found(world.store, sa.select(schedule_history).where(schedule_history.c.what.like("launched%")))
    assert sorted(entry.pending_id for entry in entries) == sorted(job.pending_id for job in launched.values())
    for run in world.airflow.runs.values():
        told, mine = run.conf["snowpack"], pending_events.c.pending_id == launched[run.run_id].pending_id
        counted = sorted({row.event_id for row in found(world.store, sa.select(pending_events.c.event_id).where(mine))})
        assert (told["event_count"], [event["id"] for event in told["events"]]) == (len(counted), counted[-100:])


def assert_no_two_at_once(airflow: TinyAirflow) -> None:
    assert (airflow.at_once["dag_single"], airflow.at_once["one_at_a_time"]) == (1, 1)
    single = [run for run in airflow.runs.values() if run.dag_id == "dag_single"]
    for sooner, later in pairwise(single):
        assert sooner.ended_at is not None
        assert later.began_at >= sooner.ended_at + APART


def assert_ticks_are_whole(store: Store) -> None:
    told = [row.detail["ticks"] for row in found(store, sa.select(events.c.detail).where(events.c.key == TICKED))]
    moments = sorted(datetime.fromisoformat(tick) for ticks in told for tick in ticks)
    assert {later - sooner for sooner, later in pairwise(moments)} == {TICK}, "every tick once, and none left out"


def newest_event(store: Store) -> int:
    return int(found(store, sa.select(sa.func.max(events.c.id)))[0][0])


def found(store: Store, query: Any) -> list[Any]:
    return list(store.read(lambda conn: conn.execute(query).all()))
