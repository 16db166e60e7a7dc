"""Any sequence of events, changes and time does what a model of a few lines says: events → pending jobs → launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from effort import rounds
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_snowpack.scheduling import Cron, CustomEvents, Delay, PoolSlots, Schedule, Timeout, TimeWindow, run_now
from airflow_snowpack.scheduling.airflow_port import NotStarted

pytestmark = pytest.mark.both_in_soak

WANTED, DELAY, TIMEOUT = 3, timedelta(minutes=10), timedelta(minutes=30)
SLOTS = 100_000
"""More than all runs of a walk take."""
WALKS, SHORTEST = rounds(8, soak=420), 25
steps = st.lists(
    st.sampled_from(
        ["wait", "send", "send", "send", "work", "work", "suspend", "resume", "update", "pause", "unpause", "fill", "drain"]
    ),
    min_size=SHORTEST,
    max_size=40,
)


@dataclass
class Model:
    """One schedule that wants three events, then waits ten minutes, and for a pool, for half an hour at most."""

    backlog: str
    minutes: int = 0
    enabled: bool = True
    paused: bool = False
    full: bool = False
    unread: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    triggered: int | None = None
    launching: list[int] = field(default_factory=list)
    launched: list[int] = field(default_factory=list)

    def send(self) -> None:
        self.unread += [self.minutes] if self.enabled else []

    def change(self, *, enabled: bool) -> None:
        self.unread, self.waiting = [], []
        self.triggered, self.enabled, self.launching = None, enabled, []

    def work(self) -> None:
        if self.backlog == "one" and self.launching and not self.waiting:
            self.launching[-1] += len(self.unread)  # a launch that waits takes further events
        else:
            self.waiting = self.waiting + self.unread
        self.unread = []
        if self.triggered is None and len(self.waiting) >= WANTED:
            self.triggered = self.waiting[WANTED - 1]  # when the event came that completed it, not when somebody looked
        if self.triggered is not None and self.minutes >= self.triggered + 10 and not self.full:
            self.launching.append(len(self.waiting))
            self.waiting, self.triggered = [], None
        elif self.triggered is not None and self.minutes >= self.triggered + 30:
            late = [minutes for minutes in self.waiting if minutes >= self.triggered + 30]
            self.waiting, self.triggered = late, None  # what arrived after the expiry belongs to the next run
        if not self.paused:
            self.launched, self.launching = self.launched + self.launching, []


@pytest.mark.parametrize("backlog", ["one", "all"])
def test_the_scheduler_does_what_the_model_says(
    scheduler: Any, backlog: str, record_property: Callable[[str, object], None]
) -> None:
    taken: list[str] = []

    @settings(max_examples=WALKS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(sequence=steps)
    def try_one(sequence: list[str]) -> None:
        walk(scheduler, sequence, backlog)
        taken.extend(sequence)

    try_one()
    record_property("steps", len(taken))
    assert len(taken) >= WALKS * SHORTEST


def walk(scheduler: Any, sequence: list[str], backlog: str) -> None:
    """Take the steps with a new schedule, and compare what was launched with the model after each."""
    declared = Schedule(
        "one",
        dag_id="maintain",
        trigger=CustomEvents("go", WANTED),
        constraints=[Delay(DELAY), PoolSlots("spark")],
        timeout=Timeout(TIMEOUT),
        enabled=True,
        backlog=backlog,
    )
    scheduler.airflow.started.clear()
    scheduler.airflow.refusal = None
    scheduler.schedules.create(declared)
    scheduler.airflow.pools["spark"] = SLOTS
    model = Model(backlog)
    try:
        for step in sequence:
            take(scheduler, model, step)
            counts = [launch.conf["snowpack"]["event_count"] for launch in scheduler.started]
            assert sorted(counts) == sorted(model.launched)
            assert len({launch.run_id for launch in scheduler.started}) == len(counts)
    finally:
        scheduler.schedules.delete("one")


def take(scheduler: Any, model: Model, step: str) -> None:
    match step:
        case "send":
            scheduler.send("go")
            model.send()
        case "work":
            scheduler.work()
            model.work()
        case "wait":
            scheduler.clock.move(minutes=5)
            model.minutes += 5
        case "suspend" if model.enabled:
            scheduler.schedules.suspend("one")
            model.change(enabled=False)
        case "resume" if not model.enabled:
            scheduler.schedules.resume("one")
            model.change(enabled=True)
        case "update":
            scheduler.change("one")
            model.change(enabled=model.enabled)
        case "pause" | "unpause":
            model.paused = step == "pause"
            scheduler.airflow.refusal = NotStarted("the DAG is paused") if model.paused else None
            scheduler.clock.move(minutes=5)  # longer than the pause after a launch that did not work
            model.minutes += 5
        case "fill" | "drain":
            model.full = step == "fill"
            scheduler.airflow.pools["spark"] = 0 if model.full else SLOTS
            scheduler.clock.move(minutes=5)  # longer than the pause after a look at a full pool
            model.minutes += 5


DEADLINE_STEPS = ["wait", "wait", "sleep", "a", "b", "c", "work", "work", "work", "update", "ask"]


@dataclass
class DeadlineModel:
    """One schedule that wants two inputs, each full hour at the latest, or three of another; each afternoon it skips."""

    minutes: int = 0
    deadline: int = 60
    inputs: dict[str, int] = field(default_factory=lambda: {"a": 0, "b": 0, "c": 0, "tick": 0})
    launched: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.minutes % 1440 < 720

    def after(self, minutes: int) -> int:
        return minutes - minutes % 60 + 60

    def update(self) -> None:
        self.inputs = dict.fromkeys(self.inputs, 0)
        self.deadline = self.after(self.minutes)

    def ask(self) -> None:
        self.launched.append((0, ()))
        self.deadline = self.after(max(self.deadline, self.minutes))

    def work(self) -> None:
        have = self.inputs
        if self.minutes >= self.deadline:
            have["tick"] += 1
            self.deadline = self.after(self.minutes)
        both, enough = have["a"] > 0 and have["b"] > 0, have["c"] >= WANTED
        if not (both or enough or have["tick"]):
            return
        if self.is_open:
            late = have["tick"] > 0 and not both
            self.launched.append((sum(have.values()), tuple(name for name in "ab" if late and not have[name])))
            self.deadline = self.deadline if have["tick"] else self.after(max(self.deadline, self.minutes))
            self.inputs = dict.fromkeys(have, 0)
        else:
            spent = {"a": both, "b": both, "c": enough, "tick": True}
            self.inputs = {name: 0 if spent[name] else number for name, number in have.items()}


def test_deadlines_and_skips_do_what_the_model_says(scheduler: Any, record_property: Callable[[str, object], None]) -> None:
    taken: list[str] = []

    @settings(max_examples=WALKS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(sequence=st.lists(st.sampled_from(DEADLINE_STEPS), min_size=SHORTEST, max_size=60))
    def try_one(sequence: list[str]) -> None:
        walk_deadlines(scheduler, sequence)
        taken.extend(sequence)

    try_one()
    record_property("steps", len(taken))
    assert len(taken) >= WALKS * SHORTEST


def walk_deadlines(scheduler: Any, sequence: list[str]) -> None:
    """Take the steps with a new schedule that begins at midnight, and compare the launches with the model after each."""
    scheduler.clock.now = (scheduler.clock.now + timedelta(days=1)).replace(hour=0, minute=0)
    trigger = (CustomEvents("a") & CustomEvents("b")).at_latest(Cron("0 * * * *")) | CustomEvents("c", WANTED)
    mornings = [TimeWindow("00:00", "12:00", on_unmet="skip")]
    declared = Schedule("one", dag_id="maintain", trigger=trigger, constraints=mornings, enabled=True)
    scheduler.airflow.started.clear()
    scheduler.schedules.create(declared)
    model = DeadlineModel()
    try:
        for step in sequence:
            match step:
                case "wait" | "sleep":
                    minutes = 20 if step == "wait" else 400
                    scheduler.clock.move(minutes=minutes)
                    model.minutes += minutes
                case "work":
                    scheduler.work()
                    model.work()
                case "update":
                    scheduler.change("one")
                    model.update()
                case "ask":
                    run_now(scheduler.schedules, "one")
                    scheduler.launcher.step()
                    model.ask()
                case name:
                    scheduler.send(name)
                    model.inputs[name] += 1
            assert [told(launch) for launch in scheduler.started] == model.launched
    finally:
        scheduler.schedules.delete("one")


def told(launch: Any) -> tuple[int, tuple[str, ...]]:
    said = launch.conf["snowpack"]
    return said["event_count"], tuple(one["trigger"]["custom_events"]["name"] for one in said["missing"])
