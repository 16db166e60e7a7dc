"""A build stops when its lease is lost, and its error shows whether another attempt has taken over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_snowpack.builds.build import check_lease
from airflow_snowpack.builds.errors import BuildLeaseRanOut, StaleBuild
from airflow_snowpack.builds.registry.model import RunHandle
from airflow_snowpack.store.keep_alive import KeepAlive

LEASE = timedelta(seconds=60)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
HANDLE = RunHandle("flights", "r1", "/lake", NOW, 1, 1, "etl", "a1", 1, NOW + LEASE)


class Answers:
    """A store that answers, refuses or is away, and a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answer: bool | Exception = True
        self.lease = KeepAlive(self.renew, every=LEASE, lost_after=LEASE, what=str(HANDLE), clock=lambda: self.seconds)

    def renew(self) -> bool:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_an_attempt_that_took_over_is_named_as_the_reason() -> None:
    store = Answers()
    assert store.lease.step()
    check_lease(store.lease, HANDLE)
    store.answer = False
    assert not store.lease.step()
    with pytest.raises(StaleBuild, match="Another attempt has taken over the run r1 of flights"):
        check_lease(store.lease, HANDLE)


def test_a_store_that_is_away_for_longer_than_the_lease_is_named_as_the_reason() -> None:
    store = Answers()
    assert store.lease.step()
    store.answer = OSError("away")
    store.seconds = 59.0
    assert store.lease.step()
    check_lease(store.lease, HANDLE)
    store.seconds = 60.0
    assert not store.lease.step()
    with pytest.raises(BuildLeaseRanOut, match="No other attempt is known to have taken over"):
        check_lease(store.lease, HANDLE)
