"""A problem that recurs at every turn of a loop does not fill the log."""

from __future__ import annotations

import logging

import pytest

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store import StoreUnreachable

AWAY = StoreUnreachable("postgresql://db/snowpack", ConnectionError("connection refused"))


class Seconds:
    """A clock that the test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_of_a_minute_is_a_line_at_once_one_every_half_minute_and_one_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = Seconds()
    problem = Recurring(logging.getLogger("loop"), monotonic=seconds)
    with caplog.at_level(logging.INFO, "loop"):
        for _ in range(31):
            problem.failed(AWAY, "heartbeat_failed: job %s", "j1")
            seconds.now += 2
        problem.passed()
        problem.passed()

    first, half, whole, end = caplog.messages
    assert first.startswith("heartbeat_failed: job j1: StoreUnreachable: The Snowpack store at postgresql://db/snowpack")
    assert half.endswith("(14 more failures since the last line)")
    assert whole.endswith("(14 more failures since the last line)")
    assert end == "recovered after 31 failures in 0:01:02: heartbeat_failed: job j1"
    assert all("\n" not in message for message in caplog.messages)
    assert not any(record.exc_info for record in caplog.records)


def test_an_unexpected_error_keeps_its_stack_trace_and_the_next_outage_is_reported_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problem = Recurring(logging.getLogger("loop"), monotonic=Seconds())
    with caplog.at_level(logging.INFO, "loop"):
        problem.failed(RuntimeError("broken"), "step_failed")
        problem.passed()
        problem.failed(AWAY, "step_failed")

    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]
