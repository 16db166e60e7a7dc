"""Calls that may hang: none delays another, and one that hangs is set aside with a back-off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import Any

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.timed_calls import FIRST_PAUSE, NoAnswer, TimedCalls, call_with_timeout

LIMIT = timedelta(days=100)
"""By the clock of the tests, which does not follow the time: a busy machine never exceeds it."""


@dataclass
class Clock:
    """Moves a second each time that it is read, so that a call that hangs is slow soon, and exceeds no limit by itself."""

    now: float = 0.0
    step: float = 1.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now

    def move(self, by: timedelta) -> None:
        self.now += by.total_seconds()


@dataclass
class Hanging:
    """Hangs until it is released."""

    released: Event = field(default_factory=Event)
    calls: int = 0

    def __call__(self) -> str:
        self.calls += 1
        assert self.released.wait(PATIENCE_S)
        return "late"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stuck() -> Iterator[list[Hanging]]:
    every = [Hanging() for _ in range(7)]
    yield every
    for each in every:
        each.released.set()


def make(clock: Clock, **more: Any) -> TimedCalls[str, str]:
    return TimedCalls(limit=LIMIT, concurrent=2, monotonic=clock, **more)


def receive(calls: TimedCalls[str, str], clock: Clock, wanted: dict[str, Callable[[], str]]) -> dict[str, Any]:
    """Run them and another one, and let the limit pass once every call that does not hang was received."""
    wanted = {"another": lambda: "well", **wanted}
    healthy = {name for name, call in wanted.items() if not isinstance(call, Hanging)}
    found: dict[str, Any] = {}
    for name, result in calls.run(wanted):
        found[name] = result
        if healthy <= found.keys() and len(found) == len(healthy):
            clock.move(LIMIT)
    return found


@pytest.mark.parametrize("number", [1, 2, 7])
def test_calls_that_hang_delay_no_other_however_many_they_are(clock: Clock, stuck: list[Hanging], number: int) -> None:
    wanted: dict[str, Callable[[], str]] = {f"stuck{each}": stuck[each] for each in range(number)}
    wanted |= {f"well{each}": lambda: "well" for each in range(5)}
    found = receive(make(clock), clock, wanted)
    assert found.keys() == {"another", *wanted}
    assert {name for name, result in found.items() if result == "well"} == {
        "another",
        *(f"well{each}" for each in range(5)),
    }
    assert {type(result) for name, result in found.items() if name.startswith("stuck")} == {NoAnswer}


def test_a_call_that_hung_is_set_aside_and_repeated_after_a_pause_that_doubles(clock: Clock, stuck: list[Hanging]) -> None:
    calls, (hanging, *_) = make(clock), stuck
    wanted: dict[str, Callable[[], str]] = {"stuck": hanging, "well": lambda: "well"}
    texts = [str(receive(calls, clock, wanted)["stuck"])]
    assert hanging.calls == 1
    for _ in range(3):
        clock.move(timedelta(hours=2))
        found = dict(calls.run(wanted))  # it does not wait for the repetition
        assert found["well"] == "well"
        texts.append(str(found["stuck"]))
        assert str(dict(calls.run(wanted))["stuck"]) == texts[-1], "within the pause it is not repeated"
    assert [text.partition("after ")[2] for text in texts] == ["1 min.", "2 min.", "4 min.", "8 min."]


@pytest.mark.parametrize("keeps_late", [True, False])
def test_a_call_that_returns_after_its_limit_ends_the_pause(clock: Clock, stuck: list[Hanging], keeps_late: bool) -> None:
    calls, (hanging, *_) = make(clock, keeps_late=keeps_late), stuck
    assert isinstance(receive(calls, clock, {"stuck": hanging})["stuck"], NoAnswer)
    clock.step = 0.0  # the pause is not over before the call has returned
    hanging.released.set()
    found: Any = NoAnswer("", LIMIT)
    while isinstance(found, NoAnswer):
        found = dict(calls.run({"stuck": lambda: "again"}))["stuck"]
    assert found == ("late" if keeps_late else "again")


def test_who_has_little_patience_receives_the_result_with_a_later_request(clock: Clock, stuck: list[Hanging]) -> None:
    calls, (hanging, *_) = make(clock), stuck
    patience = timedelta(0)
    assert dict(calls.run({"slow": hanging}, patience=patience)) == {}
    hanging.released.set()
    found: dict[str, Any] = {}
    while not found:
        found = dict(calls.run({"slow": hanging}, patience=patience))
    assert found == {"slow": "late"}
    assert hanging.calls <= 1


def test_a_call_that_has_not_begun_when_the_patience_ends_is_not_made(clock: Clock, stuck: list[Hanging]) -> None:
    calls, made = TimedCalls[str, str](limit=LIMIT, concurrent=1, monotonic=lambda: 0.0), Hanging()
    next(iter(calls.run({"stuck": stuck[0], "behind": made}, patience=timedelta(0))), None)
    stuck[0].released.set()
    assert made.calls == 0
    assert dict(calls.run({"behind": lambda: "now"})) == {"behind": "now"}


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit("leaves"), KeyboardInterrupt()])
def test_what_a_call_raises_is_its_result_alone(clock: Clock, error: BaseException) -> None:
    def fail() -> str:
        raise error

    found = dict(make(clock).run({"bad": fail, "well": lambda: "well"}))
    assert found["well"] == "well"
    assert isinstance(found["bad"], Exception)


def test_a_single_call_returns_raises_or_names_what_did_not_answer(stuck: list[Hanging]) -> None:
    assert call_with_timeout(lambda: 1, "The catalog", FIRST_PAUSE) == 1
    with pytest.raises(NoAnswer, match=r"^The catalog did not answer within 0 s. Check the address and the network.$"):
        call_with_timeout(stuck[0], "The catalog", timedelta(0))
    with pytest.raises(ZeroDivisionError):
        call_with_timeout(lambda: 1 / 0, "The catalog", FIRST_PAUSE)
