"""The settled semantics of schedules, line by line (``docs`` and the decisions behind it).

They do not depend on the database; ``test_store_conformance.py`` runs the statements behind them on both.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.scheduling import (
    Cron,
    CustomEvents,
    Delay,
    Event,
    InvalidEvent,
    MaxConcurrent,
    MaxRuns,
    PartitionsAdded,
    Schedule,
    SinceLastRun,
    TimeWindow,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.scheduling.triggers.trigger import custom_key, table_key

pytestmark = pytest.mark.one_database

GO = CustomEvents("go")
TRIGGER, CONSTRAINT, LAUNCH, LAUNCHED, DISCARDED = PendingState


def table_key_of(table: str) -> str:
    return table_key(TableName.parse(table, catalog="lake"))


def counted(scheduler: Any, number: int = -1) -> int:
    count: int = scheduler.started[number].conf["snowpack"]["event_count"]
    return count


class TestAbsorbing:
    def test_a_run_is_told_of_its_newest_events_and_of_how_many_there_were(self, scheduler: Any) -> None:
        scheduler.declare("many", CustomEvents("go", 250))
        scheduler.send("go", 250)
        scheduler.work()
        told = scheduler.started[0].conf["snowpack"]
        assert (told["event_count"], len(told["events"]), told["events"][-1]["id"]) == (250, 100, 250)


class TestConstraints:
    def test_whether_a_run_is_skipped_is_decided_when_it_could_start(self, scheduler: Any) -> None:
        window = TimeWindow("12:10", "13:00", on_unmet="skip")
        scheduler.declare("opens", GO, Delay("10m"), window)
        scheduler.declare("closes", GO, Delay("2h"), window)
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(minutes=10)
        scheduler.go_on(hours=2)
        assert [launch.schedule for launch in scheduler.started] == ["opens"]
        assert scheduler.history("closes")[-1] == "skipped"

    @pytest.mark.parametrize(("state", "waits"), [("success", True), ("failed", False)])
    def test_a_run_that_ended_within_the_period_blocks_if_it_succeeded(self, scheduler: Any, state: str, waits: bool) -> None:
        scheduler.declare("one", GO, SinceLastRun("5m"))
        scheduler.runs.ended("maintain", "manual__1", state, scheduler.clock())
        scheduler.send("go")
        scheduler.go_on(minutes=4, seconds=59)
        assert (scheduler.started == []) is waits
        scheduler.go_on(seconds=1)
        assert len(scheduler.started) == 1

    def test_the_period_counts_from_the_end_of_the_run_and_an_active_one_blocks_however_old(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, SinceLastRun("5m"))
        scheduler.send("go")
        scheduler.work()
        scheduler.send("go")
        scheduler.go_on(hours=20)
        assert len(scheduler.started) == 1, "the first one still runs"
        scheduler.end_run()
        scheduler.go_on(minutes=4)
        assert len(scheduler.started) == 1
        scheduler.go_on(minutes=1)
        assert len(scheduler.started) == 2

    def test_a_run_rate_counts_launches_within_any_such_period(self, scheduler: Any) -> None:
        scheduler.declare("two_an_hour", GO, MaxRuns(2, "1h"))
        for _ in range(4):
            scheduler.send("go")
            scheduler.go_on(minutes=10)
        assert len(scheduler.started) == 2
        scheduler.go_on(minutes=29, seconds=59)
        assert len(scheduler.started) == 2
        scheduler.go_on(seconds=1)
        assert len(scheduler.started) == 3, "an hour after the first; the two that waited are one"

    def test_who_waits_for_a_window_neither_is_woken_by_runs_nor_keeps_others_from_a_slot(self, scheduler: Any) -> None:
        scheduler.airflow.running["maintain"] = {"manual__1"}
        scheduler.declare("nightly", GO, TimeWindow("22:00", "06:00"), MaxConcurrent(1), priority=10)
        scheduler.declare("any_time", GO, MaxConcurrent(1))
        scheduler.send("go")
        assert scheduler.work().evaluated == 2
        scheduler.airflow.running.clear()
        scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
        assert scheduler.work().evaluated == 1
        assert [launch.schedule for launch in scheduler.started] == ["any_time"]

    def test_a_pending_job_has_a_day_when_nothing_is_said(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, Delay("3d"))
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(hours=23, minutes=59)
        assert scheduler.pending("one")[0].state == CONSTRAINT
        scheduler.go_on(minutes=1)
        (job,) = scheduler.pending("one")
        assert job.state == DISCARDED
        assert "its constraints were not met within 1 d: delayed by 3 d" in str(job.ended_because)

    def test_waiting_for_the_trigger_has_no_timeout(self, scheduler: Any) -> None:
        scheduler.declare("two", CustomEvents("go", 2))
        scheduler.send("go")
        scheduler.work()
        scheduler.clock.move(days=30)
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 1


class TestNothingIsAskedBeforeItsTime:
    def test_no_constraint_is_evaluated_before_the_moment_that_it_named(
        self, scheduler: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[datetime] = []
        really = TimeWindow.evaluate

        def evaluate(self: TimeWindow, context: Any) -> Any:
            asked.append(context.now)
            return really(self, context)

        monkeypatch.setattr(TimeWindow, "evaluate", evaluate)
        scheduler.airflow.running["maintain"] = {"manual__1"}
        scheduler.declare("nightly", GO, TimeWindow("22:00", "06:00"), MaxConcurrent(1))
        scheduler.send("go")
        for _ in range(9 * 60 + 59):
            scheduler.clock.move(minutes=1)
            scheduler.subscriber.step()
            scheduler.checker.step()
        assert asked == [datetime(2026, 11, 21, 12, 1, tzinfo=UTC)]
        scheduler.go_on(minutes=1)
        assert asked[1:] == [datetime(2026, 11, 21, 22, 0, tzinfo=UTC)]

    def test_events_do_not_wake_a_job_that_waits_for_constraints(self, scheduler: Any) -> None:
        scheduler.declare("delayed", GO, Delay("10m"))
        scheduler.send("go")
        assert scheduler.work().evaluated == 1
        scheduler.send("go")
        assert scheduler.go_on(minutes=5).evaluated == 0
        assert scheduler.go_on(minutes=5).evaluated == 1

    def test_of_several_moments_the_last_is_soon_enough(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, Delay("2h"), TimeWindow("13:00", "20:00"))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.go_on(hours=1).evaluated == 0
        assert scheduler.go_on(hours=1).evaluated == 1
        assert len(scheduler.started) == 1


class TestStandingOfASchedule:
    def test_it_is_created_suspended_unless_it_says_enabled(self, scheduler: Any) -> None:
        scheduler.schedules.create(Schedule("quiet", dag_id="maintain", trigger=GO))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.schedules.get("quiet").enabled is False
        assert scheduler.pending("quiet") == []

    @pytest.mark.parametrize("change", ["create", "resume", "update"])
    def test_events_from_before_never_count_even_if_nobody_has_read_them_yet(self, scheduler: Any, change: str) -> None:
        declared = Schedule("one", dag_id="maintain", trigger=GO, enabled=change != "resume")
        if change != "create":
            scheduler.schedules.create(declared)
        scheduler.send("go")
        scheduler.clock.move(seconds=1)
        changed = replace(declared, constraints=(SinceLastRun("1s"),)) if change == "update" else declared
        getattr(scheduler.schedules, change)("one" if change == "resume" else changed)
        scheduler.work()
        assert scheduler.started == []
        scheduler.send("go")
        scheduler.work()
        assert counted(scheduler) == 1

    def test_what_happened_before_and_was_found_out_later_does_not_count(self, scheduler: Any) -> None:
        before = scheduler.clock()
        scheduler.clock.move(minutes=1)
        scheduler.declare("one", GO)
        scheduler.log.publish([Event(custom_key("go"), before)])
        scheduler.work()
        assert scheduler.started == []

    def test_switching_twice_changes_nothing(self, scheduler: Any) -> None:
        scheduler.declare("two", CustomEvents("go", 2))
        scheduler.send("go")
        scheduler.work()
        before = scheduler.schedules.get("two")
        assert scheduler.schedules.resume("two") == before
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 1


class TestLaunching:
    def test_a_launch_that_fails_is_tried_again_with_back_off_and_never_dropped(self, scheduler: Any) -> None:
        scheduler.declare("one", GO)
        scheduler.airflow.refusal = NotStarted("DAG maintain is paused")
        scheduler.send("go")
        scheduler.work()
        tries = []
        for _ in range(5 * 60):
            scheduler.clock.move(minutes=1)
            if scheduler.launcher.step().waiting:
                tries.append(scheduler.clock())
        pauses = {later - sooner for sooner, later in pairwise(tries[6:])}
        assert pauses == {timedelta(minutes=5)}, "the longest pause"
        assert scheduler.history("one").count("launch_waits") == 1

        scheduler.airflow.refusal = None
        scheduler.go_on(minutes=5)
        scheduler.go_on(minutes=5)
        assert len(scheduler.started) == 1
        assert scheduler.pending("one")[0].state == LAUNCHED


class TestEvents:
    def test_partitions_that_are_counted_and_not_named_count_too(self, scheduler: Any) -> None:
        scheduler.declare("many", PartitionsAdded("web.t", 5))
        event = Event(table_key_of("web.t"), scheduler.clock(), {"partitions": 4}, {"partitions": ["p=1", "p=2"]})
        scheduler.log.publish([event])
        scheduler.work()
        assert scheduler.pending("many")[0].reasons[0].text == "4 of 5 partitions of web.t"
        scheduler.log.publish([Event(table_key_of("web.t"), scheduler.clock(), {"partitions": 1})])
        scheduler.work()
        assert len(scheduler.started) == 1

    def test_an_event_that_cannot_be_kept_is_refused_and_none_of_its_batch_recorded(self, scheduler: Any) -> None:
        good = Event(custom_key("go"), scheduler.clock())
        unusable: list[dict[str, Any]] = [
            {"key": ""},
            {"key": "x" * 1001},
            {"key": "a\x00"},
            {"key": "\ud800"},
            {"source_id": "a\x00"},
            {"source_id": "\udfff"},
            {"at": datetime(2026, 1, 1)},  # noqa: DTZ001  # it is the naive moment that is refused
            {"amounts": {"bytes": -1}},
            {"amounts": {"bytes": True}},
            {"amounts": {"bytes": 1.5}},
            {"amounts": {"bytes": 10**5000}},
            {"detail": {"partitions": "p=1"}},
            {"detail": {"partitions": [1]}},
            {"detail": {"what": object()}},
            {"detail": {"what": float("nan")}},
            {"detail": {"what": "\x00"}},
            {"detail": {"\ud800": 1}},
        ]
        for fields in unusable:
            with pytest.raises(InvalidEvent):
                scheduler.log.publish([good, Event(**{"key": "k", "at": scheduler.clock(), **fields})])
        assert scheduler.log.latest() == []


class TestClocks:
    def after_an_outage(self, scheduler: Any, policy: str) -> list[int]:
        """How many ticks each run was told of."""
        scheduler.declare("hourly", Cron("0 * * * *"), missed=policy)
        scheduler.clock.move(hours=3, minutes=30)
        for _ in range(20):
            scheduler.work()
            scheduler.clock.move(seconds=5)
        return [len(launch.conf["snowpack"]["events"][0]["detail"]["ticks"]) for launch in scheduler.started]

    def missed(self, scheduler: Any) -> list[tuple[str, int]]:
        return [
            (entry.detail["policy"], entry.detail["count"])
            for entry in scheduler.entries("hourly")
            if entry.what == "ticks_missed"
        ]

    @pytest.mark.parametrize(
        ("policy", "runs", "missed"),
        [("one", [3], [("one", 3)]), ("all", [1, 1, 1], [("all", 1)] * 3), ("none", [], [("none", 3)])],
    )
    def test_missed_ticks_are_one_run_or_one_each_or_none(
        self, scheduler: Any, policy: str, runs: list[int], missed: list[tuple[str, int]]
    ) -> None:
        assert self.after_an_outage(scheduler, policy) == runs
        assert self.missed(scheduler) == missed
        scheduler.go_on(minutes=29)
        assert len(scheduler.started) == len(runs) + 1, "and one for the next that is not missed"

    def test_a_tick_within_the_minute_was_not_missed(self, scheduler: Any) -> None:
        scheduler.declare("hourly", Cron("0 * * * *"), missed="none")
        scheduler.go_on(hours=1, seconds=59)
        assert len(scheduler.started) == 1
        assert self.missed(scheduler) == []

    def test_each_missed_tick_is_a_run_even_while_one_of_them_waits(self, scheduler: Any) -> None:
        """The delay of each counts from its own moment: 13:00, 14:00 and 15:00."""
        scheduler.declare("hourly", Cron("0 * * * *"), Delay("2h10m"), missed="all")
        scheduler.clock.move(hours=3, minutes=30)
        for runs, minutes in ((1, 39), (2, 60)):
            for _ in range(minutes):
                scheduler.go_on(minutes=1)
            assert len(scheduler.started) == runs
        for _ in range(3):
            scheduler.go_on(minutes=1)
        assert len(scheduler.started) == 3

    @pytest.mark.parametrize("combine", [operator.or_, operator.and_])
    def test_a_missed_tick_does_not_wait_for_a_job_that_lacks_it(self, scheduler: Any, combine: Any) -> None:
        """Data opens a job during the outage. It must not keep back the very tick that is to complete it."""
        scheduler.declare("hourly", combine(Cron("0 * * * *"), PartitionsAdded("web.page_views", 2)), missed="all")
        scheduler.arrive()
        scheduler.subscriber.step()
        scheduler.clock.move(hours=3, minutes=30)
        for _ in range(20):
            scheduler.go_on(seconds=5)
        if combine is operator.or_:
            assert [launch.conf["snowpack"]["event_count"] for launch in scheduler.started] == [2, 1, 1]
            return
        assert scheduler.started == []
        for _ in range(3):  # each tick is a run of its own, and each wants its two partitions
            scheduler.arrive(partitions=2)
            for _ in range(4):
                scheduler.go_on(seconds=5)
        assert len(scheduler.started) == 3

    def test_six_fields_begin_with_the_seconds(self, scheduler: Any) -> None:
        scheduler.declare("often", Cron("*/20 * * * * *"))
        for _ in range(60):
            scheduler.go_on(seconds=1)
        assert len(scheduler.started) == 3

    def test_a_leap_day_comes_every_four_years(self, scheduler: Any) -> None:
        scheduler.clock.now = datetime(2027, 3, 1, tzinfo=UTC)
        scheduler.declare("leap", Cron("0 12 29 2 *"))
        scheduler.clock.now = datetime(2028, 2, 29, 11, 59, tzinfo=UTC)
        scheduler.work()
        assert scheduler.started == []
        scheduler.go_on(minutes=1)
        assert len(scheduler.started) == 1
