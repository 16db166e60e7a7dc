"""Clocks that are slow, ahead, or set back delay and lose nothing beyond a tolerance."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    CommitsAdded,
    Cron,
    CustomEvents,
    Delay,
    Event,
    EventIntake,
    Every,
    MaxRuns,
    PoolSlots,
    Schedule,
    Since,
    Timeout,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.scheduling.events.clocks import recover_from_set_back
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store.signs_of_life import Role, SignOfLife, last_seen

GO = CustomEvents("go")
LEAP = timedelta(days=2)


def work(scheduler: Any) -> None:
    """One round, as a scheduler goes about it."""
    EventIntake(scheduler.store).step()
    scheduler.checker.step()
    scheduler.launcher.step()


def leap(scheduler: Any) -> None:
    """The clock leaps forward by two days, a round sees it, and the clock is set back."""
    work(scheduler)
    scheduler.clock.now += LEAP
    work(scheduler)
    scheduler.clock.now -= LEAP


def test_a_launch_that_failed_during_a_leap_is_tried_again_when_the_clock_is_set_back(scheduler: Any) -> None:
    scheduler.declare("feed", GO)
    scheduler.airflow.refusal = NotStarted("the DAG is paused")
    scheduler.send("go")
    leap(scheduler)
    scheduler.airflow.refusal = None
    scheduler.launcher.step()
    assert len(scheduler.started) == 1


@pytest.mark.parametrize("constraint", [Delay("10m"), PoolSlots("spark", 1)])
def test_a_run_that_was_triggered_during_a_leap_waits_no_longer_than_without_it(scheduler: Any, constraint: Any) -> None:
    scheduler.airflow.pools["spark"] = 0
    scheduler.declare("feed", GO, constraint)
    work(scheduler)
    scheduler.clock.now += LEAP
    scheduler.send("go")
    work(scheduler)
    scheduler.clock.now -= LEAP
    scheduler.airflow.pools["spark"] = 1
    for _ in range(2):
        work(scheduler)
        scheduler.clock.move(minutes=10)
    work(scheduler)
    assert len(scheduler.started) == 1


def test_a_run_that_was_triggered_during_a_leap_expires_once(scheduler: Any) -> None:
    scheduler.airflow.pools["spark"] = 0
    scheduler.declare("feed", GO, PoolSlots("spark", 1), timeout=Timeout("1h"))
    work(scheduler)
    scheduler.clock.now += LEAP
    scheduler.send("go")
    work(scheduler)
    scheduler.clock.now -= LEAP
    for _ in range(3):
        work(scheduler)
        scheduler.clock.move(minutes=61)
    assert scheduler.history("feed").count("timed_out") == 1


def test_events_count_after_a_leap_for_a_schedule_that_was_made_during_it(scheduler: Any) -> None:
    work(scheduler)
    scheduler.clock.now += LEAP
    scheduler.declare("feed", GO)
    work(scheduler)
    scheduler.clock.now -= LEAP
    work(scheduler)
    scheduler.send("go")
    work(scheduler)
    assert len(scheduler.started) == 1


def test_periods_and_ticks_go_on_after_a_leap(scheduler: Any) -> None:
    scheduler.declare("period", Every("1h"))
    scheduler.declare("tick", Cron("0 * * * *"))
    leap(scheduler)
    before = len(scheduler.started)
    work(scheduler)
    scheduler.clock.move(minutes=61)
    work(scheduler)
    assert sorted(launch.schedule for launch in scheduler.started[before:]) == ["period", "tick"]


def test_a_tick_comes_once_though_the_clock_is_set_back_over_it(scheduler: Any) -> None:
    scheduler.declare("tick", Cron("0 * * * *"))
    scheduler.clock.move(minutes=59)
    work(scheduler)
    for _ in range(3):
        scheduler.clock.move(minutes=2)
        work(scheduler)
        scheduler.clock.move(minutes=-2)
        work(scheduler)
    assert len(scheduler.started) == 1


def test_a_launch_during_a_leap_does_not_count_for_two_days(scheduler: Any) -> None:
    scheduler.declare("feed", GO, MaxRuns(1, per="1h"))
    scheduler.send("go")
    work(scheduler)
    scheduler.clock.now += LEAP
    scheduler.send("go")
    work(scheduler)
    assert len(scheduler.started) == 2
    scheduler.clock.now -= LEAP
    work(scheduler)
    scheduler.send("go")
    for _ in range(2):
        work(scheduler)
        scheduler.clock.move(minutes=61)
    work(scheduler)
    assert len(scheduler.started) == 3


def test_an_event_of_a_clock_that_is_two_days_ahead_has_happened_now(scheduler: Any) -> None:
    scheduler.declare("quiet", Since(GO, "30m"))
    scheduler.log.publish([Event(custom_key("go"), scheduler.clock() + LEAP)])
    work(scheduler)
    scheduler.clock.move(minutes=31)
    work(scheduler)
    assert len(scheduler.started) == 1


def test_clocks_that_differ_by_less_than_a_minute_change_nothing(scheduler: Any) -> None:
    scheduler.declare("feed", GO, Delay("10m"))
    scheduler.send("go")
    work(scheduler)
    scheduler.clock.move(seconds=-59)
    assert not recover_from_set_back(scheduler.store)
    scheduler.clock.move(seconds=-2)
    assert recover_from_set_back(scheduler.store)
    assert not recover_from_set_back(scheduler.store)


def test_a_host_whose_clock_stays_ahead_does_not_keep_the_others_recovering(scheduler: Any) -> None:
    scheduler.declare("feed", GO, Delay("10m"))
    scheduler.send("go")
    here = EventIntake(scheduler.store, SignOfLife(scheduler.store, Role.SCHEDULER, "here"))
    warned = []
    for _ in range(5):
        scheduler.clock.move(minutes=5)
        EventIntake(scheduler.store, SignOfLife(scheduler.store, Role.SCHEDULER, "ahead")).step()
        scheduler.clock.move(minutes=-5)
        here.step()
        seen_at = scheduler.store.read(lambda conn: last_seen(conn, Role.SCHEDULER))
        warned.append(seen_at <= scheduler.clock())
    assert warned == [True, False, False, False, False]


class TestSlowWriters:
    """Their clock says that a commit was made before it was."""

    def commit(self, scheduler: Any, *, slow: timedelta) -> None:
        scheduler.log.publish([Event("table:lake.web.views", scheduler.clock() - slow)])

    @pytest.mark.parametrize("change", ["create", "update", "resume"])
    def test_a_commit_right_after_a_change_counts_though_its_clock_is_a_second_slow(self, scheduler: Any, change: str) -> None:
        schedule = Schedule("feed", dag_id="maintain", trigger=CommitsAdded("web.views"), enabled=change != "resume")
        scheduler.schedules.create(schedule)
        if change == "update":
            scheduler.change("feed")
        if change == "resume":
            scheduler.schedules.resume("feed")
        self.commit(scheduler, slow=timedelta(seconds=1))
        work(scheduler)
        assert len(scheduler.started) == 1

    def test_what_was_committed_longer_before_a_change_does_not_count(self, scheduler: Any) -> None:
        scheduler.declare("feed", CommitsAdded("web.views"))
        self.commit(scheduler, slow=timedelta(seconds=1, milliseconds=1))
        work(scheduler)
        assert scheduler.started == []
