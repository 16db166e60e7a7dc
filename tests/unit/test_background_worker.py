"""A background role survives its failures, logs them, and reports a sign of life when it has worked."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.store.worker import Worker

MOMENT = timedelta(milliseconds=1)


class Sign:
    """Counts the signs of life."""

    beats = 0

    def beat(self) -> None:
        self.beats += 1


def test_a_round_that_fails_is_logged_and_reports_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    problems, sign = [OSError("away"), None], Sign()

    def work() -> None:
        if (problem := problems.pop(0)) is not None:
            raise problem

    worker = Worker(work, name="polls", failure="not_polled: 100%", every=MOMENT, sign=sign)  # type: ignore[arg-type]  # as much as it needs
    with caplog.at_level("INFO"):
        worker.run_once()
        assert sign.beats == 0
        worker.run_once()
        assert sign.beats == 1
    assert [line.split(":")[0] for line in caplog.messages] == ["not_polled", "recovered after 1 failure in 0"]


def test_the_sign_of_a_process_is_reported_after_a_failure_too() -> None:
    sign = Sign()

    def fail() -> None:
        raise OSError("away")

    worker = Worker(fail, name="refreshes", failure="x", every=MOMENT, sign=sign, sign_of_process=True)  # type: ignore[arg-type]
    assert not worker.run_once()
    assert sign.beats == 1


def test_an_error_that_it_does_not_survive_ends_the_role() -> None:
    def fail() -> None:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        Worker(fail, name="runs", failure="x", every=MOMENT, survives=()).run(threading.Event())


def test_it_works_in_a_thread_until_its_block_ends() -> None:
    rounds: list[None] = []
    twice = threading.Event()

    def work() -> None:
        rounds.append(None)
        if len(rounds) == 2:
            twice.set()

    with Worker(work, name="works", failure="x", every=MOMENT):
        assert twice.wait(PATIENCE_S)
    ended = len(rounds)
    threading.Event().wait(5 * MOMENT.total_seconds())
    assert len(rounds) == ended


def test_it_does_not_pause_while_there_is_more_to_do() -> None:
    stop, left = threading.Event(), [True, True, False]

    def work() -> bool:
        more = left.pop(0)
        if not more:
            stop.set()
        return more

    Worker(work, name="drains", failure="x", every=timedelta(hours=1)).run(stop)
    assert left == []


def test_it_pauses_longer_after_a_failure_and_as_before_after_a_success() -> None:
    problems = [OSError("away"), None]

    def work() -> None:
        if (problem := problems.pop(0)) is not None:
            raise problem

    worker = Worker(work, name="asks", failure="x", every=MOMENT, retry_after=timedelta(seconds=5))
    pauses = []
    while problems:
        worker.run_once()
        pauses.append(worker.pause_s)
    assert pauses == [5, MOMENT.total_seconds()]
