"""One thread keeps all that an attempt holds alive, and tells what it lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from bounded import PATIENCE_S
from clocks import MovedClock
from interim_lake import LAKE, NOON, holder

from airflow_snowpack.interim.errors import InterimReadingLost, StaleInterimAttempt
from airflow_snowpack.interim.handover import Heartbeat
from airflow_snowpack.interim.model import InterimPolicy, Reading, Writing
from airflow_snowpack.interim.registry import InterimRegistry, Output
from airflow_snowpack.store import Store, open_store

POLICY = InterimPolicy()
ATTEMPT = holder("clean")


class Away(InterimRegistry):
    """A registry whose database does not answer while ``away`` is set."""

    away = False

    @property
    def clock(self) -> MovedClock:
        assert isinstance(self.store.clock, MovedClock)
        return self.store.clock

    def heartbeat(self, leased: Writing | Reading) -> bool:
        if self.away:
            raise OSError("no answer")
        return super().heartbeat(leased)


@pytest.fixture
def store(sqlite_url: str) -> Iterator[Store]:
    with open_store(sqlite_url, clock=MovedClock(NOON)) as opened:
        yield opened


@pytest.fixture
def registry(store: Store) -> Away:
    return Away(store, POLICY)


def begun(registry: InterimRegistry, *, try_number: int = 1) -> Writing:
    return registry.begin(holder("clean", try_number=try_number), catalog=LAKE)


def test_what_is_held_is_renewed(registry: Away) -> None:
    ref = registry.commit(Output(begun(registry), 1, 1), consumers=["report"])[0]
    reading, writing = registry.consume([ref], attempt=holder("report")), begun(registry)
    heartbeat = Heartbeat(registry, ATTEMPT)
    heartbeat.add(reading)
    heartbeat.add(writing)
    registry.clock.move(POLICY.lease / 2)

    heartbeat.step()

    assert registry.table(writing.table_id).lease_until == registry.clock() + POLICY.lease
    heartbeat.refuse_lost()


def test_a_superseded_writer_has_lost_its_lease(registry: Away) -> None:
    heartbeat = Heartbeat(registry, ATTEMPT)
    heartbeat.add(writing := begun(registry))
    begun(registry, try_number=2)

    assert heartbeat.step() is False

    assert heartbeat.lost_lease is writing
    with pytest.raises(StaleInterimAttempt):
        heartbeat.refuse_lost()


def test_a_reader_that_was_declared_dead_has_lost_its_lease(registry: Away) -> None:
    ref = registry.commit(Output(begun(registry), 1, 1), consumers=["report"])[0]
    heartbeat = Heartbeat(registry, ATTEMPT)
    heartbeat.add(reading := registry.consume([ref], attempt=holder("report")))
    registry.release(reading)

    heartbeat.step()

    with pytest.raises(
        InterimReadingLost, match=r"report \(try 1\) is no longer on record as a reader of lake\.snowpack_interim"
    ):
        heartbeat.refuse_lost()


def test_a_removed_lease_is_not_lost(registry: Away) -> None:
    heartbeat = Heartbeat(registry, ATTEMPT)
    heartbeat.add(writing := begun(registry))
    heartbeat.remove(writing)
    registry.abandon(writing, "no")

    heartbeat.step()

    assert heartbeat.lost_lease is None


def test_a_store_that_is_away_for_longer_than_a_lease_is_no_loss(registry: Away, caplog: pytest.LogCaptureFixture) -> None:
    heartbeat = Heartbeat(registry, ATTEMPT)
    ref = registry.commit(Output(begun(registry), 1, 1), consumers=["report"])[0]
    heartbeat.add(writing := begun(registry))
    heartbeat.add(registry.consume([ref], attempt=holder("report")))
    registry.away = True
    for _ in range(3):
        registry.clock.move(POLICY.lease)
        heartbeat.step()
    heartbeat.refuse_lost()
    assert "heartbeat_failed: the interim tables of flights/manual__1/clean (try 1), retried at the next beat" in caplog.text

    registry.away = False
    heartbeat.step()

    heartbeat.refuse_lost()
    assert registry.table(writing.table_id).lease_until == registry.clock() + POLICY.lease
    assert registry.commit(Output(writing, 2, 2), consumers=["report"])[0].rows == 2


def test_a_loss_during_an_outage_is_found_when_the_store_answers_again(registry: Away) -> None:
    heartbeat = Heartbeat(registry, ATTEMPT)
    heartbeat.add(begun(registry))
    registry.away = True
    heartbeat.step()
    registry.away = False
    begun(registry, try_number=2)

    heartbeat.step()

    with pytest.raises(StaleInterimAttempt):
        heartbeat.refuse_lost()


def test_it_beats_while_its_block_runs(store: Store) -> None:
    quick = Away(store, InterimPolicy(heartbeat=POLICY.heartbeat / 6000))
    told = threading.Event()
    writing = begun(quick)
    with Heartbeat(quick, ATTEMPT, on_lost=told.set) as heartbeat:
        heartbeat.add(writing)
        begun(quick, try_number=2)

        assert told.wait(PATIENCE_S)
