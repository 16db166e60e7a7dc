"""A lease is kept alive, is lost at once when the fence has moved, and outlasts a store that is away for as long as it may."""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.store.errors import StoreFileReplaced
from airflow_snowpack.store.keep_alive import KeepAlive, Loss

LEASE = timedelta(seconds=60)


class Hand:
    """A stopwatch that a test moves, and a store that answers as it is set."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answer: bool | Exception = True

    def beat(self) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def keep_alive(self, lost_after: timedelta | None = LEASE) -> KeepAlive:
        return KeepAlive(self.beat, every=LEASE, lost_after=lost_after, what="the run r1", clock=lambda: self.seconds)


def test_a_fence_that_has_moved_is_a_loss_at_the_next_beat() -> None:
    hand = Hand()
    lease = hand.keep_alive()
    assert lease.step()
    assert lease.lost is None
    hand.answer = False
    assert not lease.step()
    assert lease.lost is Loss.FENCE_MOVED


def test_a_store_that_is_away_is_survived_until_the_lease_runs_out() -> None:
    hand = Hand()
    lease = hand.keep_alive()
    hand.answer = OSError("away")
    hand.seconds = 59.0
    assert lease.step()
    hand.answer = True
    assert lease.step()
    hand.answer = OSError("away again")
    hand.seconds = 118.0
    assert lease.step()
    hand.seconds = 119.0
    assert not lease.step()
    assert lease.lost is Loss.RAN_OUT


def test_a_lease_that_is_never_lost_to_silence_outlasts_any_outage() -> None:
    hand = Hand()
    lease = hand.keep_alive(lost_after=None)
    hand.answer = OSError("away")
    hand.seconds = 1e9
    assert lease.step()
    assert (lease.lost, lease.ran_out) == (None, False)
    hand.answer = False
    assert not lease.step()


def test_the_work_is_informed_once_that_the_lease_is_lost() -> None:
    lost = threading.Event()
    with KeepAlive(
        lambda: False, every=timedelta(milliseconds=1), lost_after=LEASE, what="the run r1", on_lost=lost.set
    ) as lease:
        assert lost.wait(PATIENCE_S)
        assert lease.lost is Loss.FENCE_MOVED


@pytest.mark.parametrize("seconds", range(4, 12))
def test_a_lease_that_runs_out_while_a_failure_is_handled_is_lost_with_its_reason(seconds: int) -> None:
    ticks = itertools.count()  # each look at the clock finds it a second later

    def fail() -> bool:
        raise OSError("away")

    kept = timedelta(seconds=seconds)
    lease = KeepAlive(fail, every=LEASE, lost_after=kept, what="the run r1", clock=lambda: float(next(ticks)))
    while lease.step():
        assert lease.lost is None
    assert lease.lost is Loss.RAN_OUT


def test_a_lease_ends_in_time_while_the_store_neither_answers_nor_fails() -> None:
    """Such as a server that accepts connections and stays silent: the beat hangs, and the timer does not need it."""
    answer, stopped = threading.Event(), threading.Event()

    def hang() -> bool:
        assert answer.wait(PATIENCE_S)
        return True

    lease = KeepAlive(hang, every=timedelta(0), lost_after=timedelta(seconds=0.1), what="the run r1", on_lost=stopped.set)
    with lease:
        assert stopped.wait(PATIENCE_S)
        assert lease.lost is Loss.RAN_OUT
        answer.set()
    assert not lease.step(), "an answer that comes too late does not bring the lease back"
    assert lease.lost is Loss.RAN_OUT


def test_a_store_whose_file_was_replaced_ends_the_lease_at_the_next_beat() -> None:
    hand = Hand()
    lease = hand.keep_alive()
    hand.answer = StoreFileReplaced("snowpack.db")
    assert not lease.step()
    assert (lease.lost, lease.ran_out) == (Loss.RAN_OUT, True), "nothing is left to wait for"
