"""A DAG that cannot be started, such as a paused one, gets one run for all that happens meanwhile, or one for each request."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from crew import crew_of
from effort import rounds
from scripted_engine import eventually

from airflow_snowpack.scheduling import (
    Cron,
    CustomEvents,
    Delay,
    DiscardsEvents,
    Event,
    EventLog,
    MaxConcurrent,
    Timeout,
    Waiting,
    run_now,
)
from airflow_snowpack.scheduling.airflow_port import NotStarted
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import utc_now
from airflow_snowpack.store.tables.schedules import launches, pending_events, schedule_runs

GO = CustomEvents("go")
PAUSED = NotStarted("the DAG maintain is paused")
RUNS = rounds(15, soak=500)
COMMITS = rounds(20, soak=60)


def counts(scheduler: Any) -> list[int]:
    return sorted(launch.conf["snowpack"]["event_count"] for launch in scheduler.started)


def pause(scheduler: Any) -> None:
    scheduler.airflow.refusal = PAUSED


def unpause(scheduler: Any) -> None:
    scheduler.airflow.refusal = None
    scheduler.go_on(minutes=6)
    scheduler.go_on(minutes=6)


def commits_each_minute(scheduler: Any) -> None:
    for _ in range(COMMITS):
        scheduler.send("go")
        scheduler.go_on(minutes=1)


def test_commits_to_a_paused_dag_are_one_run_that_lists_all_their_events(scheduler: Any) -> None:
    scheduler.declare("feed", GO)
    pause(scheduler)
    commits_each_minute(scheduler)
    unpause(scheduler)
    assert counts(scheduler) == [COMMITS]
    assert len(scheduler.started[0].conf["snowpack"]["events"]) == COMMITS


def test_a_paused_dag_with_one_run_at_a_time_loses_nothing_in_days(scheduler: Any) -> None:
    """The run that waits counts as active; a second one would wait for it until its timeout."""
    scheduler.declare("feed", GO, MaxConcurrent(1))
    pause(scheduler)
    for _ in range(8):
        scheduler.send("go")
        scheduler.go_on(hours=12)
    unpause(scheduler)
    assert counts(scheduler) == [8]


@pytest.mark.parametrize("reserved", [False, True])
def test_an_event_that_arrives_during_a_start_that_is_refused_joins_the_launch(scheduler: Any, reserved: bool) -> None:
    scheduler.declare("feed", GO)
    start = scheduler.airflow.start

    def refuse(_: Any) -> NotStarted:
        scheduler.send("go")
        scheduler.subscriber.step()
        if reserved:
            scheduler.checker.step()
        return PAUSED

    scheduler.airflow.start = refuse
    scheduler.send("go")
    scheduler.subscriber.step()
    scheduler.checker.step()
    scheduler.launcher.step(limit=1)
    first, second = scheduler.pending("feed")
    assert (first.state, second.state) == (PendingState.LAUNCH, PendingState.DISCARDED)
    assert second.ended_because == f"its events were added to run {first.run_id}, which waits for its DAG"
    assert "absorbed" in scheduler.history("feed")

    scheduler.airflow.start = start
    unpause(scheduler)
    assert counts(scheduler) == [2]
    kept = scheduler.store.read(lambda conn: conn.execute(sa.select(schedule_runs.c.run_id)).scalars().all())
    assert kept == [first.run_id], "the withdrawn launch holds no place among the active runs"


def test_an_event_never_joins_a_run_that_may_exist(scheduler: Any) -> None:
    """The answer to the first start is lost; the run is there, with the conf that it was started with."""
    scheduler.declare("feed", GO)
    start = scheduler.airflow.start

    def lose_the_answer(launch: Any) -> NotStarted:
        start(launch)
        return NotStarted("no answer", may_exist=True)

    scheduler.airflow.start = lose_the_answer
    scheduler.send("go")
    scheduler.work()
    scheduler.airflow.start = start
    scheduler.send("go", 2)
    unpause(scheduler)
    assert counts(scheduler) == [1, 2]


def test_a_launch_stays_closed_when_a_refusal_follows_a_lost_answer(scheduler: Any) -> None:
    scheduler.declare("feed", GO)
    start = scheduler.airflow.start
    answers = [NotStarted("no answer", may_exist=True), PAUSED]

    def answer(launch: Any) -> Any:
        start(launch)
        return answers.pop(0) if answers else None

    scheduler.airflow.start = answer
    scheduler.send("go")
    scheduler.work()
    scheduler.go_on(minutes=1)
    assert answers == []
    scheduler.send("go")
    unpause(scheduler)
    assert counts(scheduler) == [1, 1]


def test_an_event_does_not_join_the_launch_of_a_process_that_died_while_it_started_the_run(scheduler: Any) -> None:
    scheduler.declare("feed", GO)

    def die() -> None:
        raise KeyboardInterrupt

    scheduler.launcher._record_started = die
    scheduler.send("go")
    with pytest.raises(KeyboardInterrupt):
        scheduler.work()
    scheduler.launcher = Launcher(scheduler.store, scheduler.airflow, "its successor")
    scheduler.send("go")
    scheduler.subscriber.step()
    unpause(scheduler)
    assert counts(scheduler) == [1, 1]


def test_a_run_that_somebody_asked_for_takes_no_events(scheduler: Any) -> None:
    scheduler.declare("feed", GO)
    pause(scheduler)
    run_now(scheduler.schedules, "feed")
    scheduler.work()
    scheduler.send("go")
    scheduler.work()
    unpause(scheduler)
    assert counts(scheduler) == [0, 1]


def test_an_input_that_arrives_after_its_deadline_while_the_dag_is_paused_is_not_missing(scheduler: Any) -> None:
    scheduler.declare("join", (GO & CustomEvents("other")).at_latest(Cron("30 12 * * *")))
    pause(scheduler)
    scheduler.send("go")
    scheduler.go_on(minutes=31)
    scheduler.send("other")
    unpause(scheduler)
    (launch,) = scheduler.started
    assert (launch.conf["snowpack"]["missing"], counts(scheduler)) == ([], [3])


RESTARTS: dict[str, dict[str, Any]] = {
    "trigger": {"trigger": CustomEvents("go", 1) | CustomEvents("other")},
    "constraints": {"constraints": [MaxConcurrent(7)]},
    "DAG": {"dag_id": "maintain_other"},
}
EDITS: dict[str, dict[str, Any]] = {
    "description": {"description": "Closes the day."},
    "priority": {"priority": 7},
    "backlog": {"backlog": "all"},
    "conf": {"conf": {"mode": "new"}},
    "timeout": {"timeout": Timeout("3d")},
    "missed": {"missed": "none"},
    "enabled": {"enabled": False},
}


@pytest.mark.parametrize("change", RESTARTS)
def test_a_change_of_when_a_schedule_runs_discards_events_only_when_it_is_confirmed(scheduler: Any, change: str) -> None:
    declared = scheduler.declare("feed", GO)
    pause(scheduler)
    scheduler.send("go", 60)
    scheduler.work()
    changed = replace(declared, **RESTARTS[change])
    with pytest.raises(DiscardsEvents, match="discards 1 pending run with 60 events"):
        scheduler.schedules.update(changed)
    assert scheduler.schedules.waiting("feed") == Waiting(1, 60)

    scheduler.schedules.update(changed, discard=True)
    scheduler.send("go")
    scheduler.work()
    unpause(scheduler)
    assert counts(scheduler) == [1]


@pytest.mark.parametrize("waits_for", ["its trigger", "its constraints", "its DAG"])
def test_every_other_change_keeps_what_waits_and_gives_it_the_new_values(scheduler: Any, waits_for: str) -> None:
    """Changed twice: as a whole, and each field by itself."""
    wanted = 61 if waits_for == "its trigger" else 60
    declared = scheduler.declare("feed", CustomEvents("go", wanted), Delay("10m"), conf={"mode": "old"})
    pause(scheduler)
    scheduler.send("go", 60)
    scheduler.work()
    if waits_for == "its DAG":
        scheduler.go_on(minutes=11)
    for fields in (*EDITS.values(), {name: value for edit in EDITS.values() for name, value in edit.items()}):
        scheduler.schedules.update(replace(declared, **fields))
        assert scheduler.schedules.waiting("feed") == Waiting(1, 60)
    assert [run.priority for run in scheduler.pending("feed") if run.state is not PendingState.LAUNCH] in ([], [7])

    scheduler.send("go", wanted - 60)
    scheduler.work()
    scheduler.go_on(minutes=11)
    unpause(scheduler)
    (launch,) = scheduler.started
    assert (launch.conf["mode"], counts(scheduler)) == ("new", [wanted])


def test_a_longer_timeout_holds_for_what_waits_already(scheduler: Any) -> None:
    declared = scheduler.declare("feed", GO, Delay("10m"), timeout=Timeout("1m"))
    scheduler.send("go")
    scheduler.work()
    scheduler.schedules.update(replace(declared, timeout=Timeout("1h")))
    scheduler.go_on(minutes=1)
    scheduler.go_on(minutes=10)
    assert counts(scheduler) == [1]


def test_a_schedule_that_gets_more_urgent_takes_the_next_place_of_those_that_wait(scheduler: Any) -> None:
    one_at_a_time = MaxConcurrent(1)
    first = scheduler.declare("first", GO, one_at_a_time)
    scheduler.send("go")
    scheduler.work()
    scheduler.declare("second", CustomEvents("next"), one_at_a_time)
    third = scheduler.declare("third", CustomEvents("next"), one_at_a_time)
    scheduler.send("next")
    scheduler.work()
    scheduler.schedules.update(replace(third, priority=5))
    scheduler.end_run()
    scheduler.work()
    assert [launch.schedule for launch in scheduler.started] == [first.name, third.name]


def test_launches_that_had_joined_events_keep_all_of_them_when_each_is_to_have_a_run_from_now_on(scheduler: Any) -> None:
    declared = scheduler.declare("feed", GO)
    pause(scheduler)
    for _ in range(3):
        scheduler.send("go")
        scheduler.work()
    scheduler.schedules.update(replace(declared, backlog="all"))
    for _ in range(2):
        scheduler.send("go")
        scheduler.work()
    unpause(scheduler)
    assert counts(scheduler) == [1, 1, 3]


def test_a_dag_that_is_paused_and_unpaused_at_any_moment_gets_every_event_in_one_run(store_url: str, scheduler: Any) -> None:
    """Every run lists the events that it has, and no event is in two runs or in none."""
    scheduler.clock.now = utc_now()
    scheduler.declare("feed", GO)
    with crew_of(store_url) as crew:
        for each in range(2):
            store = crew.store()
            launcher = Launcher(store, scheduler.airflow, f"crew-{each}")
            for step in (Subscriber(store).step, Checker(store, scheduler.airflow).step, launcher.step):
                crew.hire(step)
        log, ready = EventLog(crew.store()), crew.store()

        def flap() -> None:
            scheduler.airflow.refusal = None if scheduler.airflow.refusal else PAUSED
            now = sa.update(launches).where(launches.c.claimed_at.is_(None)).values(visible_at=utc_now())
            ready.transact(lambda conn: conn.execute(now))

        crew.hire(lambda: log.publish([Event(custom_key("go"), utc_now())]), pause=0.005)
        crew.hire(flap, pause=0.01)
        eventually(lambda: len(scheduler.started) >= RUNS, PATIENCE_S)
        crew.dismiss()
    scheduler.airflow.refusal = None
    for _ in range(4):
        scheduler.clock.now = max(utc_now(), scheduler.clock.now)
        scheduler.go_on(minutes=6)

    had = scheduler.store.read(lambda conn: conn.execute(sa.select(pending_events)).all())
    of_run = Counter(row.pending_id for row in had)
    assert {launch.pending_id: launch.conf["snowpack"]["event_count"] for launch in scheduler.started} == of_run
    assert len({row.event_id for row in had}) == len(had) == len(scheduler.log.latest(limit=1_000_000))
