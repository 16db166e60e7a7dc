"""Several schedulers at once, on both databases: nothing is lost, nothing happens twice, and nobody waits in a circle."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from crew import Crew, crew_of
from effort import rounds, seed
from scripted_engine import eventually

from airflow_snowpack.scheduling import (
    CustomEvents,
    Event,
    EventLog,
    Every,
    MaxConcurrent,
    PoolSlots,
    Runs,
    Schedule,
    Schedules,
    SinceLastRun,
)
from airflow_snowpack.scheduling.airflow_port import Launch
from airflow_snowpack.scheduling.events.clocks import Clocks
from airflow_snowpack.scheduling.events.event_intake import Subscriber
from airflow_snowpack.scheduling.events.event_log import publish
from airflow_snowpack.scheduling.launches.launcher import Launcher
from airflow_snowpack.scheduling.pending_runs.checker import Checker
from airflow_snowpack.scheduling.triggers.trigger import custom_key
from airflow_snowpack.store import Store, utc_now
from airflow_snowpack.store.tables.schedules import pending_events, pending_jobs, schedule_history

pytestmark = pytest.mark.both_in_soak

BATCHES = rounds(50, soak=2_000)
"""How many batches of events the publishers send at least."""
CHANGES = rounds(10, soak=500)
TURNS = rounds(8, soak=400)


def hire_schedulers(crew: Crew, airflow: Any, number: int = 2) -> None:
    for each in range(number):
        store = crew.store()
        launcher = Launcher(store, airflow, f"crew-{each}")
        for step in (Clocks(store).step, Subscriber(store).step, Checker(store, airflow).step, launcher.step):
            crew.hire(step)


def rows(store: Store, query: Any) -> list[Any]:
    return list(store.read(lambda conn: conn.execute(query).all()))


@pytest.fixture
def now(clock: Any) -> None:
    clock.now = utc_now()


@pytest.mark.usefixtures("now")
def test_many_schedulers_count_every_event_once_and_start_every_run_once(store_url: str, scheduler: Any) -> None:
    """Everything that takes locks at once: publishers, run ends, ticks, changes of other schedules, and three schedulers."""
    for name in ("a", "b"):
        scheduler.declare(name, CustomEvents("go") | Every("1s"), MaxConcurrent(1, group="g"), dag_id=f"dag_{name}")
        scheduler.declare(f"{name}_free", CustomEvents("go"), dag_id=f"dag_{name}")
    with crew_of(store_url) as crew:
        hire_schedulers(crew, scheduler.airflow, 3)
        log, runs = EventLog(crew.store()), Runs(crew.store())
        busy = Schedules(crew.store(), catalog="lake")

        sent: list[int] = []

        def send() -> None:
            sent.append(log.publish([Event(custom_key("go"), utc_now()) for _ in range(3)]))

        def end_all() -> None:
            for launch in list(scheduler.started):
                if launch.run_id in scheduler.airflow.running[launch.dag_id]:
                    scheduler.airflow.running[launch.dag_id].discard(launch.run_id)
                    runs.ended(launch.dag_id, launch.run_id, "success", utc_now())

        def change() -> None:
            other = Schedule("other", dag_id="dag_a", trigger=CustomEvents("go") | Every("1s"), enabled=True)
            busy.create(other)
            busy.update(replace(other, priority=1))
            busy.update(replace(other, dag_id="dag_b"), discard=True)
            busy.suspend("other")
            busy.resume("other")
            busy.delete("other")

        for step in (send, send, end_all, change):
            crew.hire(step, pause=0.01)
        eventually(lambda: len(sent) >= BATCHES and len(scheduler.started) >= BATCHES // 6, PATIENCE_S)
        crew.dismiss()
    told = Counter[tuple[str, int]]()
    scheduler.clock.now = utc_now()
    for _ in range(8):  # what was left in the middle, and waits half a minute for a run that has ended since, or for a lease
        for number, launch in enumerate(scheduler.started):
            if launch.run_id in scheduler.airflow.running[launch.dag_id]:
                scheduler.end_run(number)
        scheduler.go_on(seconds=31)
    for launch in scheduler.started:
        events = rows(scheduler.store, sa.select(pending_events).where(pending_events.c.pending_id == launch.pending_id))
        told.update((launch.schedule, event.event_id) for event in events if event.leaf == 0)
    assert set(told.values()) == {1}
    heard = Counter(schedule for schedule, _ in told)
    del heard["other"]
    published = sum(one.event.key == custom_key("go") for one in log_of(scheduler))
    assert published == sum(sent)
    assert heard == dict.fromkeys(("a", "a_free", "b", "b_free"), published)
    assert len({launch.run_id for launch in scheduler.started}) == len(scheduler.started)


@pytest.mark.parametrize("constraint", [MaxConcurrent(1), MaxConcurrent(1, group="one_at_a_time"), SinceLastRun("5m")])
def test_two_schedules_of_one_dag_checked_at_the_same_moment_are_one_run(
    store_url: str, scheduler: Any, clock: Any, constraint: Any
) -> None:
    for name in ("a", "b"):
        scheduler.declare(name, CustomEvents("go"), constraint)
    with crew_of(store_url, clock) as crew:
        checkers = [Checker(crew.store(), scheduler.airflow) for _ in range(3)]
        for turn in range(TURNS):
            clock.move(minutes=10)
            scheduler.send("go")
            scheduler.subscriber.step()
            reports = crew.together(*(checker.step for checker in checkers))
            assert sum(len(report.reserved) for report in reports) == 1
            scheduler.launcher.step()
            assert len(scheduler.started) == turn + 1
            scheduler.end_run()


def test_no_event_is_passed_over_when_a_slow_transaction_took_its_numbers_first(store_url: str, scheduler: Any) -> None:
    scheduler.declare("both", CustomEvents("go", 2))
    key, moment = custom_key("go"), scheduler.clock()
    with crew_of(store_url, scheduler.clock) as crew:
        slow, fast, reader = crew.store(), EventLog(crew.store()), crew.store()
        numbered, commit = threading.Event(), threading.Event()

        def publish_slowly() -> None:
            def write(conn: sa.Connection) -> None:
                publish(conn, slow, [Event(key, moment, source_id="slow")])
                numbered.set()
                assert commit.wait(PATIENCE_S)

            slow.transact(write)

        def publish_fast() -> None:
            numbered.wait(PATIENCE_S)
            fast.publish([Event(key, moment, source_id="fast")])

        def read() -> None:
            numbered.wait(PATIENCE_S)
            if reader.is_postgres:  # on SQLite the subscriber would wait for the writer
                Subscriber(reader).step()
            commit.set()
            eventually(lambda: len(fast.latest()) == 2, PATIENCE_S)

        crew.together(publish_slowly, publish_fast, read)
        scheduler.work()
    assert [event.event.source_id for event in fast.latest()] == ["fast", "slow"]
    assert len(scheduler.started) == 1


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("change", ["update", "suspend_and_resume", "delete_and_create"])
def test_a_change_in_the_middle_loses_no_later_event_and_launches_nothing_stale(
    store_url: str, scheduler: Any, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    chance, version, stale = random.Random(seed(7)), [0], []
    sent: list[int] = []

    def declared(number: int) -> Schedule:
        again = [MaxConcurrent(1_000_000 + number)]  # each is a change of when it runs
        conf = {"version": number}
        return Schedule("one", dag_id="maintain", trigger=CustomEvents("go"), constraints=again, conf=conf, enabled=True)

    start = scheduler.airflow.start

    def start_and_look(launch: Launch) -> Any:
        if launch.conf["version"] < version[0]:
            stale.append(launch.pending_id)
        return start(launch)

    monkeypatch.setattr(scheduler.airflow, "start", start_and_look)
    scheduler.schedules.create(declared(0))
    with crew_of(store_url) as crew:
        hire_schedulers(crew, scheduler.airflow)
        log, changes = EventLog(crew.store()), Schedules(crew.store(), catalog="lake")

        def send() -> None:
            sent.append(log.publish([Event(custom_key("go"), utc_now(), detail={"version": version[0]})]))

        def wait_until_sent(number: int) -> None:
            eventually(lambda: len(sent) >= number, PATIENCE_S)

        crew.hire(send, pause=0.002)
        for number in range(1, CHANGES + 1):
            wait_until_sent(len(sent) + chance.randint(0, 10))
            if change == "suspend_and_resume":
                changes.suspend("one")
                changes.update(declared(number), discard=True)
                changes.resume("one")
            elif change == "delete_and_create":
                changes.delete("one")
                changes.create(declared(number))
            else:
                changes.update(declared(number), discard=True)
            version[0] = number
        eventually(lambda: any(one.event.detail["version"] == version[0] for one in log_of(scheduler)), PATIENCE_S)
        crew.dismiss()
    scheduler.clock.now = utc_now()
    scheduler.work()
    for _ in range(2):  # a launch that was claimed when its thread was dismissed
        scheduler.go_on(minutes=3)

    runs = [(launch.conf["version"], event) for launch in scheduler.started for event in launch.conf["snowpack"]["events"]]
    assert all(event["detail"]["version"] >= of - 1 for of, event in runs), "what was sent before a change never counts after it"
    assert set(Counter(event["id"] for _, event in runs).values()) == {1}
    last = [one.id for one in log_of(scheduler) if one.event.detail["version"] == version[0]]
    counted = {event["id"] for of, event in runs if of == version[0]}
    assert set(last) <= counted, "what was sent after the last change is all there"

    entries = rows(scheduler.store, sa.select(schedule_history.c.pending_id, schedule_history.c.what))
    overtaken = {entry.pending_id for entry in entries if entry.what == "launched_while_changed"}
    assert set(stale) <= overtaken, "only what was being started when the change came, and that is on record"
    left = rows(scheduler.store, sa.select(pending_jobs.c.state).where(pending_jobs.c.state.like("pending%")))
    assert left == []


def log_of(scheduler: Any) -> list[Any]:
    found: list[Any] = scheduler.log.latest(limit=100_000)
    return found


def test_several_checkers_at_once_give_away_no_slot_twice(store_url: str, scheduler: Any) -> None:
    scheduler.airflow.pools["spark"] = 3
    for each in range(12):
        scheduler.declare(f"s{each}", CustomEvents("go"), PoolSlots("spark"), dag_id=f"dag_{each}")
    scheduler.send("go")
    scheduler.subscriber.step()
    with crew_of(store_url, scheduler.clock) as crew:
        checkers = [Checker(crew.store(), scheduler.airflow) for _ in range(4)]
        reports = crew.together(*(checker.step for checker in checkers))
    assert sum(len(report.reserved) for report in reports) == 3
