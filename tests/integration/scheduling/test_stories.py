"""The eleven user stories of the specification, as far as the domain can show them, with a moved clock.

Shown elsewhere: what thousands of schedules cost (story 1) in ``test_plans.py`` and ``make bench``; that no process has
to live through an outage (story 2) in ``test_scheduling_kills.py``; that a successful run of a real DAG starts the next
one (story 4) through a running Airflow, in ``tests/system``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    BytesAdded,
    ClusterLoad,
    Cron,
    CustomEvents,
    Every,
    MaxConcurrent,
    MaxRuns,
    PartitionsAdded,
    PoolSlots,
    RecordsAdded,
    RunsFailed,
    RunsSucceeded,
    Since,
    TimeWindow,
)

pytestmark = pytest.mark.one_database

VIEWS = "web.page_views"


def started(scheduler: Any) -> list[str]:
    return [launch.schedule for launch in scheduler.started]


def test_1_hundreds_of_workflows_at_fixed_times_all_run_on_time(scheduler: Any) -> None:
    for number in range(60):
        scheduler.declare(f"hourly_{number}", Cron("0 * * * *"), dag_id=f"dag_{number}")
    scheduler.go_on(minutes=59, seconds=59)
    assert started(scheduler) == []
    scheduler.clock.move(seconds=1)
    for _ in range(2):
        scheduler.work()
    assert sorted(started(scheduler)) == sorted(f"hourly_{number}" for number in range(60))


def test_2_no_schedule_is_skipped_while_nothing_was_running(scheduler: Any) -> None:
    scheduler.declare("data", PartitionsAdded(VIEWS, 2))
    scheduler.declare("nightly", Cron("30 12 * * *"))
    scheduler.arrive(partitions=2)
    scheduler.go_on(hours=6)  # the first round after a failover

    assert sorted(started(scheduler)) == ["data", "nightly"]
    assert "ticks_missed" in scheduler.history("nightly")


def test_3_a_feed_that_arrives_once_a_day_runs_once_and_at_once(scheduler: Any) -> None:
    scheduler.declare("feed", PartitionsAdded(VIEWS))
    for hour in range(24):
        if hour == 17:
            scheduler.arrive()
            scheduler.work()
            assert len(scheduler.started) == 1, "in the same round"
        scheduler.go_on(hours=1)
    assert len(scheduler.started) == 1


def test_4_b_runs_after_a_succeeded_and_not_when_a_failed(scheduler: Any) -> None:
    scheduler.declare("b_after_a", RunsSucceeded("a"), dag_id="b")
    scheduler.declare("alarm", RunsFailed("a", 2), dag_id="page_somebody")

    scheduler.runs.ended("a", "run_1", "failed", scheduler.clock())
    scheduler.work()
    assert started(scheduler) == []
    scheduler.runs.ended("a", "run_2", "success", scheduler.clock())
    scheduler.work()
    assert started(scheduler) == ["b_after_a"]
    scheduler.runs.ended("a", "run_3", "failed", scheduler.clock())
    scheduler.work()
    assert started(scheduler) == ["b_after_a", "alarm"]


def test_5_feeds_with_generous_deadlines_share_what_is_left_over(scheduler: Any) -> None:
    for feed in range(6):
        scheduler.declare(
            f"feed_{feed}", PartitionsAdded(f"web.feed_{feed}"), MaxConcurrent(2, group="rare"), dag_id=f"dag_{feed}"
        )
        scheduler.arrive(f"web.feed_{feed}")
    scheduler.work()
    assert len(scheduler.started) == 2

    for number in range(6):
        scheduler.end_run(number)
        scheduler.work()
        active = sum(len(runs) for runs in scheduler.airflow.running.values())
        assert active <= 2
    assert len(scheduler.started) == 6, "each within the day"


@pytest.mark.parametrize("constraint", [PoolSlots("spark"), MaxConcurrent(1, group="spark")])
def test_6_under_load_the_high_priority_comes_first_and_the_low_catches_up(scheduler: Any, constraint: Any) -> None:
    scheduler.airflow.pools["spark"] = 0
    scheduler.airflow.running["other_dag"] = {"manual__1"}
    scheduler.declare("other", CustomEvents("never"), constraint, dag_id="other_dag")
    scheduler.declare("low", CustomEvents("go"), constraint, dag_id="low_dag", priority=-10)
    scheduler.declare("high", CustomEvents("now"), constraint, dag_id="high_dag", priority=10)
    scheduler.send("go")
    scheduler.work()
    scheduler.clock.move(seconds=15)
    scheduler.send("now")
    scheduler.work()
    assert started(scheduler) == []

    scheduler.airflow.pools["spark"] = 1
    scheduler.airflow.running["other_dag"].clear()
    assert scheduler.go_on(seconds=15).evaluated == 1
    assert started(scheduler) == [], "the low one is looked at before the high one, and gives way"
    scheduler.go_on(seconds=15)
    assert started(scheduler) == ["high"]
    scheduler.end_run(0)
    scheduler.go_on(seconds=30)
    assert started(scheduler) == ["high", "low"]


def test_6_load_of_the_cluster_defers_and_never_drops(scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNOWPACK_TEST_LOAD", "95")
    probe = ClusterLoad("load", below=80)
    scheduler.declare("low", CustomEvents("go"), probe)
    scheduler.send("go")
    scheduler.work()
    scheduler.go_on(hours=3)
    assert started(scheduler) == []
    monkeypatch.setenv("SNOWPACK_TEST_LOAD", "40")
    scheduler.go_on(minutes=1)
    assert started(scheduler) == ["low"]


def test_7_maintenance_once_a_day_within_its_window_and_only_with_new_data(scheduler: Any) -> None:
    nightly = Cron("0 18 * * *") & PartitionsAdded(VIEWS)
    scheduler.declare("nightly", nightly, TimeWindow("22:00", "06:00"), MaxRuns(1, "20h"))

    scheduler.arrive()
    scheduler.go_on(hours=6)
    assert started(scheduler) == [], "18:00: wanted, and not before the window"
    scheduler.go_on(hours=3, minutes=59)
    assert started(scheduler) == []
    scheduler.go_on(minutes=1)
    assert started(scheduler) == ["nightly"]
    for _ in range(24):
        scheduler.go_on(hours=1)
    assert started(scheduler) == ["nightly"], "no new data, no run"
    scheduler.arrive()
    scheduler.work()
    assert started(scheduler) == ["nightly", "nightly"], "within the window, and the tick of 18:00 is there"


def test_8_a_join_runs_when_all_inputs_are_there_or_after_a_time_of_waiting(scheduler: Any) -> None:
    inputs = [PartitionsAdded("web.orders"), PartitionsAdded("web.users")]
    join = (inputs[0] & inputs[1]) | Since(inputs[0] | inputs[1], "2h", of="first")
    scheduler.declare("join", join)

    scheduler.arrive("web.orders")
    scheduler.go_on(minutes=5)
    scheduler.arrive("web.users")
    scheduler.work()
    assert len(scheduler.started) == 1, "both are there"

    scheduler.arrive("web.orders")
    scheduler.work()
    scheduler.go_on(hours=1)
    scheduler.arrive("web.orders")
    scheduler.go_on(minutes=59)
    assert len(scheduler.started) == 1
    scheduler.go_on(minutes=1)
    assert len(scheduler.started) == 2, "two hours after the first of them"


def test_9_chunks_start_one_run_after_all_of_them_have_come(scheduler: Any) -> None:
    scheduler.declare("known_number", RecordsAdded(VIEWS, 30))
    scheduler.declare("quiet_for_a_while", Since(PartitionsAdded(VIEWS), "10m"))
    for _ in range(3):
        assert scheduler.started == []
        scheduler.arrive(records=10)
        scheduler.work()
        scheduler.go_on(minutes=9)
    assert started(scheduler) == ["known_number"]
    scheduler.go_on(minutes=1)
    assert started(scheduler) == ["known_number", "quiet_for_a_while"], "ten minutes after the last chunk"


def test_10_a_feed_that_arrives_every_second_runs_when_there_is_enough(scheduler: Any) -> None:
    scheduler.declare("enough", BytesAdded(VIEWS, "1MB"))
    for _ in range(60):
        scheduler.arrive(bytes=40_000)
        scheduler.go_on(seconds=1)
    assert len(scheduler.started) == 2
    assert [launch.conf["snowpack"]["event_count"] for launch in scheduler.started] == [25, 25]


def test_10_what_is_not_enough_is_run_after_a_while_and_nothing_is_run_without_data(scheduler: Any) -> None:
    enough = RecordsAdded(VIEWS, 1_000_000)
    scheduler.declare("enough", enough | Since(RecordsAdded(VIEWS), "15m", of="first"))
    for _ in range(30):
        scheduler.arrive(records=10)
        scheduler.go_on(seconds=30)
    assert [launch.conf["snowpack"]["event_count"] for launch in scheduler.started] == [30]
    scheduler.end_run()
    for _ in range(120):
        scheduler.go_on(minutes=1)
    assert len(scheduler.started) == 1


def test_11_at_least_every_four_hours_and_sooner_when_much_has_arrived(scheduler: Any) -> None:
    scheduler.declare("bursty", BytesAdded(VIEWS, "100GB") | Every("4h"))

    scheduler.go_on(hours=3, minutes=59)
    assert scheduler.started == []
    scheduler.go_on(minutes=1)
    assert len(scheduler.started) == 1, "four hours have passed"
    scheduler.clock.move(hours=1)
    scheduler.arrive(bytes=10**11)
    scheduler.work()
    assert len(scheduler.started) == 2, "a burst"
    scheduler.go_on(hours=3, minutes=59)
    assert len(scheduler.started) == 2, "the four hours began anew with the burst's run"
    scheduler.go_on(minutes=1)
    assert len(scheduler.started) == 3
    assert scheduler.clock() == datetime(2026, 11, 21, 21, 0, tzinfo=UTC)
