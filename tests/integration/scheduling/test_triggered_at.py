"""A trigger is satisfied at the moment of what satisfied it, however late anybody looks: delays and timeouts count from there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    BytesAdded,
    CommitsAdded,
    Cron,
    CustomEvents,
    Delay,
    Event,
    Every,
    PartitionsAdded,
    Since,
    explain,
)
from airflow_snowpack.scheduling.triggers.trigger import custom_key

pytestmark = pytest.mark.one_database

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
GO, STOP = CustomEvents("go"), CustomEvents("stop")


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


def happen(scheduler: Any, name: str, *minutes: int) -> None:
    """Events whose moments are these, recorded in this order."""
    for minute in minutes:
        scheduler.log.publish([Event(custom_key(name), at(minute))])


def triggered_at(scheduler: Any, name: str = "one") -> datetime | None:
    (job,) = scheduler.pending(name)
    moment: datetime | None = job.triggered_at
    return moment


@pytest.mark.parametrize(
    ("trigger", "go", "stop", "since"),
    [
        (CustomEvents("go", 2), [1, 5, 9], [], 5),
        (CustomEvents("go", 2), [5, 1], [], 5),  # recorded out of their order: both had happened at 5
        (GO & STOP, [1, 8], [4], 4),
        (GO | STOP, [7], [3], 3),
        (Since(GO, "10m"), [1, 6], [], 16),
        (Since(GO, "10m", of="first"), [1, 6], [], 11),
        (Since(CustomEvents("go", 2), "3m", of="first"), [1, 9], [], 9),
    ],
    ids=str,
)
def test_it_is_the_moment_that_completed_the_trigger(
    scheduler: Any, trigger: Any, go: list[int], stop: list[int], since: int
) -> None:
    scheduler.declare("one", trigger, Delay("1d"))
    happen(scheduler, "go", *go)
    happen(scheduler, "stop", *stop)
    scheduler.go_on(minutes=30)
    assert triggered_at(scheduler) == at(since)


def test_events_that_are_counted_in_several_looks_count_like_those_of_one(scheduler: Any) -> None:
    scheduler.declare("one", CustomEvents("go", 3), Delay("1d"))
    for minute in (1, 2, 3):
        happen(scheduler, "go", minute)
        scheduler.subscriber.step()
        if minute < 3:
            scheduler.checker.step()
    scheduler.go_on(minutes=45)
    assert triggered_at(scheduler) == at(3)


@pytest.mark.parametrize("trigger", [BytesAdded("web.page_views", 10), PartitionsAdded("web.page_views", 4)], ids=str)
def test_what_commits_bring_completes_it_with_the_commit_that_was_enough(scheduler: Any, trigger: Any) -> None:
    scheduler.declare("one", trigger | CommitsAdded("web.page_views", 9), Delay("1d"))
    for _ in range(4):
        scheduler.clock.move(minutes=1)
        scheduler.arrive(partitions=2, bytes=5)
    scheduler.go_on(hours=3)
    assert triggered_at(scheduler) == at(2)


@pytest.mark.parametrize(("trigger", "since"), [(Cron("*/30 * * * *"), 30), (Every("40m"), 40)], ids=str)
def test_a_clock_satisfies_it_at_its_own_moment(scheduler: Any, trigger: Any, since: int) -> None:
    scheduler.declare("one", trigger, Delay("1d"))
    scheduler.clock.now = at(since) + timedelta(seconds=50)
    scheduler.work()
    assert triggered_at(scheduler) == at(since)


def test_a_delay_that_was_over_before_anybody_looked_delays_nothing(scheduler: Any) -> None:
    scheduler.declare("one", GO, Delay("10m"))
    scheduler.send("go")
    scheduler.go_on(minutes=11)
    assert len(scheduler.started) == 1


def test_it_is_never_later_than_the_first_look_though_somebodys_clock_is_ahead(scheduler: Any) -> None:
    scheduler.declare("one", GO, Delay("10m"))
    happen(scheduler, "go", 300)
    scheduler.work()
    assert triggered_at(scheduler) == at(0)
    scheduler.go_on(minutes=10)
    assert len(scheduler.started) == 1


def test_later_events_do_not_move_it(scheduler: Any) -> None:
    scheduler.declare("one", GO, Delay("1d"))
    scheduler.send("go")
    scheduler.go_on(minutes=5)
    scheduler.send("go")
    scheduler.go_on(hours=20)
    assert triggered_at(scheduler) == at(0)


def test_it_is_told(scheduler: Any) -> None:
    scheduler.declare("one", GO, Delay("1d"))
    scheduler.send("go")
    scheduler.go_on(minutes=5)
    assert "Its trigger is satisfied since 2026-11-21 12:00:00 UTC: 1 of 1 events named go." in str(
        explain(scheduler.schedules, "one")
    )
    (line,) = [entry for entry in scheduler.entries("one") if entry.what == "triggered"]
    assert line.detail["since"] == at(0).isoformat()
