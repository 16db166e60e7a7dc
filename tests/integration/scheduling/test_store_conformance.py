"""Every operation of the scheduler's store, on both databases.

What rules mean is tested elsewhere, on SQLite alone. A new operation, or a statement that differs by database, gets a test here.
Where it needs a setup that only one file has, that file has the test, without the marker ``one_database``:

| operations | tests that run on both databases |
|---|---|
| batches of events for many schedules | ``test_matching.py`` |
| the end of a run, wake-ups and queues | ``test_waking.py``, ``test_wait_queue.py`` |
| ends that Airflow is asked for | ``test_run_ends.py`` |
| reserved slots and loads | ``test_slot_reservations.py`` |
| gates | ``test_gate.py`` |
| tables that are missing or made again | ``test_poller.py`` |
| registered runs | ``test_registered_runs.py`` |
| retention | ``test_retention.py`` |
| definitions that cannot be read | ``test_unreadable.py`` |
| locks, races, kills, plans | ``test_races.py``, ``test_scheduling_kills.py``, ``test_plans.py`` |
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from airflow_snowpack.iceberg import CatalogConfig, TableName, load_table
from airflow_snowpack.iceberg.broker import Broker
from airflow_snowpack.scheduling import (
    BytesAdded,
    ClusterLoad,
    CommitsAdded,
    Cron,
    CustomEvents,
    Delay,
    Event,
    Every,
    MaxConcurrent,
    MaxRuns,
    PartitionsAdded,
    PendingQueue,
    PendingState,
    Poller,
    PoolSlots,
    RunsSucceeded,
    Schedule,
    ScheduleExists,
    ScheduleNotFound,
    Schedules,
    SinceLastRun,
    Timeout,
    TimeWindow,
    explain,
    explain_all,
    plan_sync,
    read_runs,
    run_now,
    send_event,
    sync,
)
from airflow_snowpack.scheduling.airflow_port import EndedRun, NotStarted
from airflow_snowpack.scheduling.errors import WrongTransition
from airflow_snowpack.scheduling.events.event_log import read_backlog
from airflow_snowpack.scheduling.pending_runs.model import move
from airflow_snowpack.scheduling.sources.consumer import Consumer, WatchedTable, read_places
from airflow_snowpack.scheduling.triggers.trigger import custom_key, table_key
from airflow_snowpack.store import Actor, Store
from airflow_snowpack.store.tables.schedules import pending_jobs, schedules

if TYPE_CHECKING:
    from pyiceberg.table import Table

GO = CustomEvents("go")
RUNS_OF_MAINTAIN = RunsSucceeded("maintain")
TRIGGER, CONSTRAINT, LAUNCH, LAUNCHED, DISCARDED = PendingState
VERA = Actor("vera", "api")


def make(name: str = "nightly", **changes: Any) -> Schedule:
    said: dict[str, Any] = {"name": name, "dag_id": "maintain", "trigger": PartitionsAdded("web.page_views", 5), "enabled": True}
    return Schedule(**(said | changes))


def counted(scheduler: Any, number: int = -1) -> int:
    count: int = scheduler.started[number].conf["snowpack"]["event_count"]
    return count


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
    scheduler.declare("one", GO, ClusterLoad("load", on_unmet=scheduler.on_unmet))


def unblock(scheduler: Any) -> None:
    scheduler.monkeypatch.setenv("SNOWPACK_TEST_LOAD", "0.1")
    scheduler.airflow.running.clear()
    scheduler.airflow.pools["spark"] = 1
    scheduler.clock.move(hours=1)


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


class TestSchedules:
    """What is stored of a schedule, and what a change of it does to what waits."""

    def test_names_are_unique_and_what_is_not_there_is_named(self, scheduler: Any) -> None:
        declared = scheduler.declare("one", GO)
        with pytest.raises(ScheduleExists, match="'one'"):
            scheduler.schedules.create(declared)
        scheduler.schedules.delete("one")
        for change in (scheduler.schedules.delete, scheduler.schedules.suspend, scheduler.schedules.get):
            with pytest.raises(ScheduleNotFound, match="'one'"):
                change("one")

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

    def test_an_update_keeps_whether_it_is_enabled(self, scheduler: Any) -> None:
        for name, enabled in (("on", True), ("off", False)):
            scheduler.declare(name, GO, enabled=enabled)
            scheduler.schedules.update(Schedule(name, dag_id="maintain", trigger=GO, enabled=not enabled))
            assert scheduler.schedules.get(name).enabled is enabled

    @pytest.mark.parametrize("change", ["update", "suspend", "delete"])
    def test_a_run_that_could_not_be_launched_yet_goes_with_the_change(self, scheduler: Any, change: str) -> None:
        scheduler.declare("one", GO, MaxConcurrent(1))
        scheduler.declare("other", CustomEvents("other"), MaxConcurrent(1))
        scheduler.airflow.refusal = NotStarted("paused")
        scheduler.send("go")
        scheduler.work()
        change_it = scheduler.change if change == "update" else getattr(scheduler.schedules, change)
        change_it("one")
        scheduler.airflow.refusal = None
        scheduler.go_on(hours=1)
        assert scheduler.started == []
        scheduler.send("other")
        scheduler.work()
        assert len(scheduler.started) == 1, "and its place is free"

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
        assert "from_the_future" in job.reasons[0].text

        scheduler.store.transact(lambda conn: conn.execute(write.values(definition=definition)))
        scheduler.go_on(hours=1)
        assert "newer" in [launch.schedule for launch in scheduler.started]

    def test_schedules_are_found_by_dag_state_and_a_part_of_their_name(self, scheduler: Any, asked: Schedules) -> None:
        asked.create(make("Views_nightly"))
        asked.create(make("views_hourly", enabled=False))
        asked.create(make("orders", dag_id="load_100%"[:8]))

        def names(**which: Any) -> list[str]:
            return [one.schedule.name for one in asked.list(**which)]

        assert names(search="VIEWS") == ["Views_nightly", "views_hourly"]
        assert names(enabled=False) == ["views_hourly"]
        assert names(dag_id="load_100") == ["orders"]
        assert names(search="%") == []
        assert asked.count() == {True: 2, False: 1}

    def test_each_change_that_somebody_asks_for_has_its_entry(self, scheduler: Any, asked: Schedules) -> None:
        asked.create(make())
        asked.update(make(priority=3))
        asked.suspend("nightly")
        asked.suspend("nightly")
        asked.resume("nightly")
        run_now(asked, "nightly")
        asked.delete("nightly")

        changes = [change for _, change, _ in scheduler.audit_trail()]
        assert changes == [f"{what}_schedule" for what in ("create", "update", "suspend", "resume", "run", "delete")]
        assert {(actor, subject) for actor, _, subject in scheduler.audit_trail()} == {("vera", "schedule:nightly")}

    def test_a_planned_sync_says_what_a_sync_would_do_and_changes_nothing(self, scheduler: Any, asked: Schedules) -> None:
        sync(asked, [make("stays"), make("changes"), make("goes")], update=True)
        before = asked.list()
        wanted = [make("stays"), make("changes", priority=1), make("comes")]

        plan = plan_sync(asked, wanted, update=True)
        assert asked.list() == before
        assert (plan.created, plan.updated, plan.deleted) == (("comes",), ("changes",), ("goes",))
        assert sync(asked, wanted, update=True) == plan


class TestEvents:
    """The log of events, and the subscriber that reads it."""

    def test_the_same_source_id_is_the_same_event(self, scheduler: Any) -> None:
        event = Event(custom_key("go"), scheduler.clock(), source_id="theirs-1")
        assert [scheduler.log.publish([event]), scheduler.log.publish([event, event])] == [1, 0]

    def test_an_event_with_the_same_source_id_is_one_event_and_one_entry(self, scheduler: Any) -> None:
        first = send_event(scheduler.store, VERA, "orders_closed", source_id="2026-11-21")
        second = send_event(scheduler.store, VERA, "orders_closed", source_id="2026-11-21")
        elsewhere = send_event(scheduler.store, VERA, "orders_opened", source_id="2026-11-21")

        assert (first.again, second.again, elsewhere.again) == (False, True, False)
        assert second.recorded == first.recorded
        assert len(scheduler.audit_trail()) == 2

    def test_a_colon_in_a_name_makes_no_other_event_the_same(self, scheduler: Any) -> None:
        asked_for = [("a:b", "c"), ("a", "b:c"), ("a%:b", "c"), ("a%", "b:c"), ("a:", ":c"), ("a", "::c"), ("a::", "c")]
        for _ in range(2):
            sent = [send_event(scheduler.store, VERA, name, source_id=source) for name, source in asked_for]
        assert len({one.recorded.id for one in sent}) == len(asked_for)
        assert all(one.again for one in sent)

    def test_one_event_counts_for_every_leaf_and_every_schedule_that_listens(self, scheduler: Any) -> None:
        scheduler.declare("both", PartitionsAdded("web.t", 2) & BytesAdded("web.t", 100))
        scheduler.declare("bytes", BytesAdded("web.t", 100))
        scheduler.arrive("web.t", partitions=1, bytes=60)
        scheduler.arrive("web.t", partitions=1, bytes=60)
        scheduler.work()
        assert sorted(launch.schedule for launch in scheduler.started) == ["both", "bytes"]
        assert [counted(scheduler, number) for number in range(2)] == [2, 2]

    def test_a_partition_that_gets_data_twice_counts_once(self, scheduler: Any) -> None:
        scheduler.declare("three", PartitionsAdded("web.t", 3))
        key = table_key(TableName.parse("web.t", catalog="lake"))
        for names in (["p=1", "p=2"], ["p=2"], ["p=1"], ["p=3"]):
            assert scheduler.started == []
            scheduler.log.publish([Event(key, scheduler.clock(), {"partitions": len(names)}, {"partitions": names})])
            scheduler.work()
        assert len(scheduler.started) == 1

    def test_the_backlog_is_what_the_subscriber_has_not_taken(self, scheduler: Any, store: Store) -> None:
        scheduler.send("go", 3)
        oldest = scheduler.clock()
        before = read_backlog(store)
        assert (before.newest, before.taken, before.unread, before.oldest) == (3, 0, 3, oldest)
        scheduler.subscriber.step()
        after = read_backlog(store)
        assert (after.newest, after.taken, after.unread, after.oldest) == (3, 3, 0, None)


class TestClocks:
    """Ticks of crons and periods."""

    def test_each_missed_tick_is_a_run_even_if_the_subscriber_lags_behind(self, scheduler: Any) -> None:
        scheduler.declare("hourly", Cron("0 * * * *"), missed="all")
        scheduler.clock.move(hours=3, minutes=30)
        for _ in range(50):
            scheduler.clocks.step()
            scheduler.clock.move(seconds=5)
        assert len(scheduler.log.latest()) == 1
        for _ in range(20):
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
        scheduler.clock.move(hours=-1)
        for _ in range(60):
            scheduler.go_on(minutes=1)
        assert sorted(launch.run_id for launch in scheduler.started) == before
        scheduler.go_on(hours=1)
        assert len(scheduler.started) == 5

    def test_a_period_that_ended_just_before_a_launch_starts_no_other(self, scheduler: Any) -> None:
        scheduler.declare("bursty", GO | Every("4h"))
        scheduler.send("go")
        scheduler.clock.move(hours=4)
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


class TestChecker:
    """Looks at pending jobs: every constraint with the query that it asks, and every state that a job can have."""

    def test_a_pending_job_goes_no_way_but_the_settled_ones(self, scheduler: Any) -> None:
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

    @pytest.mark.parametrize("blocked", [(block, "wait") for block in BLOCKED], indirect=True, ids=lambda each: each[0].__name__)
    def test_a_constraint_that_waits_lets_the_run_start_once_it_is_met(self, blocked: Any) -> None:
        blocked.send("go")
        blocked.work()
        assert blocked.started == []
        (reason,) = blocked.pending("one")[-1].reasons[1:]
        assert not reason.met
        assert reason.text

        unblock(blocked)
        blocked.work()
        assert len(blocked.started) == 1

    @pytest.mark.parametrize("blocked", [(block, "skip") for block in BLOCKED], indirect=True, ids=lambda each: each[0].__name__)
    def test_a_constraint_that_skips_drops_the_run_and_says_why(self, blocked: Any) -> None:
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


class TestLauncher:
    """Starts what is reserved."""

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


class TestRuns:
    """What is stored of DAG runs."""

    def test_an_older_success_that_is_told_late_does_not_bring_the_next_run_forward(self, scheduler: Any) -> None:
        now = scheduler.clock()
        scheduler.runs.ended("maintain", "second", "success", now)
        scheduler.runs.ended("maintain", "first", "success", now - timedelta(hours=1))
        assert scheduler.runs.ended("maintain", "second", "success", now) is False
        scheduler.declare("one", GO, SinceLastRun("30m"))
        scheduler.send("go")
        scheduler.work()
        assert scheduler.pending("one")[0].next_check_at == now + timedelta(minutes=30)

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

    def test_the_runs_of_a_schedule_tell_how_they_ended(self, scheduler: Any, asked: Schedules) -> None:
        asked.create(make(trigger=PartitionsAdded("web.page_views")))
        scheduler.arrive()
        scheduler.work()
        scheduler.end_run(state="failed")

        (run,) = read_runs(scheduler.store, "nightly")
        assert (run.dag_id, run.state, run.ended_at) == ("maintain", "failed", scheduler.clock())


class TestQueries:
    """What pages, the CLI and the API read."""

    def test_the_queue_holds_what_waits_and_says_why_it_cannot_start(self, scheduler: Any, asked: Schedules) -> None:
        asked.create(make("waits_for_data"))
        asked.create(make("waits_for_delay", trigger=PartitionsAdded("web.page_views"), constraints=[Delay("10m")]))
        asked.create(make("waits_for_airflow", trigger=PartitionsAdded("web.page_views")))
        scheduler.airflow.refusal = NotStarted("the DAG maintain is paused")
        scheduler.arrive()
        scheduler.work()
        queue = PendingQueue(scheduler.store)

        states = {each.run.schedule: (each.run.state, each.problem) for each in queue.page().items}
        assert states == {
            "waits_for_data": (PendingState.TRIGGER, None),
            "waits_for_delay": (PendingState.CONSTRAINT, None),
            "waits_for_airflow": (PendingState.LAUNCH, "the DAG maintain is paused"),
        }
        assert set(queue.count_by_state().values()) == {1}
        assert queue.launches_waiting() == (1, scheduler.clock())
        assert [each.run.schedule for each in queue.page(states=[PendingState.CONSTRAINT]).items] == ["waits_for_delay"]
        assert [each.run.schedule for each in queue.page(schedule="waits_for_data").items] == ["waits_for_data"]

    def test_the_pages_of_the_queue_neither_repeat_nor_miss_a_job(self, scheduler: Any, asked: Schedules) -> None:
        names = [f"s{number}" for number in range(7)]
        for name in names:
            asked.create(make(name))
        scheduler.arrive()
        scheduler.work()
        queue, seen, cursor = PendingQueue(scheduler.store), [], None
        while True:
            page = queue.page(after=cursor, limit=3)
            seen += [each.run.schedule for each in page.items]
            cursor = page.next
            if cursor is None:
                break

        assert sorted(seen) == names

    def test_many_schedules_are_explained_as_each_alone(self, scheduler: Any, asked: Schedules) -> None:
        for name in ("a", "b", "c"):
            asked.create(make(name, enabled=name != "c", constraints=[Delay("10m")] if name == "b" else []))
        scheduler.arrive(partitions=5)
        scheduler.work()

        told = explain_all(asked, asked.list())
        assert {name: str(each) for name, each in told.items()} == {name: str(explain(asked, name)) for name in told}


class TestTables:
    """Places in the history of Iceberg tables: the poller's, a watcher's and a consumer's."""

    @pytest.fixture
    def lake(self, tmp_path: Path) -> CatalogConfig:
        config = CatalogConfig.embedded(tmp_path / "lake")
        config.load().create_namespace("web")
        return config

    @pytest.fixture
    def views(self, lake: CatalogConfig) -> Table:
        return lake.load().create_table(("web", "page_views"), pa.schema([("n", pa.int32())]))

    def append(self, table: Table) -> None:
        table.append(pa.table({"n": pa.array([1], pa.int32())}))

    def test_two_pollers_publish_each_snapshot_once(
        self, scheduler: Any, store: Store, lake: CatalogConfig, views: Table
    ) -> None:
        scheduler.clock.now = datetime.now(UTC)  # by which tables are stamped
        scheduler.declare("counted", CommitsAdded("web.page_views", 2))
        one, other = (Poller(store, catalog_name="lake", broker=Broker(lake.load), every=timedelta(0)) for _ in range(2))
        for _ in range(2):
            scheduler.clock.move(seconds=1)
            self.append(views)
            assert one.step().events + other.step().events == 1
        scheduler.work()
        assert [counted(scheduler)] == [2]

    def test_a_watcher_continues_after_the_last_place_that_it_passed_on(
        self, store: Store, lake: CatalogConfig, views: Table
    ) -> None:
        def read() -> list[Any]:
            return list(WatchedTable(store, "w", name).read(load_table(lake.load(), name)).new)

        name = TableName("lake", "web", "page_views")
        self.append(views)
        assert read() == [], "a new watcher begins at the present state"
        for _ in range(2):
            self.append(views)
        first, second = read()
        assert read() == [first, second]
        for passed, left in ((first, [second]), (second, [])):
            WatchedTable(store, "w", name).advance(passed.place)
            assert read() == left

    def test_an_owner_who_considers_while_another_first_sees_a_table_is_noticed(
        self, scheduler: Any, store: Store, lake: CatalogConfig, views: Table
    ) -> None:
        load = partial(load_table, lake.load())
        one = Consumer(store, "report", GO, catalog_name="lake")
        assert not one.look("run1", load).satisfied
        scheduler.send("go")
        with_table = Consumer(store, "report", GO | CommitsAdded("web.page_views"), catalog_name="lake")
        kept = with_table.read("run2", read_places(store, ["report"]))
        assert one.consider("run1", one.look("run1", load))

        name = TableName("lake", "web", "page_views")
        late = with_table.judge(kept, {name: load(name)})
        assert late.satisfied, "by the event that the other has considered meanwhile"
        assert not with_table.consider("run2", late)
        assert not with_table.look("run2", load).satisfied

    def test_of_two_consumers_that_looked_at_once_the_slower_looks_again(
        self, scheduler: Any, store: Store, lake: CatalogConfig
    ) -> None:
        def consumer() -> Consumer:
            return Consumer(store, "report", GO, catalog_name="lake")

        load = partial(load_table, lake.load())

        assert not consumer().look("run1", load).satisfied
        scheduler.send("go")
        one, other = consumer(), consumer()
        first, second = one.look("run1", load), other.look("run2", load)
        assert one.consider("run1", first)
        assert one.consider("run1", first), "to say it twice is no harm"
        assert not other.consider("run2", second)
