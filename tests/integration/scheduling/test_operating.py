"""What people do to schedules from outside: each change is on record with who asked for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_snowpack.scheduling import (
    CustomEvents,
    Delay,
    Every,
    InvalidEvent,
    InvalidPendingCursor,
    NotStarted,
    PartitionsAdded,
    PendingQueue,
    PendingState,
    Schedule,
    ScheduleExists,
    ScheduleNotFound,
    Schedules,
    explain,
    explain_all,
    plan_sync,
    read_history,
    read_runs,
    run_now,
    send_event,
    sync,
)
from airflow_snowpack.store import Actor, AuditTrail

VERA = Actor("vera", "api")


def make(name: str = "nightly", **changes: Any) -> Schedule:
    said: dict[str, Any] = {"name": name, "dag_id": "maintain", "trigger": PartitionsAdded("web.page_views", 5), "enabled": True}
    return Schedule(**(said | changes))


@pytest.fixture
def asked(scheduler: Any) -> Schedules:
    """The schedules on behalf of somebody."""
    return Schedules(scheduler.store, catalog="lake", actor=VERA)


def trail(scheduler: Any) -> list[tuple[str, str, str]]:
    entries = AuditTrail(scheduler.store).latest()
    return [(entry.actor, entry.change, entry.subject) for entry in reversed(entries)]


def test_each_change_that_somebody_asks_for_has_its_entry(scheduler: Any, asked: Schedules) -> None:
    asked.create(make())
    asked.update(make(priority=3))
    asked.suspend("nightly")
    asked.suspend("nightly")
    asked.resume("nightly")
    run_now(asked, "nightly")
    asked.delete("nightly")

    changes = [change for _, change, _ in trail(scheduler)]
    assert changes == [f"{what}_schedule" for what in ("create", "update", "suspend", "resume", "run", "delete")]
    assert {(actor, subject) for actor, _, subject in trail(scheduler)} == {("vera", "schedule:nightly")}


def test_a_change_that_is_refused_has_none(scheduler: Any, asked: Schedules) -> None:
    asked.create(make())
    with pytest.raises(ScheduleExists):
        asked.create(make())
    with pytest.raises(ScheduleNotFound):
        run_now(asked, "another")

    assert len(trail(scheduler)) == 1


def test_a_change_stands_in_the_name_of_who_asked(asked: Schedules, scheduler: Any) -> None:
    assert asked.create(make()).changed_by == "vera"
    assert read_history(scheduler.store, "nightly")[0].detail["by"] == "vera"


def test_what_nobody_asked_for_is_not_in_the_audit_trail(scheduler: Any) -> None:
    scheduler.schedules.create(make())

    assert trail(scheduler) == []


def test_running_now_starts_the_dag_once_whatever_trigger_and_constraints_say(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(conf={"table": "web.page_views"}, constraints=[Delay("10m")]))
    job = run_now(asked, "nightly")
    scheduler.work()
    scheduler.work()

    (launch,) = scheduler.started
    assert launch.run_id == job.run_id
    assert launch.conf["table"] == "web.page_views"
    assert launch.conf["snowpack"]["asked_by"] == "vera"
    assert [entry.what for entry in read_history(scheduler.store, "nightly")] == ["launched", "asked_for", "created"]


def test_running_now_twice_is_two_runs(scheduler: Any, asked: Schedules) -> None:
    asked.create(make())
    ids = {run_now(asked, "nightly").run_id, run_now(asked, "nightly").run_id}
    scheduler.work()

    assert {launch.run_id for launch in scheduler.started} == ids
    assert len(ids) == 2


def test_a_suspended_schedule_can_be_run_and_stays_suspended(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(enabled=False))
    run_now(asked, "nightly")
    scheduler.work()

    assert len(scheduler.started) == 1
    assert not asked.get("nightly").enabled


def test_what_waits_goes_on_waiting_when_the_schedule_is_run_now(scheduler: Any, asked: Schedules) -> None:
    asked.create(make())
    scheduler.arrive(partitions=3)
    scheduler.work()
    run_now(asked, "nightly")
    scheduler.work()
    assert "3 of 5 partitions" in explain(asked, "nightly").trigger.says

    scheduler.arrive(partitions=2)
    scheduler.work()
    assert len(scheduler.started) == 2


def test_a_run_that_was_asked_for_begins_the_period_anew(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=Every("4h")))
    scheduler.clock.forward(hours=3)
    run_now(asked, "nightly")
    scheduler.work()
    scheduler.clock.forward(hours=2)
    scheduler.work()

    assert len(scheduler.started) == 1


def test_an_event_that_is_sent_counts_for_the_schedules_that_listen_to_its_name(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=CustomEvents("orders_closed", 2)))
    for day in ("mon", "tue"):
        send_event(scheduler.store, VERA, "orders_closed", {"records": 7}, {"day": day})
    scheduler.work()

    (launch,) = scheduler.started
    assert [event["detail"]["day"] for event in launch.conf["snowpack"]["events"]] == ["mon", "tue"]
    assert ("vera", "send_event", "event:orders_closed") in trail(scheduler)


def test_an_event_with_the_same_source_id_is_one_event_and_one_entry(scheduler: Any) -> None:
    first = send_event(scheduler.store, VERA, "orders_closed", source_id="2026-11-21")
    second = send_event(scheduler.store, VERA, "orders_closed", source_id="2026-11-21")
    elsewhere = send_event(scheduler.store, VERA, "orders_opened", source_id="2026-11-21")

    assert (first.again, second.again, elsewhere.again) == (False, True, False)
    assert second.recorded == first.recorded
    assert len(trail(scheduler)) == 2


def test_a_colon_in_a_name_makes_no_other_event_the_same(scheduler: Any) -> None:
    asked_for = [("a:b", "c"), ("a", "b:c"), ("a%:b", "c"), ("a%", "b:c"), ("a:", ":c"), ("a", "::c"), ("a::", "c")]
    for _ in range(2):
        sent = [send_event(scheduler.store, VERA, name, source_id=source) for name, source in asked_for]
    assert len({one.recorded.id for one in sent}) == len(asked_for)
    assert all(one.again for one in sent)


def test_an_event_from_outside_cannot_take_the_place_of_a_commit(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=PartitionsAdded("web.page_views")))
    send_event(scheduler.store, VERA, "x", source_id="snapshot:web.page_views:1")
    scheduler.arrive()
    scheduler.work()

    assert len(scheduler.started) == 1


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("", {}),
        ("a\x00b", {}),
        ("ok", {"source_id": ""}),
        ("ok", {"amounts": {"bytes": -1}}),
        ("ok", {"detail": {"x": float("nan")}}),
    ],
)
def test_an_event_that_cannot_be_recorded_is_refused(scheduler: Any, name: str, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent):
        send_event(scheduler.store, VERA, name, **more)
    assert trail(scheduler) == []


def test_an_event_that_is_still_to_come_is_refused(scheduler: Any) -> None:
    with pytest.raises(InvalidEvent, match="still to come"):
        send_event(scheduler.store, VERA, "ok", at=scheduler.clock() + timedelta(minutes=1))


def test_the_queue_holds_what_waits_and_says_why_it_cannot_start(scheduler: Any, asked: Schedules) -> None:
    asked.create(make("waits_for_data"))
    asked.create(make("waits_for_delay", trigger=PartitionsAdded("web.page_views"), constraints=[Delay("10m")]))
    asked.create(make("waits_for_airflow", trigger=PartitionsAdded("web.page_views")))
    scheduler.airflow.refusal = NotStarted("the DAG maintain is paused")
    scheduler.arrive()
    scheduler.work()
    queue = PendingQueue(scheduler.store)

    states = {each.job.schedule: (each.job.state, each.problem) for each in queue.page().jobs}
    assert states == {
        "waits_for_data": (PendingState.TRIGGER, None),
        "waits_for_delay": (PendingState.CONSTRAINT, None),
        "waits_for_airflow": (PendingState.LAUNCH, "the DAG maintain is paused"),
    }
    assert set(queue.count_by_state().values()) == {1}
    assert queue.launches_waiting() == (1, scheduler.clock())
    assert [each.job.schedule for each in queue.page(states=[PendingState.CONSTRAINT]).jobs] == ["waits_for_delay"]
    assert [each.job.schedule for each in queue.page(schedule="waits_for_data").jobs] == ["waits_for_data"]


def test_the_pages_of_the_queue_neither_repeat_nor_miss_a_job(scheduler: Any, asked: Schedules) -> None:
    names = [f"s{number}" for number in range(7)]
    for name in names:
        asked.create(make(name))
    scheduler.arrive()
    scheduler.work()
    queue, seen, cursor = PendingQueue(scheduler.store), [], None
    while True:
        page = queue.page(after=cursor, limit=3)
        seen += [each.job.schedule for each in page.jobs]
        cursor = page.next
        if cursor is None:
            break

    assert sorted(seen) == names


@pytest.mark.parametrize("cursor", ["", "x", "20261121T120000000000-", "20261121T120000000000-a'b", "2026-x"])
def test_a_cursor_that_no_page_gave_is_refused(scheduler: Any, cursor: str) -> None:
    with pytest.raises(InvalidPendingCursor):
        PendingQueue(scheduler.store).page(after=cursor)


def test_schedules_are_found_by_dag_state_and_a_part_of_their_name(scheduler: Any, asked: Schedules) -> None:
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


def test_many_schedules_are_explained_as_each_alone(scheduler: Any, asked: Schedules) -> None:
    for name in ("a", "b", "c"):
        asked.create(make(name, enabled=name != "c", constraints=[Delay("10m")] if name == "b" else []))
    scheduler.arrive(partitions=5)
    scheduler.work()

    told = explain_all(asked, asked.list())
    assert {name: str(each) for name, each in told.items()} == {name: str(explain(asked, name)) for name in told}


def test_the_runs_of_a_schedule_tell_how_they_ended(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=PartitionsAdded("web.page_views")))
    scheduler.arrive()
    scheduler.work()
    scheduler.end_run(state="failed")

    (run,) = read_runs(scheduler.store, "nightly")
    assert (run.dag_id, run.state, run.ended_at) == ("maintain", "failed", scheduler.clock())


def test_a_planned_sync_says_what_a_sync_would_do_and_changes_nothing(scheduler: Any, asked: Schedules) -> None:
    sync(asked, [make("stays"), make("changes"), make("goes")], update=True)
    before = asked.list()
    wanted = [make("stays"), make("changes", priority=1), make("comes")]

    plan = plan_sync(asked, wanted, update=True)
    assert asked.list() == before
    assert (plan.created, plan.updated, plan.deleted) == (("comes",), ("changes",), ("goes",))
    assert sync(asked, wanted, update=True) == plan
