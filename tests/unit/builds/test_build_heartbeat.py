"""A lease is kept alive, is lost at once when the fence has moved, and outlasts a store that is away for less than a lease."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from bounded import PATIENCE_S

from airflow_snowpack.builds.errors import BuildLeaseRanOut, StaleBuild
from airflow_snowpack.builds.registry.heartbeat import Heartbeat

LEASE = timedelta(seconds=60)


class Hand:
    """A stopwatch that a test moves, and a store that answers as it is told."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answer: bool | Exception = True

    def renew(self) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def heartbeat(self) -> Heartbeat:
        return Heartbeat(self.renew, every=LEASE, lease=LEASE, what="the run r1 of flights", monotonic=lambda: self.seconds)


def test_a_fence_that_has_moved_is_lost_at_the_next_beat() -> None:
    hand = Hand()
    beat = hand.heartbeat()
    assert beat.step()
    beat.check()
    hand.answer = False
    assert not beat.step()
    with pytest.raises(StaleBuild, match="the run r1 of flights"):
        beat.check()


def test_a_store_that_is_away_is_waited_for_as_long_as_the_lease_lasts() -> None:
    hand = Hand()
    beat = hand.heartbeat()
    hand.answer = OSError("away")
    hand.seconds = 59.0
    assert beat.step()
    hand.answer = True
    assert beat.step()
    hand.answer = OSError("away again")
    hand.seconds = 118.0
    assert beat.step()
    hand.seconds = 119.0
    assert not beat.step()
    assert beat.lost
    with pytest.raises(BuildLeaseRanOut, match="No other attempt is known to have taken over"):
        beat.check()


def test_whoever_works_is_told_once_that_the_lease_is_lost() -> None:
    told = threading.Event()
    with Heartbeat(
        lambda: False, every=timedelta(milliseconds=1), lease=timedelta(seconds=1), what="the run r1 of flights", on_lost=told.set
    ) as beat:
        assert told.wait(PATIENCE_S)
        assert beat.lost
