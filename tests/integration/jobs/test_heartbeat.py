"""The heartbeat of a claim: what it renews, what it survives and when it gives up."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from clocks import MovedClock
from postgres_server import PostgresServer, new_database
from scripted_engine import PATIENCE_S, eventually
from sqlalchemy.exc import OperationalError

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, Jobs, LifecyclePolicy, TableLocks
from airflow_snowpack.jobs.attempt import keep_claim
from airflow_snowpack.store import Store, StoreUnreachable, upgrade_schema
from airflow_snowpack.store.opening import open_engine

MOMENT = timedelta(milliseconds=20)
QUICK = LifecyclePolicy(heartbeat=MOMENT, fence_check=MOMENT)


class AwayStore(Store):
    """A store whose database does not answer while ``away`` is set."""

    away: BaseException | None = None
    asked = 0

    def _retried(self, once: Callable[[], Any]) -> Any:
        self.asked += 1
        if self.away is not None:
            raise self.away
        return super()._retried(once)


@pytest.fixture
def away(store: Store) -> AwayStore:
    return AwayStore(store.engine, store.clock)


@pytest.fixture
def claim(store: Store, table: TableName) -> Claim:
    return Jobs(store, QUICK).submit_and_claim(table, ["expire_snapshots"], "w1", owner="me")


UNREACHABLE = StoreUnreachable("test", ConnectionError("the database is away"))


@pytest.mark.parametrize("policy", [QUICK, LifecyclePolicy(lease=timedelta(milliseconds=90))], ids=["quick", "short lease"])
def test_a_beat_moves_the_end_of_lease_and_lock_also_of_a_lease_below_the_heartbeat(
    away: AwayStore, claim: Claim, locks: TableLocks, clock: MovedClock, policy: LifecyclePolicy
) -> None:
    clock.move(minutes=20)
    with keep_claim(Jobs(away, policy), claim, on_lost=lambda: None):
        eventually(lambda: locks.list()[0].expires_at == clock.now + policy.lease)
    clock.now += policy.lease * 0.9

    assert Jobs(away, policy).sweep().failed == ()


def test_a_moved_fence_is_told_once(away: AwayStore, claim: Claim) -> None:
    jobs = Jobs(away, QUICK)
    lost = threading.Event()
    calls: list[None] = []

    def on_lost() -> None:
        calls.append(None)
        lost.set()

    with keep_claim(jobs, claim, on_lost):
        jobs.take_over(claim.job.job_id, "w2", owner="me")
        assert lost.wait(PATIENCE_S)
        asked = away.asked
        threading.Event().wait(5 * MOMENT.total_seconds())
    assert (len(calls), away.asked) == (1, asked), "nothing more is asked of the database"


@pytest.mark.parametrize("error", [UNREACHABLE, RuntimeError("can't start new thread")])
def test_a_database_that_does_not_answer_is_survived_until_the_lease_has_run_out(
    away: AwayStore, claim: Claim, clock: MovedClock, error: BaseException
) -> None:
    lost = threading.Event()
    with keep_claim(Jobs(away, QUICK), claim, on_lost=lost.set):
        away.away = error
        clock.move(minutes=29, seconds=59)
        asked = away.asked
        eventually(lambda: away.asked > asked + 3)
        assert not lost.is_set()
        clock.move(seconds=1)
        assert lost.wait(PATIENCE_S)


def test_a_database_that_comes_back_before_the_lease_ends_finds_the_claim_as_it_was(
    away: AwayStore, claim: Claim, clock: MovedClock
) -> None:
    lost = threading.Event()
    jobs = Jobs(away, QUICK)
    with keep_claim(jobs, claim, on_lost=lost.set) as heartbeat:
        away.away = UNREACHABLE
        clock.move(minutes=29)
        asked = away.asked
        eventually(lambda: away.asked > asked + 3)
        away.away = None
        # Not before a beat came through: one that failed just now may look at the clock only after it was moved.
        answered = away.asked + 2
        eventually(lambda: away.asked > answered)
        clock.move(minutes=5)
        eventually(lambda: not heartbeat.ran_out)
    assert not lost.is_set()
    assert jobs.holds(claim)
    assert jobs.sweep().requeued == ()


@pytest.mark.one_database
def test_a_statement_is_not_repeated_after_the_end_of_the_lease(store: Store, claim: Claim, clock: MovedClock) -> None:
    waits: list[float] = []
    tries: list[None] = []
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY

    def fail(_conn: Any) -> None:
        tries.append(None)
        raise OperationalError("SELECT 1", {}, busy)

    restless = Store(store.engine, clock, sleep=waits.append)
    heartbeat = keep_claim(Jobs(restless), claim, on_lost=lambda: None)
    for past_lease, most_tries in ((False, 7), (True, 2)):
        clock.move(seconds=1800 * past_lease)
        tries.clear()
        waits.clear()
        with heartbeat.within_lease(), pytest.raises(StoreUnreachable):
            restless.read(fail)
        assert (len(tries), len(waits)) == (most_tries, most_tries - 2)


def test_a_postgres_that_hangs_does_not_keep_a_heartbeat_from_noticing_the_end_of_its_lease(
    own_postgres: PostgresServer, table: TableName
) -> None:
    with new_database(own_postgres.url.render_as_string(hide_password=False)) as url, Store(open_engine(url)) as store:
        upgrade_schema(store)
        jobs = Jobs(store, LifecyclePolicy(lease=timedelta(seconds=3), fence_check=MOMENT))
        claim = jobs.submit_and_claim(table, ["expire_snapshots"], "w1", owner="me")
        lost = threading.Event()
        with keep_claim(jobs, claim, on_lost=lost.set):
            own_postgres.freeze()
            try:
                assert lost.wait(PATIENCE_S)
            finally:
                own_postgres.thaw()


@pytest.mark.one_database
def test_an_outage_fills_the_log_of_a_heartbeat_with_one_line(
    away: AwayStore, claim: Claim, caplog: pytest.LogCaptureFixture
) -> None:
    heartbeat = keep_claim(Jobs(away, QUICK), claim, on_lost=lambda: None)
    away.away = UNREACHABLE
    with caplog.at_level("INFO"):
        assert all(heartbeat.step() for _ in range(30))
        away.away = None
        assert heartbeat.step()

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert len(caplog.text.splitlines()) == 2
