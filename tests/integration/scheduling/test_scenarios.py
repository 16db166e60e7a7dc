"""The eight test scenarios of the specification, each one a test, with a clock that the tests move."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    CustomEvents,
    Delay,
    MaxConcurrent,
    PartitionsAdded,
    Schedule,
    SinceLastRun,
    TimeWindow,
    sync,
)

pytestmark = pytest.mark.one_database

VIEWS = "web.page_views"


def partitions(count: int) -> PartitionsAdded:
    return PartitionsAdded(VIEWS, count)


def test_1_partitions_within_the_minimum_interval_start_no_second_run(scheduler: Any) -> None:
    scheduler.declare("any", partitions(1), SinceLastRun("5m"))
    for _ in range(5):
        scheduler.arrive()
        scheduler.work()
        if scheduler.airflow.running.get("maintain"):
            scheduler.end_run()
        scheduler.go_on(seconds=59)
    assert len(scheduler.started) == 1

    scheduler.go_on(minutes=5)
    assert len(scheduler.started) == 2
    assert scheduler.started[1].conf["snowpack"]["event_count"] == 4, "the other four are one run"


def test_2_runs_get_the_properties_that_the_schedule_has_by_then(scheduler: Any) -> None:
    scheduler.declare("props", partitions(1), conf={"mode": "old", "size": 1})
    scheduler.arrive()
    scheduler.work()
    scheduler.end_run()

    changed = Schedule("props", dag_id="maintain", trigger=partitions(1), conf={"mode": "new"}, enabled=True)
    assert sync(scheduler.schedules, [changed], update=True).updated == ("props",)
    scheduler.arrive()
    scheduler.work()

    first, second = (dict(launch.conf) for launch in scheduler.started)
    assert (first.pop("snowpack")["schedule"], first) == ("props", {"mode": "old", "size": 1})
    assert (second.pop("snowpack")["schedule"], second) == ("props", {"mode": "new"})


def test_3_a_redeployment_changes_schedules_only_when_it_may(scheduler: Any) -> None:
    def schedule(name: str, event: str, version: int) -> Schedule:
        return Schedule(name, dag_id="app", trigger=CustomEvents(event), conf={"version": version}, enabled=True)

    def listed() -> dict[str, int]:
        return {one.schedule.name: one.schedule.conf["version"] for one in scheduler.schedules.list()}

    original = [schedule("kept", "a", 1), schedule("changed", "b", 1), schedule("dropped", "c", 1)]
    redeployed = [schedule("kept", "a", 1), schedule("changed", "b", 2), schedule("added", "d", 2)]
    sync(scheduler.schedules, original, update=True)

    sync(scheduler.schedules, redeployed, update=False)
    assert listed() == {"kept": 1, "changed": 1, "dropped": 1}
    for event in "abcd":
        scheduler.send(event)
    scheduler.work()
    assert sorted(launch.schedule for launch in scheduler.started) == ["changed", "dropped", "kept"], "and not the added one"

    sync(scheduler.schedules, redeployed, update=True)
    assert listed() == {"kept": 1, "changed": 2, "added": 2}
    for event in "abcd":
        scheduler.send(event)
    scheduler.work()
    started = sorted((one.schedule, one.conf["version"]) for one in scheduler.started[3:])
    assert started == [("added", 2), ("changed", 2), ("kept", 1)]


def test_4_partitions_from_before_an_update_do_not_count_after_it(scheduler: Any) -> None:
    scheduler.declare("five", partitions(6), conf={"props": "old"})
    scheduler.arrive()
    scheduler.work()
    changed = Schedule("five", dag_id="maintain", trigger=partitions(5), conf={"props": "new"})
    scheduler.schedules.update(changed, discard=True)

    scheduler.arrive(partitions=4)
    scheduler.go_on(seconds=10)
    assert scheduler.started == []

    scheduler.arrive()
    scheduler.work()
    (launch,) = scheduler.started
    assert launch.conf["props"] == "new"


def test_5_an_update_discards_what_waits_and_its_own_values_hold(scheduler: Any) -> None:
    scheduler.declare("delayed", partitions(5), Delay("10m"), conf={"props": "old"})
    scheduler.arrive(partitions=5)
    scheduler.work()
    shorter = Schedule("delayed", dag_id="maintain", trigger=partitions(3), constraints=[Delay("PT0.1S")], conf={"props": "new"})
    scheduler.schedules.update(shorter, discard=True)
    scheduler.arrive(partitions=3)
    scheduler.work()
    assert scheduler.started == [], "a tenth of a second has not passed"

    scheduler.go_on(seconds=0.1)
    scheduler.go_on(minutes=20)
    (launch,) = scheduler.started
    assert launch.conf["props"] == "new"
    assert launch.conf["snowpack"]["event_count"] == 1


def test_6_a_deleted_schedule_starts_nothing_even_if_the_last_partition_comes_at_once(scheduler: Any) -> None:
    scheduler.declare("five", partitions(5))
    scheduler.arrive(partitions=4)
    scheduler.work()
    scheduler.schedules.delete("five")
    scheduler.arrive()
    scheduler.work()
    scheduler.go_on(seconds=10)

    assert scheduler.started == []


def test_7_a_schedule_deleted_half_a_second_before_its_delay_is_over_starts_nothing(scheduler: Any) -> None:
    scheduler.declare("delayed", partitions(5), Delay("40s"))
    scheduler.arrive(partitions=5)
    scheduler.work()
    scheduler.go_on(seconds=39.5)
    scheduler.schedules.delete("delayed")
    scheduler.go_on(seconds=0.5)
    scheduler.go_on(minutes=5)

    assert scheduler.started == []
    (job,) = scheduler.pending("delayed")
    assert (job.state, job.ended_because) == ("discarded", "the schedule was deleted")


def test_8_a_run_starts_only_when_the_trigger_and_every_constraint_are_satisfied(scheduler: Any) -> None:
    window = TimeWindow("12:05", "13:00")  # it is 12:00
    scheduler.declare("all", partitions(2), window, Delay("1m"), MaxConcurrent(1), SinceLastRun("10m"))
    scheduler.airflow.running["maintain"] = {"manual__1"}

    scheduler.arrive()
    scheduler.go_on(minutes=3)
    assert scheduler.started == [], "the trigger is not satisfied"
    scheduler.arrive()
    scheduler.go_on(minutes=1)
    assert scheduler.started == [], "the window is not open, the delay not over, and another run is active"
    scheduler.go_on(minutes=2)
    assert scheduler.started == [], "another run is active"
    scheduler.airflow.running["maintain"].clear()
    scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
    scheduler.work()
    assert scheduler.started == [], "a run succeeded just now"
    scheduler.go_on(minutes=9, seconds=59)
    assert scheduler.started == []
    scheduler.go_on(seconds=1)
    assert len(scheduler.started) == 1
