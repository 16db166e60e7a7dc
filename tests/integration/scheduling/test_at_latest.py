"""``(A & B).at_latest(Cron(…))``: one run in each period, and its conf names what was missing.

Its rules are Python, so SQLite will do; ``test_model.py`` walks through deadlines on both databases.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    Cron,
    CustomEvents,
    Delay,
    Every,
    PartitionsAdded,
    Schedules,
    SinceLastRun,
    explain,
    run_now,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted

pytestmark = pytest.mark.one_database

BERLIN = Cron("0 7 * * 1-5", tz="Europe/Berlin")
INPUTS = PartitionsAdded("web.a") & PartitionsAdded("web.b") & PartitionsAdded("web.c")
MORNING = INPUTS.at_latest(BERLIN)


@pytest.fixture(autouse=True)
def sunday_evening(clock: Any) -> None:
    clock.now = datetime(2026, 11, 22, 20, 0, tzinfo=UTC)


def at(scheduler: Any, day: int, hour: int, minute: int = 0) -> None:
    """Go there by rounds of an hour, as a scheduler that is always there."""
    until = datetime(2026, 11, day, hour, minute, tzinfo=UTC)
    while scheduler.clock() < until:
        scheduler.go_on(seconds=min(3600, (until - scheduler.clock()).total_seconds()))


def arrive(scheduler: Any, *tables: str) -> None:
    for table in tables:
        scheduler.arrive(f"web.{table}")
    scheduler.work()


def started_at(scheduler: Any) -> list[str]:
    return [f"{job.triggered_at:%a %H:%M}" for job in scheduler.pending("morning") if job.run_id is not None]


def missing(scheduler: Any, number: int = -1) -> list[str]:
    return [one["says"] for one in scheduler.started[number].conf["snowpack"]["missing"]]


def test_it_runs_at_the_deadline_with_what_there_is_and_names_what_is_missing(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING)
    at(scheduler, 23, 3)
    arrive(scheduler, "a")
    at(scheduler, 23, 12)
    assert started_at(scheduler) == ["Mon 06:00"], "07:00 in Berlin"
    assert scheduler.started[0].conf["snowpack"]["missing"] == [
        {
            "trigger": {"partitions_added": {"table": f"web.{name}"}},
            "says": f"0 of 1 partitions of web.{name}",
            "have": 0,
            "want": 1,
        }
        for name in ("b", "c")
    ]


def test_there_is_one_run_for_each_working_day_and_none_at_the_weekend(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING)
    at(scheduler, 30, 12)
    assert started_at(scheduler) == [f"{day} 06:00" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Mon")]


def test_a_run_that_waits_past_the_deadline_is_still_the_run_of_its_period(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING, Delay("5h"))
    at(scheduler, 23, 3)
    arrive(scheduler, "a", "b", "c")
    at(scheduler, 24, 12)
    assert started_at(scheduler) == ["Mon 03:00", "Tue 06:00"]


def test_an_input_that_arrives_while_the_run_waits_is_not_missing(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING, Delay("2h"))
    at(scheduler, 23, 7)
    arrive(scheduler, "a", "b")
    at(scheduler, 23, 9)
    assert missing(scheduler) == ["0 of 1 partitions of web.c"]


@pytest.mark.parametrize("when", ["before the tick is read", "before the clock is read"])
def test_a_run_that_starts_in_the_moment_of_the_deadline_is_the_only_one(scheduler: Any, when: str) -> None:
    scheduler.declare("morning", MORNING)
    at(scheduler, 23, 5, 59)
    for table in ("a", "b", "c"):
        scheduler.arrive(f"web.{table}")
    scheduler.subscriber.step()
    scheduler.clock.move(minutes=1)
    if when == "before the tick is read":
        scheduler.clocks.step()
    scheduler.checker.step()
    at(scheduler, 24, 5)
    assert started_at(scheduler) == ["Mon 05:59"]
    at(scheduler, 24, 12)
    assert started_at(scheduler)[1:] == ["Tue 06:00"], "and the next period has its own"


def test_a_tick_that_was_read_by_nobody_serves_one_launch_and_not_the_next(scheduler: Any, asked: Schedules) -> None:
    scheduler.declare("morning", MORNING)
    scheduler.clock.now = datetime(2026, 11, 23, 6, tzinfo=UTC)
    scheduler.clocks.step()
    run_now(asked, "morning")
    assert explain(scheduler.schedules, "morning").deadline == datetime(2026, 11, 24, 6, tzinfo=UTC), "the tick was its own"
    run_now(asked, "morning")
    assert explain(scheduler.schedules, "morning").deadline == datetime(2026, 11, 25, 6, tzinfo=UTC), (
        "this one has served Tuesday"
    )
    at(scheduler, 24, 12)
    assert len(scheduler.started) == 2


def test_a_run_that_cannot_be_started_yet_keeps_the_deadlines_from_adding_runs(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING)
    scheduler.airflow.refusal = NotStarted("paused")
    at(scheduler, 23, 3)
    arrive(scheduler, "a", "b", "c")
    at(scheduler, 23, 12)
    assert started_at(scheduler) == ["Mon 03:00"]


def test_a_deadline_that_joins_a_run_that_waits_for_its_dag_names_what_is_missing_then(scheduler: Any) -> None:
    scheduler.declare("morning", CustomEvents("now") | MORNING)
    scheduler.airflow.refusal = NotStarted("paused")
    scheduler.send("now")
    arrive(scheduler, "a")
    at(scheduler, 24, 7)
    scheduler.airflow.refusal = None
    scheduler.go_on(minutes=10)
    assert len(scheduler.started) == 1
    assert missing(scheduler) == ["0 of 1 partitions of web.b", "0 of 1 partitions of web.c"]


@pytest.mark.parametrize(("missed", "runs"), [("one", 1), ("all", 1), ("none", 0)])
def test_deadlines_that_were_missed_are_one_run(scheduler: Any, missed: str, runs: int) -> None:
    scheduler.declare("morning", MORNING, missed=missed)
    scheduler.clock.now = datetime(2026, 11, 25, 12, tzinfo=UTC)
    for _ in range(5):
        scheduler.go_on(seconds=10)
    assert len(scheduler.started) == runs
    at(scheduler, 26, 12)
    assert len(scheduler.started) == runs + 1


def test_every_and_a_deadline_each_restart_by_their_own_rule(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING | Every("4h"), SinceLastRun("1m"), dag_id="other")
    at(scheduler, 23, 1)
    assert len(scheduler.started) == 1
    scheduler.end_run()
    at(scheduler, 23, 7)
    assert len(scheduler.started) == 2, "by the period at 04:00, and not again at the deadline, which the first one has moved"


def test_the_explanation_names_the_deadline(scheduler: Any) -> None:
    scheduler.declare("morning", MORNING)
    arrive(scheduler, "a")
    said = explain(scheduler.schedules, "morning")
    assert said.deadline == datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
    assert "at the latest by 0 7 * * 1-5 (Europe/Berlin)" in str(said)
    assert "Its deadline is 2026-11-23 06:00:00 UTC: it then starts without the rest of its trigger." in said.sentences()
