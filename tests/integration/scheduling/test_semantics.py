"""The settled semantics of schedules, line by line (``docs`` and the decisions behind it), on both databases."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from typing import Any

import pytest
import sqlalchemy as sa

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.scheduling import (
    BytesAdded,
    ClusterLoad,
    Cron,
    CustomEvents,
    Delay,
    EndedRun,
    Event,
    Every,
    InvalidEvent,
    MaxConcurrent,
    MaxRuns,
    NotStarted,
    PartitionsAdded,
    PoolSlots,
    RunsSucceeded,
    Schedule,
    ScheduleExists,
    ScheduleNotFound,
    SinceLastRun,
    Timeout,
    TimeWindow,
)
from airflow_snowpack.scheduling.errors import WrongTransition
from airflow_snowpack.scheduling.pending import PendingState, move
from airflow_snowpack.scheduling.trigger import custom_key, table_key
from airflow_snowpack.store.schedule_tables import pending_jobs, schedules

GO = CustomEvents("go")
RUNS_OF_MAINTAIN = RunsSucceeded("maintain")
TRIGGER, CONSTRAINT, LAUNCH, LAUNCHED, DISCARDED = PendingState


def table_key_of(table: str) -> str:
    return table_key(TableName.parse(table, catalog="lake"))


def counted(scheduler: Any, number: int = -1) -> int:
    count: int = scheduler.started[number].conf["snowpack"]["event_count"]
    return count


class TestAbsorbing:
    def test_events_that_come_while_it_waits_for_its_trigger_are_one_run(self, scheduler: Any) -> None:
        scheduler.declare("three", CustomEvents("go", 3))
        for _ in range(3):
            scheduler.send("go")
            scheduler.work()
        assert counted(scheduler) == 3

    def test_events_that_come_while_it_waits_for_constraints_are_the_same_run(self, scheduler: Any) -> None:
        scheduler.declare("delayed", GO, Delay("10m"))
        for _ in range(7):
            scheduler.send("go")
            scheduler.work()
            scheduler.clock.forward(minutes=1)
        scheduler.go_on(minutes=3)
        assert [counted(scheduler)] == [7]
        assert len(scheduler.started[0].conf["snowpack"]["events"]) == 7

    def test_events_that_come_while_it_is_about_to_launch_begin_a_new_run(self, scheduler: Any) -> None:
        scheduler.declare("busy", GO)
        scheduler.airflow.refusal = NotStarted("paused")
        scheduler.send("go")
        scheduler.work()
        assert [job.state for job in scheduler.pending("busy")] == [LAUNCH]
        scheduler.send("go", 2)
        scheduler.work()
        scheduler.airflow.refusal = None
        scheduler.go_on(minutes=1)
        assert sorted(counted(scheduler, number) for number in range(2)) == [1, 2]

    def test_a_run_is_told_of_its_newest_events_and_of_how_many_there_were(self, scheduler: Any) -> None:
        scheduler.declare("many", CustomEvents("go", 250))
        scheduler.send("go", 250)
        scheduler.work()
        told = scheduler.started[0].conf["snowpack"]
        assert (told["event_count"], len(told["events"]), told["events"][-1]["id"]) == (250, 100, 250)


def test_a_pending_job_goes_no_way_but_the_settled_ones(scheduler: Any) -> None:
    ways = {(TRIGGER, CONSTRAINT), (CONSTRAINT, LAUNCH), (LAUNCH, LAUNCHED)}
    ways |= {(state, DISCARDED) for state in (TRIGGER, CONSTRAINT, LAUNCH)} | {(TRIGGER, TRIGGER), (CONSTRAINT, CONSTRAINT)}
    scheduler.declare("one", CustomEvents("go", 2))
    scheduler.send("go")
    scheduler.work()
    (job,) = scheduler.pending("one")

    for was, to in product(PendingState, PendingState):
        set_state = sa.update(pending_jobs).values(state=was.value)
        scheduler.store.transact(lambda conn, statement=set_state: conn.execute(statement))
        if (was, to) in ways:
            scheduler.store.transact(lambda conn, was=was, to=to: move(conn, job.pending_id, was, to))
            assert scheduler.pending("one")[0].state == to
        else:
            with pytest.raises(WrongTransition, match=f"is {was} and cannot become {to}"):
                scheduler.store.transact(lambda conn, was=was, to=to: move(conn, job.pending_id, was, to))
    with pytest.raises(WrongTransition):
        scheduler.store.transact(lambda conn: move(conn, "nobody", TRIGGER, CONSTRAINT))


def blocked_time_window(scheduler: Any) -> None:
    scheduler.declare("one", GO, TimeWindow("13:00", "14:00", on_unmet=scheduler.on_unmet))


def blocked_concurrency(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    scheduler.declare("one", GO, MaxConcurrent(1, on_unmet=scheduler.on_unmet))


def blocked_group(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"backfill__1"}
    scheduler.declare("one", GO, MaxConcurrent(1, group="heavy", on_unmet=scheduler.on_unmet))


def blocked_since_last_run(scheduler: Any) -> None:
    scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
    scheduler.declare("one", GO, SinceLastRun("1h", on_unmet=scheduler.on_unmet))


def blocked_rate(scheduler: Any) -> None:
    scheduler.declare("one", GO, MaxRuns(1, "1h", on_unmet=scheduler.on_unmet))
    scheduler.send("go")
    scheduler.work()
    scheduler.end_run()
    scheduler.airflow.started.clear()


def blocked_pool(scheduler: Any) -> None:
    scheduler.airflow.pools["spark"] = 0
    scheduler.declare("one", GO, PoolSlots("spark", on_unmet=scheduler.on_unmet))


def blocked_missing_pool(scheduler: Any) -> None:
    scheduler.declare("one", GO, PoolSlots("spark", on_unmet=scheduler.on_unmet))


def blocked_load(scheduler: Any) -> None:
    scheduler.monkeypatch.setenv("SNOWPACK_TEST_LOAD", "0.9")
    scheduler.declare("one", GO, ClusterLoad("cluster_probe:load", on_unmet=scheduler.on_unmet))


def unblock(scheduler: Any) -> None:
    scheduler.monkeypatch.setenv("SNOWPACK_TEST_LOAD", "0.1")
    scheduler.airflow.running.clear()
    scheduler.airflow.pools["spark"] = 1
    scheduler.clock.forward(hours=1)


BLOCKED = [
    blocked_time_window,
    blocked_concurrency,
    blocked_group,
    blocked_since_last_run,
    blocked_rate,
    blocked_pool,
    blocked_missing_pool,
    blocked_load,
]


@pytest.fixture
def blocked(request: pytest.FixtureRequest, scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    scheduler.monkeypatch, (block, scheduler.on_unmet) = monkeypatch, request.param
    block(scheduler)
    return scheduler


@pytest.mark.parametrize("blocked", [(block, "wait") for block in BLOCKED], indirect=True, ids=lambda each: each[0].__name__)
def test_a_constraint_that_waits_lets_the_run_start_once_it_is_met(blocked: Any) -> None:
    blocked.send("go")
    blocked.work()
    assert blocked.started == []
    (reason,) = blocked.pending("one")[-1].reasons[1:]
    assert not reason.met
    assert reason.says

    unblock(blocked)
    blocked.work()
    assert len(blocked.started) == 1


@pytest.mark.parametrize("blocked", [(block, "skip") for block in BLOCKED], indirect=True, ids=lambda each: each[0].__name__)
def test_a_constraint_that_skips_drops_the_run_and_says_why(blocked: Any) -> None:
    blocked.send("go")
    blocked.work()
    unblock(blocked)
    blocked.work()
    assert blocked.started == []
    assert blocked.history("one")[-1] == "skipped"
    assert "on_unmet is skip" in blocked.last_entry("one").detail["because"]
    blocked.send("go")
    blocked.work()
    assert len(blocked.started) == 1, "the next event begins a new one"


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

    def test_a_delay_counts_from_the_trigger_and_not_from_later_events_or_looks(self, scheduler: Any) -> None:
        scheduler.declare("delayed", CustomEvents("go", 2), Delay("10m"))
        scheduler.send("go")
        scheduler.go_on(minutes=30)
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(minutes=5)
        scheduler.send("go")
        scheduler.go_on(minutes=4, seconds=59)
        assert scheduler.started == []
        scheduler.go_on(seconds=1)
        assert counted(scheduler) == 3

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

    def test_an_older_success_that_is_told_late_does_not_bring_the_next_run_forward(self, scheduler: Any) -> None:
        now = scheduler.clock()
        scheduler.runs.ended("maintain", "second", "success", now)
        scheduler.runs.ended("maintain", "first", "success", now - timedelta(hours=1))
        assert scheduler.runs.ended("maintain", "second", "success", now) is False
        scheduler.declare("one", GO, SinceLastRun("30m"))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.pending("one")[0].next_check_at == now + timedelta(minutes=30)

    @pytest.mark.parametrize("run_id", ["manual__1", "backfill__1", "scheduled__1"])
    def test_every_active_run_of_the_dag_counts(self, scheduler: Any, run_id: str) -> None:
        scheduler.airflow.running["maintain"] = {run_id}
        scheduler.declare("two", GO, MaxConcurrent(2))
        for _ in range(2):
            scheduler.send("go")
            scheduler.work()
        assert len(scheduler.started) == 1

    def test_a_group_counts_the_runs_of_all_its_dags_and_a_suspended_schedule_still_names_its_dag(self, scheduler: Any) -> None:
        for name in ("a", "b"):
            scheduler.declare(name, CustomEvents(name), MaxConcurrent(2, group="heavy"), dag_id=f"dag_{name}")
        scheduler.declare("suspended", GO, MaxConcurrent(2, group="heavy"), dag_id="dag_c", enabled=False)
        scheduler.declare("outsider", GO, dag_id="dag_d")
        scheduler.airflow.running["dag_c"] = {"manual__1"}
        scheduler.airflow.running["dag_d"] = {"manual__1", "manual__2"}
        for name in ("a", "b"):
            scheduler.send(name)
            scheduler.work()
        assert [launch.schedule for launch in scheduler.started] == ["a"]

    def test_a_reserved_run_counts_before_airflow_knows_of_it(self, scheduler: Any) -> None:
        scheduler.airflow.refusal = NotStarted("Airflow does not answer")
        for name in ("a", "b"):
            scheduler.declare(name, GO, MaxConcurrent(1))
        scheduler.send("go")
        scheduler.work()
        states = sorted(job.state for name in "ab" for job in scheduler.pending(name))
        assert states == [CONSTRAINT, LAUNCH]

    def test_the_end_of_a_run_that_nobody_told_is_found_out_when_it_matters(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, MaxConcurrent(1))
        scheduler.declare("after", RUNS_OF_MAINTAIN, dag_id="next")
        scheduler.send("go")
        scheduler.work()
        scheduler.airflow.running.clear()
        scheduler.airflow.ended[scheduler.started[0].run_id] = EndedRun("success", scheduler.clock())
        scheduler.send("go")
        scheduler.go_on(seconds=31)
        assert len(scheduler.started) == 2
        scheduler.work()
        assert [launch.schedule for launch in scheduler.started] == ["one", "one", "after"]

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
        assert scheduler.work().looked_at == 2
        scheduler.airflow.running.clear()
        scheduler.runs.ended("maintain", "manual__1", "success", scheduler.clock())
        assert scheduler.work().looked_at == 1
        assert [launch.schedule for launch in scheduler.started] == ["any_time"]

    @pytest.mark.parametrize("then", ["discard", "launch"])
    def test_the_timeout_does_what_it_says_and_both_are_on_record(self, scheduler: Any, then: str) -> None:
        scheduler.airflow.running["maintain"] = {"manual__1"}
        scheduler.declare("one", GO, MaxConcurrent(1), timeout=Timeout("2h", then=then))
        scheduler.send("go")
        scheduler.go_on(minutes=1)
        scheduler.go_on(hours=1, minutes=58)
        assert scheduler.started == []
        scheduler.go_on(minutes=1)
        assert len(scheduler.started) == (then == "launch")
        assert "timed_out" in scheduler.history("one")

    def test_a_pending_job_has_a_day_when_nothing_is_said(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, Delay("3d"))
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(hours=23, minutes=59)
        assert scheduler.pending("one")[0].state == CONSTRAINT
        scheduler.go_on(minutes=1)
        (job,) = scheduler.pending("one")
        assert job.state == DISCARDED
        assert "its constraints were not met within 1 day" in str(job.ended_because)

    def test_waiting_for_the_trigger_has_no_timeout(self, scheduler: Any) -> None:
        scheduler.declare("two", CustomEvents("go", 2))
        scheduler.send("go")
        scheduler.work()
        scheduler.clock.forward(days=30)
        scheduler.send("go")
        scheduler.work()
        assert len(scheduler.started) == 1


class TestNothingIsAskedBeforeItsTime:
    def test_no_constraint_is_evaluated_before_the_moment_that_it_named(
        self, scheduler: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[datetime] = []
        really = TimeWindow.look

        def look(self: TimeWindow, facts: Any) -> Any:
            asked.append(facts.now)
            return really(self, facts)

        monkeypatch.setattr(TimeWindow, "look", look)
        scheduler.airflow.running["maintain"] = {"manual__1"}
        scheduler.declare("nightly", GO, TimeWindow("22:00", "06:00"), MaxConcurrent(1))
        scheduler.send("go")
        for _ in range(9 * 60 + 59):
            scheduler.clock.forward(minutes=1)
            scheduler.subscriber.step()
            scheduler.checker.step()
        assert asked == [datetime(2026, 11, 21, 12, 1, tzinfo=UTC)]
        scheduler.go_on(minutes=1)
        assert asked[1:] == [datetime(2026, 11, 21, 22, 0, tzinfo=UTC)]

    def test_events_do_not_wake_a_job_that_waits_for_constraints(self, scheduler: Any) -> None:
        scheduler.declare("delayed", GO, Delay("10m"))
        scheduler.send("go")
        assert scheduler.work().looked_at == 1
        scheduler.send("go")
        assert scheduler.go_on(minutes=5).looked_at == 0
        assert scheduler.go_on(minutes=5).looked_at == 1

    def test_of_several_moments_the_last_is_soon_enough(self, scheduler: Any) -> None:
        scheduler.declare("one", GO, Delay("2h"), TimeWindow("13:00", "20:00"))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.go_on(hours=1).looked_at == 0
        assert scheduler.go_on(hours=1).looked_at == 1
        assert len(scheduler.started) == 1


class TestStandingOfASchedule:
    def test_it_is_created_suspended_unless_it_says_enabled(self, scheduler: Any) -> None:
        scheduler.schedules.create(Schedule("quiet", dag_id="maintain", trigger=GO))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.schedules.get("quiet").enabled is False
        assert scheduler.pending("quiet") == []

    def test_suspending_discards_what_waits_and_ignores_events_until_it_is_resumed(self, scheduler: Any) -> None:
        scheduler.declare("three", CustomEvents("go", 3))
        scheduler.send("go", 2)
        scheduler.work()
        scheduler.schedules.suspend("three")
        assert [job.ended_because for job in scheduler.pending("three")] == ["the schedule was suspended"]
        scheduler.send("go", 5)
        scheduler.work()
        scheduler.schedules.resume("three")
        scheduler.send("go", 2)
        scheduler.work()
        assert scheduler.started == []
        scheduler.send("go")
        scheduler.work()
        assert counted(scheduler) == 3

    @pytest.mark.parametrize("change", ["create", "resume", "update"])
    def test_events_from_before_never_count_even_if_nobody_has_read_them_yet(self, scheduler: Any, change: str) -> None:
        declared = Schedule("one", dag_id="maintain", trigger=GO, enabled=change != "resume")
        if change != "create":
            scheduler.schedules.create(declared)
        scheduler.send("go")
        scheduler.clock.forward(seconds=1)
        getattr(scheduler.schedules, change)("one" if change == "resume" else declared)
        scheduler.work()
        assert scheduler.started == []
        scheduler.send("go")
        scheduler.work()
        assert counted(scheduler) == 1

    def test_what_happened_before_and_was_found_out_later_does_not_count(self, scheduler: Any) -> None:
        before = scheduler.clock()
        scheduler.clock.forward(minutes=1)
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

    def test_an_update_keeps_whether_it_is_enabled(self, scheduler: Any) -> None:
        for name, enabled in (("on", True), ("off", False)):
            scheduler.declare(name, GO, enabled=enabled)
            scheduler.schedules.update(Schedule(name, dag_id="maintain", trigger=GO, enabled=not enabled))
            assert scheduler.schedules.get(name).enabled is enabled

    @pytest.mark.parametrize("change", ["update", "suspend", "delete"])
    def test_a_run_that_could_not_be_launched_yet_goes_with_the_change(self, scheduler: Any, change: str) -> None:
        declared = scheduler.declare("one", GO, MaxConcurrent(1))
        scheduler.declare("other", CustomEvents("other"), MaxConcurrent(1))
        scheduler.airflow.refusal = NotStarted("paused")
        scheduler.send("go")
        scheduler.work()
        getattr(scheduler.schedules, change)(declared if change == "update" else "one")
        scheduler.airflow.refusal = None
        scheduler.go_on(hours=1)
        assert scheduler.started == []
        scheduler.send("other")
        scheduler.work()
        assert len(scheduler.started) == 1, "and its place is free"

    def test_names_are_unique_and_what_is_not_there_is_named(self, scheduler: Any) -> None:
        declared = scheduler.declare("one", GO)
        with pytest.raises(ScheduleExists, match="'one'"):
            scheduler.schedules.create(declared)
        scheduler.schedules.delete("one")
        for change in (scheduler.schedules.delete, scheduler.schedules.suspend, scheduler.schedules.get):
            with pytest.raises(ScheduleNotFound, match="'one'"):
                change("one")

    def test_a_definition_that_cannot_be_read_waits_and_keeps_no_other_from_running(self, scheduler: Any) -> None:
        for name in ("newer", "ours"):
            scheduler.declare(name, GO | Every("1h"))
        definition = scheduler.schedules.get("newer").schedule.to_json()
        write = sa.update(schedules).where(schedules.c.name == "newer")
        broken = write.values(definition=definition | {"trigger": {"from_the_future": {}}})
        scheduler.store.transact(lambda conn: conn.execute(broken))
        scheduler.send("go")
        scheduler.work()
        scheduler.go_on(hours=1)
        assert [launch.schedule for launch in scheduler.started] == ["ours", "ours"]
        (job,) = scheduler.pending("newer")
        assert "from_the_future" in job.reasons[0].says

        scheduler.store.transact(lambda conn: conn.execute(write.values(definition=definition)))
        scheduler.go_on(hours=1)
        assert "newer" in [launch.schedule for launch in scheduler.started]


class TestLaunching:
    def test_a_launch_that_fails_is_tried_again_with_back_off_and_never_dropped(self, scheduler: Any) -> None:
        scheduler.declare("one", GO)
        scheduler.airflow.refusal = NotStarted("DAG maintain is paused")
        scheduler.send("go")
        scheduler.work()
        tries = []
        for _ in range(5 * 60):
            scheduler.clock.forward(minutes=1)
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

    def test_a_starter_that_raises_makes_its_run_wait_and_no_other(self, scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        start = scheduler.airflow.start

        def break_down(launch: Any) -> Any:
            if launch.schedule == "broken":
                raise RuntimeError("the connection is gone")
            return start(launch)

        monkeypatch.setattr(scheduler.airflow, "start", break_down)
        for name in ("broken", "sound"):
            scheduler.declare(name, GO)
        scheduler.send("go")
        scheduler.work()
        assert [launch.schedule for launch in scheduler.started] == ["sound"]
        assert "the connection is gone" in scheduler.last_entry("broken").detail["because"]
        monkeypatch.undo()
        scheduler.go_on(minutes=1)
        assert sorted(launch.schedule for launch in scheduler.started) == ["broken", "sound"]

    def test_a_start_whose_answer_was_lost_is_repeated_and_finds_the_run(
        self, scheduler: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Killed(BaseException):
            pass

        def die(*_: Any) -> None:
            raise Killed

        scheduler.declare("one", GO)
        scheduler.send("go")
        monkeypatch.setattr(scheduler.launcher, "_finish", die)
        with pytest.raises(Killed):
            scheduler.work()
        monkeypatch.undo()
        assert len(scheduler.started) == 1
        scheduler.go_on(minutes=1)
        assert scheduler.pending("one")[0].state == LAUNCH, "the lease is not over"
        scheduler.go_on(minutes=1)
        assert scheduler.pending("one")[0].state == LAUNCHED
        assert len(scheduler.started) == 1

    def test_a_change_while_a_run_is_being_started_is_on_record(self, scheduler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        start = scheduler.airflow.start

        def change_meanwhile(launch: Any) -> Any:
            answer = start(launch)
            scheduler.schedules.delete("one")
            return answer

        monkeypatch.setattr(scheduler.airflow, "start", change_meanwhile)
        scheduler.declare("one", GO)
        scheduler.send("go")
        scheduler.work()
        assert scheduler.history("one")[-1] == "launched_while_changed"


class TestEvents:
    def test_the_same_source_id_is_the_same_event(self, scheduler: Any) -> None:
        event = Event(custom_key("go"), scheduler.clock(), source_id="theirs-1")
        assert [scheduler.log.publish([event]), scheduler.log.publish([event, event])] == [1, 0]

    def test_a_partition_that_gets_data_twice_counts_once(self, scheduler: Any) -> None:
        scheduler.declare("three", PartitionsAdded("web.t", 3))
        key = table_key_of("web.t")
        for names in (["p=1", "p=2"], ["p=2"], ["p=1"], ["p=3"]):
            assert scheduler.started == []
            scheduler.log.publish([Event(key, scheduler.clock(), {"partitions": len(names)}, {"partitions": names})])
            scheduler.work()
        assert len(scheduler.started) == 1

    def test_partitions_that_are_counted_and_not_named_count_too(self, scheduler: Any) -> None:
        scheduler.declare("many", PartitionsAdded("web.t", 5))
        event = Event(table_key_of("web.t"), scheduler.clock(), {"partitions": 4}, {"partitions": ["p=1", "p=2"]})
        scheduler.log.publish([event])
        scheduler.work()
        assert scheduler.pending("many")[0].reasons[0].says == "4 of 5 partitions of web.t"
        scheduler.log.publish([Event(table_key_of("web.t"), scheduler.clock(), {"partitions": 1})])
        scheduler.work()
        assert len(scheduler.started) == 1

    def test_one_event_counts_for_every_leaf_and_every_schedule_that_listens(self, scheduler: Any) -> None:
        scheduler.declare("both", PartitionsAdded("web.t", 2) & BytesAdded("web.t", 100))
        scheduler.declare("bytes", BytesAdded("web.t", 100))
        scheduler.arrive("web.t", partitions=1, bytes=60)
        scheduler.arrive("web.t", partitions=1, bytes=60)
        scheduler.work()
        assert sorted(launch.schedule for launch in scheduler.started) == ["both", "bytes"]
        assert [counted(scheduler, number) for number in range(2)] == [2, 2]

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
        scheduler.clock.forward(hours=3, minutes=30)
        for _ in range(20):
            scheduler.work()
            scheduler.clock.forward(seconds=5)
        return [len(launch.conf["snowpack"]["events"][0]["detail"]["ticks"]) for launch in scheduler.started]

    def missed(self, scheduler: Any) -> list[tuple[str, int]]:
        return [
            (entry.detail["policy"], entry.detail["count"])
            for entry in scheduler.entries("hourly")
            if entry.what == "ticks_missed"
        ]

    def test_one_run_for_all_missed_ticks(self, scheduler: Any) -> None:
        assert self.after_an_outage(scheduler, "one") == [3]
        assert self.missed(scheduler) == [("one", 3)]

    def test_a_run_for_each_missed_tick_one_after_the_other(self, scheduler: Any) -> None:
        assert self.after_an_outage(scheduler, "all") == [1, 1, 1]
        assert self.missed(scheduler) == [("all", 1)] * 3

    def test_no_run_for_missed_ticks(self, scheduler: Any) -> None:
        assert self.after_an_outage(scheduler, "none") == []
        assert self.missed(scheduler) == [("none", 3)]
        scheduler.go_on(minutes=29)
        assert len(scheduler.started) == 1, "and one for the next that is not missed"

    def test_a_tick_within_the_minute_was_not_missed(self, scheduler: Any) -> None:
        scheduler.declare("hourly", Cron("0 * * * *"), missed="none")
        scheduler.go_on(hours=1, seconds=59)
        assert len(scheduler.started) == 1
        assert self.missed(scheduler) == []

    def test_each_missed_tick_is_a_run_even_if_the_subscriber_lags_behind(self, scheduler: Any) -> None:
        scheduler.declare("hourly", Cron("0 * * * *"), missed="all")
        scheduler.clock.forward(hours=3, minutes=30)
        for _ in range(50):
            scheduler.clocks.step()
            scheduler.clock.forward(seconds=5)
        assert len(scheduler.log.latest()) == 1
        for _ in range(20):
            scheduler.go_on(seconds=5)
        assert len(scheduler.started) == 3

    def test_each_missed_tick_is_a_run_even_while_one_of_them_waits(self, scheduler: Any) -> None:
        """The delay of each counts from its own moment: 13:00, 14:00 and 15:00."""
        scheduler.declare("hourly", Cron("0 * * * *"), Delay("2h10m"), missed="all")
        scheduler.clock.forward(hours=3, minutes=30)
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
        scheduler.clock.forward(hours=3, minutes=30)
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

    def test_a_clock_that_jumps_back_does_nothing_twice(self, scheduler: Any) -> None:
        scheduler.declare("hourly", Cron("0 * * * *"))
        scheduler.declare("data", GO, MaxRuns(5, "1h"))
        scheduler.declare("every", Every("1h"))
        scheduler.send("go")
        scheduler.go_on(hours=1)
        before = sorted(launch.run_id for launch in scheduler.started)
        assert len(before) == 3
        scheduler.clock.forward(hours=-1)
        for _ in range(60):
            scheduler.go_on(minutes=1)
        assert sorted(launch.run_id for launch in scheduler.started) == before
        scheduler.go_on(hours=1)
        assert len(scheduler.started) == 5

    def test_a_period_that_ended_just_before_a_launch_starts_no_other(self, scheduler: Any) -> None:
        scheduler.declare("bursty", GO | Every("4h"))
        scheduler.send("go")
        scheduler.clock.forward(hours=4)
        scheduler.subscriber.step()
        scheduler.clocks.step()  # the period is over, and the subscriber has not heard of it
        scheduler.checker.step()
        scheduler.launcher.step()
        assert len(scheduler.started) == 1
        scheduler.work()
        scheduler.go_on(hours=3, minutes=59)
        assert len(scheduler.started) == 1
        scheduler.go_on(minutes=1)
        assert len(scheduler.started) == 2

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
