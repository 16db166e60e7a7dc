"""Pending runs that wait for the same are a queue: a free place goes to the first, and thousands that wait block no other run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from query_plans import sent_by

from airflow_snowpack.scheduling import CustomEvents, MaxConcurrent, PoolSlots, Schedule, SinceLastRun, TimeWindow
from airflow_snowpack.scheduling.pending_runs import wait_queue
from airflow_snowpack.scheduling.pending_runs.model import RoundReport
from airflow_snowpack.store.tables.schedules import pending_jobs, schedule_runs, schedules

GO = CustomEvents("go")
ONE = MaxConcurrent(1, group="busy")


def fill_line(scheduler: Any, number: int, constraint: Any = ONE, **columns: Any) -> None:
    """So many schedules with a job that was looked at, and waits in the line of the group; the next look of each is soon."""
    now = scheduler.clock()
    waiting = {"generation": "g", "dag_id": "maintain", "state": "pending_constraint", "priority": 0, "waits_for": "group:busy"}
    counted = {"counted_to": 0, "progress": {}, "reasons": [], "triggered_at": now, "expires_at": now + timedelta(days=1)}
    made = {"generation": "g", "dag_id": "maintain", "enabled": True, "origin": "hand", "created_at": now, "changed_at": now}
    names = [f"w{place:04}" for place in range(number)]

    def row(place: int) -> dict[str, Any]:
        due = {"created_at": now - timedelta(seconds=number - place), "next_check_at": now + timedelta(milliseconds=10 * place)}
        return {"pending_id": f"p{place:04}", "schedule": names[place], **waiting, **counted, **due, **columns}

    def definition(name: str) -> Any:
        return Schedule(name, dag_id="maintain", trigger=GO, constraints=[constraint], enabled=True).to_json()

    def fill(conn: sa.Connection) -> None:
        conn.execute(sa.insert(schedules), [{"name": name, "definition": definition(name), **made} for name in names])
        conn.execute(sa.insert(pending_jobs), [row(place) for place in range(number)])

    scheduler.store.transact(fill)


def due(scheduler: Any) -> list[str]:
    """Whose jobs are to be looked at now, in the order in which they came."""
    now = pending_jobs.c.next_check_at <= scheduler.clock()
    query = sa.select(pending_jobs.c.schedule).where(now).order_by(pending_jobs.c.created_at, pending_jobs.c.pending_id)
    return list(scheduler.store.read(lambda conn: conn.execute(query).scalars().all()))


def line_up(scheduler: Any, *names: str, constraint: Any = ONE, **fields: Any) -> None:
    """Schedules whose jobs wait in this order."""
    for name in names:
        scheduler.declare(name, CustomEvents(name), constraint, **fields)
        scheduler.send(name)
        scheduler.work()
        scheduler.clock.move(seconds=1)


def work(scheduler: Any, *, limit: int) -> None:
    scheduler.subscriber.step()
    scheduler.checker.step(limit=limit)
    scheduler.launcher.step()


@pytest.fixture
def held(scheduler: Any) -> Any:
    """A scheduler whose group has one run, of somebody else's."""
    scheduler.declare("holder", CustomEvents("hold"), ONE)
    scheduler.send("hold")
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started] == ["holder"]
    return scheduler


MANY = 2_100
"""More than are evaluated on one answer of Airflow's."""


def test_many_that_wait_for_one_place_keep_no_other_from_starting_in_the_same_round(held: Any) -> None:
    """Neither one that has nothing to wait for nor one that has a place of its own, though both have become due last."""
    fill_line(held, MANY, waits_for=None)
    held.clock.move(minutes=1)
    held.declare("nothing_to_wait_for", CustomEvents("now"), dag_id="free")
    held.declare("place_of_its_own", CustomEvents("now"), MaxConcurrent(1), dag_id="another")
    held.send("now")
    held.subscriber.step()
    reports: list[RoundReport] = []
    sent = sent_by(held.store, lambda: reports.extend(held.checker.parts()))
    assert sum(report.evaluated for report in reports) == MANY + 2
    assert len(sent) / MANY * 1_000 <= 60, "the statements for each thousand that wait"
    held.launcher.step()
    assert {launch.schedule for launch in held.started} == {"holder", "nothing_to_wait_for", "place_of_its_own"}
    assert len(reports[0].reserved) == 1, "what takes no place comes first"
    (waits,) = held.pending(f"w{MANY - 1:04}")
    assert [reason.text for reason in waits.reasons if not reason.met] == ["1 of at most 1 runs of group busy are active"]


def test_who_is_far_back_in_the_line_is_looked_at_seldom(held: Any) -> None:
    fill_line(held, 40)
    now = held.clock()
    held.clock.move(seconds=1)
    assert held.work().evaluated == 40
    held.clock.move(seconds=30)
    assert due(held) == [f"w{place:04}" for place in range(10)]
    held.clock.now = now + timedelta(seconds=1) + wait_queue.FALLBACK_CHECK_INTERVAL
    assert len(due(held)) == 40, "and not never, should nobody wake it"


def test_the_end_of_a_run_wakes_as_many_as_there_are_places(scheduler: Any) -> None:
    three = MaxConcurrent(3, group="busy")
    for number in range(3):
        scheduler.declare(f"holder{number}", CustomEvents("hold"), three)
    scheduler.send("hold")
    scheduler.work()
    line_up(scheduler, *(f"next{number}" for number in range(6)), constraint=three)
    assert due(scheduler) == []

    scheduler.end_run(0)
    assert due(scheduler) == ["next0"]
    scheduler.end_run(1)
    assert due(scheduler) == ["next0", "next1"]
    scheduler.runs.wake("maintain")
    assert due(scheduler) == ["next0", "next1"], "to be told once more wakes nobody else"
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started[3:]] == ["next0", "next1"]
    assert due(scheduler) == ["next2"], "the first of the line, in any case"


@pytest.mark.parametrize("by", ["age", "priority"])
def test_nobody_takes_the_place_of_one_that_came_before_it(held: Any, by: str) -> None:
    """The newer one is due for longer: the other became due when the place became free."""
    line_up(held, "older", priority=int(by == "priority"))
    held.declare("newer", CustomEvents("newer"), ONE)
    held.send("newer")
    held.subscriber.step()
    held.clock.move(milliseconds=100)
    held.end_run()
    held.checker.step(limit=1)
    (newer,) = held.pending("newer")
    if by == "age":  # the more urgent is looked at first
        assert [reason.what for reason in newer.reasons if not reason.met] == ["queue"]
    for _ in range(3):
        held.go_on(seconds=2)
    assert [launch.schedule for launch in held.started] == ["holder", "older"]
    held.end_run()
    held.work()
    assert [launch.schedule for launch in held.started] == ["holder", "older", "newer"]


@pytest.mark.one_database
def test_one_that_stood_back_goes_with_the_one_before_it_where_there_is_room_for_both(scheduler: Any) -> None:
    two = MaxConcurrent(2, group="busy")
    for name in ("holder0", "holder1"):
        scheduler.declare(name, CustomEvents("hold"), two)
    scheduler.send("hold")
    scheduler.work()
    line_up(scheduler, "older", constraint=two)
    scheduler.declare("newer", CustomEvents("newer"), two)
    scheduler.send("newer")
    scheduler.subscriber.step()
    scheduler.clock.move(milliseconds=100)
    scheduler.end_run(0)
    scheduler.end_run(1)
    for _ in range(3):
        scheduler.work()
    assert [launch.schedule for launch in scheduler.started[2:]] == ["older", "newer"], "and no time has passed"


@pytest.mark.one_database
def test_those_who_allow_for_fewer_runs_keep_no_place_from_others(scheduler: Any) -> None:
    for number in range(3):
        scheduler.declare(f"holder{number}", CustomEvents("hold"), MaxConcurrent(3, group="busy"))
    scheduler.send("hold")
    scheduler.work()
    line_up(scheduler, *(f"alone{number}" for number in range(12)))
    line_up(scheduler, "third", constraint=MaxConcurrent(3, group="busy"))
    scheduler.end_run()
    assert due(scheduler) == ["alone0", "third"]
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started[3:]] == ["third"]


def test_who_leaves_the_line_wakes_the_next_though_nobody_tells_that_there_is_room(scheduler: Any) -> None:
    scheduler.airflow.pools["spark"] = 0
    line_up(scheduler, *(f"p{number:02}" for number in range(12)), constraint=PoolSlots("spark"))
    scheduler.airflow.pools["spark"] = 11
    scheduler.clock.move(seconds=30)
    for _ in range(3):
        scheduler.work()
    assert [launch.schedule for launch in scheduler.started] == [f"p{number:02}" for number in range(11)]


@pytest.mark.one_database
def test_one_that_comes_to_wait_for_something_else_wakes_the_next(held: Any) -> None:
    held.clock.move(seconds=50)
    held.declare("window", CustomEvents("both"), ONE, TimeWindow("12:00", "12:01"))
    held.send("both")
    held.work()
    held.clock.move(seconds=1)
    line_up(held, "next")
    held.clock.move(seconds=10)  # the window is over
    held.end_run()
    assert due(held) == ["window"]
    held.work()
    assert [launch.schedule for launch in held.started] == ["holder"]
    held.work()
    assert [launch.schedule for launch in held.started] == ["holder", "next"]


@pytest.mark.one_database
def test_a_discarded_one_wakes_the_next(held: Any) -> None:
    held.airflow.pools["spark"] = 0
    held.declare("first", CustomEvents("first"), ONE, PoolSlots("spark"), timeout="10s")
    held.send("first")
    held.work()
    line_up(held, "next")
    held.airflow.running.clear()
    over = sa.update(schedule_runs).values(ended_at=schedule_runs.c.reserved_at)
    held.store.transact(lambda conn: conn.execute(over))  # nobody has told that the place is free
    held.go_on(seconds=9)
    assert held.history("first")[-1] == "timed_out"
    assert due(held) == ["next"]
    held.work()
    assert [launch.schedule for launch in held.started] == ["holder", "next"]


@pytest.mark.one_database
def test_a_run_of_the_dag_itself_is_waited_for_in_a_line_too(scheduler: Any) -> None:
    scheduler.airflow.running["maintain"] = {"manual__1"}
    line_up(scheduler, "first", "second", constraint=SinceLastRun("1m"))
    scheduler.airflow.running.clear()
    scheduler.runs.ended("maintain", "manual__1", "failed", scheduler.clock())
    assert due(scheduler) == ["first"]
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started] == ["first"]
