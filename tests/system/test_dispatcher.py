"""The dispatcher DAG on a running Airflow: the specification's scenarios 1, 4, 6 and 8, with real commits and real DAG runs.

The scenarios that wait for a period begin together, before the first test, and their periods elapse while the others run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import (
    CommitsAdded,
    CustomEvents,
    Delay,
    Event,
    EventLog,
    MaxConcurrent,
    PartitionsAdded,
    RegisteredRun,
    RegisteredRuns,
    Schedule,
    Schedules,
    SinceLastRun,
    explain,
    run_registered,
)
from tests.system.conftest import Run, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

PER_PART = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
COLUMNS = Schema(NestedField(1, "part", LongType()), NestedField(2, "value", LongType()))
INTERVAL, DELAY = timedelta(seconds=60), timedelta(seconds=30)
QUIET_S = 1.0  # after a schedule beside it has launched: what was to start by then has started

pytestmark = pytest.mark.usefixtures("within_the_interval", "delayed")


class Feed:
    """A table that gets partitions."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = TableName("lake", "db", f"feed_{uuid4().hex[:10]}")
        self._table = catalog.create_table(self.name.identifier, schema=COLUMNS, partition_spec=PER_PART)
        self._parts = 0

    def add_partition(self, count: int = 1) -> None:
        for _ in range(count):
            self._parts += 1
            self._table.append(pa.table({"part": pa.array([self._parts]), "value": pa.array([1])}))


@dataclass(frozen=True)
class Begun:
    """A schedule, and the run that its DAG had before the one that it waits to start."""

    schedule: str
    first: Run


@pytest.fixture
def feed(catalog: Catalog) -> Feed:
    return Feed(catalog)


@pytest.fixture(scope="module")
def schedules(jobs: Jobs) -> Schedules:
    return Schedules(jobs.store, catalog="lake")


def name_of(dag_id: str) -> str:
    return f"of_{dag_id}_{uuid4().hex[:6]}"


def runs_of(airflow: RunningAirflow, dag_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = airflow.call("GET", f"/dags/{dag_id}/dagRuns?order_by=run_after")["dag_runs"]
    return found


def see_runs(airflow: RunningAirflow, dag_id: str, count: int) -> list[dict[str, Any]]:
    """Wait for so many."""
    found: list[dict[str, Any]] = airflow.until(
        lambda: (runs := runs_of(airflow, dag_id)) and len(runs) >= count and runs, f"{dag_id} has {count} runs"
    )
    assert len(found) == count
    return found


@pytest.fixture(scope="module")
def within_the_interval(_running: RunningAirflow, schedules: Schedules, catalog: Catalog) -> Begun:
    """A schedule whose DAG has just succeeded, and four partitions that arrive within the interval."""
    feed, dag_id = Feed(catalog), "system_scheduled_1"
    name = name_of(dag_id)
    trigger, constraints = PartitionsAdded(feed.name.dotted), [SinceLastRun(INTERVAL)]
    schedules.create(Schedule(name, dag_id=dag_id, trigger=trigger, constraints=constraints, enabled=True))
    feed.add_partition()
    (first,) = see_runs(_running, dag_id, 1)
    assert first["conf"]["snowpack"]["event_count"] == 1
    run = Run(dag_id, first["dag_run_id"])
    assert _running.ended(run) == "success"
    feed.add_partition(4)
    return Begun(name, run)


@pytest.fixture(scope="module")
def delayed(_running: RunningAirflow, within_the_interval: Begun, schedules: Schedules, catalog: Catalog) -> Begun:
    """A schedule whose triggers are both satisfied, whose delay has begun, and whose DAG has run by hand."""
    feed, dag_id = Feed(catalog), "system_scheduled_8"
    name = name_of(dag_id)
    trigger = CommitsAdded(feed.name.dotted) & CustomEvents(name)
    constraints = [Delay(DELAY), MaxConcurrent(1), SinceLastRun("1s")]
    schedules.create(Schedule(name, dag_id=dag_id, trigger=trigger, constraints=constraints, enabled=True))
    busy = _running.trigger(dag_id, {})
    feed.add_partition()
    _running.until(lambda: "1 of 1 commits" in str(explain(schedules, name)), "the commit is counted")
    EventLog(schedules.store).publish([Event(f"event:{name}", schedules.store.clock())])
    _running.until(
        lambda: explain(schedules, name).blocked_by or explain(schedules, name).ended,
        "the trigger is satisfied, and the delay has begun, or is over on a busy machine",
    )
    return Begun(name, busy)


def nothing_starts(airflow: RunningAirflow, schedules: Schedules, witness: str, dag_id: str) -> None:
    """The schedule beside it has launched upon the same arrivals, and this DAG has no run."""
    airflow.until(lambda: explain(schedules, witness).ended, f"{witness} launches")
    schedules.suspend(witness)
    time.sleep(QUIET_S)
    assert runs_of(airflow, dag_id) == []


@pytest.fixture
def witness(schedules: Schedules, feed: Feed) -> Callable[[int], str]:
    """Make a schedule that launches when this many partitions have arrived from now on; gives its name."""

    def make(partitions: int) -> str:
        name = name_of("system_witness")
        trigger = PartitionsAdded(feed.name.dotted, partitions)
        schedules.create(Schedule(name, dag_id="system_witness", trigger=trigger, enabled=True))
        return name

    return make


def test_scenario_1_partitions_within_the_interval_start_no_second_run(
    airflow: RunningAirflow, schedules: Schedules, within_the_interval: Begun
) -> None:
    """On a machine so busy that the interval is over by now, the last test here still shows that no run began within it."""
    name, dag_id = within_the_interval.schedule, within_the_interval.first.dag_id
    airflow.until(
        lambda: "succeeded less than" in str(explain(schedules, name)) or len(runs_of(airflow, dag_id)) > 1,
        "the second run waits, and the explanation gives the reason",
    )


def test_scenario_4_after_an_update_counting_begins_anew_and_the_run_has_the_new_properties(
    airflow: RunningAirflow, schedules: Schedules, feed: Feed, witness: Callable[[int], str]
) -> None:
    dag_id = "system_scheduled_4"
    six, five = (PartitionsAdded(feed.name.dotted, number) for number in (6, 5))
    name = name_of(dag_id)
    schedules.create(Schedule(name, dag_id=dag_id, trigger=six, conf={"mode": "old"}, enabled=True))
    feed.add_partition()
    airflow.until(lambda: "1 of 6 partitions" in str(explain(schedules, name)), "the partition is counted")
    schedules.update(Schedule(name, dag_id=dag_id, trigger=five, conf={"mode": "new"}), discard=True)
    beside = witness(4)
    feed.add_partition(4)
    nothing_starts(airflow, schedules, beside, dag_id)
    assert "4 of 5 partitions" in str(explain(schedules, name))

    feed.add_partition()
    (run,) = see_runs(airflow, dag_id, 1)
    assert (run["conf"]["mode"], run["conf"]["snowpack"]["event_count"]) == ("new", 5)


def test_scenario_6_a_deleted_schedule_starts_nothing(
    airflow: RunningAirflow, schedules: Schedules, feed: Feed, witness: Callable[[int], str]
) -> None:
    dag_id, name = "system_scheduled_6", name_of("system_scheduled_6")
    schedules.create(Schedule(name, dag_id=dag_id, trigger=PartitionsAdded(feed.name.dotted, 5), enabled=True))
    feed.add_partition(4)
    airflow.until(lambda: "4 of 5 partitions" in str(explain(schedules, name)), "four partitions are counted")
    schedules.delete(name)
    beside = witness(1)
    feed.add_partition()
    nothing_starts(airflow, schedules, beside, dag_id)


def test_scenario_8_a_run_starts_only_when_the_trigger_and_all_constraints_are_satisfied(
    airflow: RunningAirflow, schedules: Schedules, delayed: Begun
) -> None:
    assert airflow.ended(delayed.first) == "success"
    *_, run = see_runs(airflow, delayed.first.dag_id, 2)
    pending = airflow.until(
        # Airflow has the run a moment before the launcher records it.
        lambda: next((each for each in explain(schedules, delayed.schedule).ended if each.run_id == run["dag_run_id"]), None),
        "the launch is recorded",
    )
    assert pending.triggered_at is not None
    assert pending.ended_at is not None
    assert pending.ended_at - pending.triggered_at >= DELAY
    made_at = datetime.fromisoformat(run["queued_at"])
    assert made_at - pending.triggered_at >= DELAY, "Airflow had no run before the delay was over"


def test_a_registered_run_starts_by_hand_with_what_is_asked_and_by_its_cron_with_what_is_registered(
    airflow: RunningAirflow, jobs: Jobs
) -> None:
    dag_id, name = "system_registered", name_of("system_registered")
    runs = RegisteredRuns(jobs.store, catalog="lake")
    runs.register(RegisteredRun(name, dag_id, {"days": 7}, preservation="FULL"))
    asked = run_registered(runs, name, {"days": 30}, preservation="NONE")
    (by_hand,) = see_runs(airflow, dag_id, 1)
    assert by_hand["dag_run_id"] == asked.run_id
    assert by_hand["conf"]["days"] == 30
    assert by_hand["conf"]["snowpack_run"] == {"name": name, "preservation": "NONE", "explicit": True}

    runs.upsert(RegisteredRun(name, dag_id, {"days": 7}, cron="*/2 * * * * *", preservation="FULL"), discard=True)
    airflow.until(lambda: len(runs_of(airflow, dag_id)) > 1, "its cron has started it")
    runs.unregister(name)
    by_cron = runs_of(airflow, dag_id)[1]
    assert by_cron["conf"]["days"] == 7
    assert by_cron["conf"]["snowpack_run"] == {"name": name, "preservation": "FULL", "explicit": False}


def test_scenario_1_after_the_interval_one_run_has_all_partitions_that_arrived_within_it(
    airflow: RunningAirflow, within_the_interval: Begun
) -> None:
    """The last one here, so that the interval has elapsed meanwhile."""
    first, second = see_runs(airflow, within_the_interval.first.dag_id, 2)
    assert second["conf"]["snowpack"]["event_count"] == 4
    apart = datetime.fromisoformat(second["queued_at"]) - datetime.fromisoformat(first["end_date"])
    assert apart >= INTERVAL - timedelta(seconds=1), "Airflow may note the end a moment after it has reported it"
