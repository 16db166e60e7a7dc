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
    PartitionsAdded,
    PendingQueue,
    Schedule,
    ScheduleExists,
    ScheduleNotFound,
    Schedules,
    explain,
    read_history,
    run_now,
    send_event,
)
from airflow_snowpack.store import Actor, InvalidCursor

pytestmark = pytest.mark.one_database

VERA = Actor("vera", "api")


def make(name: str = "nightly", **changes: Any) -> Schedule:
    said: dict[str, Any] = {"name": name, "dag_id": "maintain", "trigger": PartitionsAdded("web.page_views", 5), "enabled": True}
    return Schedule(**(said | changes))


def test_a_change_that_is_refused_has_none(scheduler: Any, asked: Schedules) -> None:
    asked.create(make())
    with pytest.raises(ScheduleExists):
        asked.create(make())
    with pytest.raises(ScheduleNotFound):
        run_now(asked, "another")

    assert len(scheduler.audit_trail()) == 1


def test_a_change_stands_in_the_name_of_who_asked(asked: Schedules, scheduler: Any) -> None:
    assert asked.create(make()).changed_by == "vera"
    assert read_history(scheduler.store, "nightly")[0].detail["by"] == "vera"


def test_what_nobody_asked_for_is_not_in_the_audit_trail(scheduler: Any) -> None:
    scheduler.schedules.create(make())

    assert scheduler.audit_trail() == []


def test_running_now_starts_the_dag_once_whatever_trigger_and_constraints_say(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(conf={"table": "web.page_views"}, constraints=[Delay("10m")]))
    job = run_now(asked, "nightly")
    scheduler.work()
    scheduler.work()

    (launch,) = scheduler.started
    assert launch.run_id == job.run_id
    assert launch.conf["table"] == "web.page_views"
    assert launch.conf["snowpack"]["asked_by"] == "vera"
    assert [entry.what for entry in read_history(scheduler.store, "nightly")] == ["launched", "requested", "created"]


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
    assert "3 of 5 partitions" in explain(asked, "nightly").trigger.text

    scheduler.arrive(partitions=2)
    scheduler.work()
    assert len(scheduler.started) == 2


def test_a_run_that_was_asked_for_begins_the_period_anew(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=Every("4h")))
    scheduler.clock.move(hours=3)
    run_now(asked, "nightly")
    scheduler.work()
    scheduler.clock.move(hours=2)
    scheduler.work()

    assert len(scheduler.started) == 1


def test_an_event_that_is_sent_counts_for_the_schedules_that_listen_to_its_name(scheduler: Any, asked: Schedules) -> None:
    asked.create(make(trigger=CustomEvents("orders_closed", 2)))
    for day in ("mon", "tue"):
        send_event(scheduler.store, VERA, "orders_closed", {"records": 7}, {"day": day})
    scheduler.work()

    (launch,) = scheduler.started
    assert [event["detail"]["day"] for event in launch.conf["snowpack"]["events"]] == ["mon", "tue"]
    assert ("vera", "send_event", "event:orders_closed") in scheduler.audit_trail()


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
    assert scheduler.audit_trail() == []


def test_an_event_that_is_still_to_come_is_refused(scheduler: Any) -> None:
    with pytest.raises(InvalidEvent, match="in the future"):
        send_event(scheduler.store, VERA, "ok", at=scheduler.clock() + timedelta(minutes=1))


@pytest.mark.parametrize("cursor", ["", "x", "20261121T120000000000-", "20261121T120000000000-a'b", "2026-x"])
def test_a_cursor_that_no_page_gave_is_refused(scheduler: Any, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        PendingQueue(scheduler.store).page(after=cursor)
