"""What a killed worker left running on a Spark server ends before anything else runs on the table.

The server is one of the test's own; ``tests/integration/spark/test_connect_orphans.py`` has a real one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from clocks import MovedClock
from scripted_engine import ScriptedEngine

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    Attempt,
    Claim,
    Jobs,
    JobStatus,
    LifecyclePolicy,
    LockInUse,
    StaleAttempt,
    TableLocked,
    TableLocks,
    WorkStillRunning,
)
from airflow_snowpack.jobs.rescuer import BATCH_SIZE
from airflow_snowpack.spark import SparkUnavailable
from airflow_snowpack.store import Actor, Store

ACTIONS = ["rewrite_data_files", "expire_snapshots"]
QUICK = LifecyclePolicy(fence_check=timedelta(milliseconds=10))
SERVER = "the_cluster"


class Server:
    """Runs statements whose clients are gone, and is down for a while when the test says so.

    :ivar running: the attempts, as ``(job id, attempt)``, whose statements still run.
    :ivar down: how many calls from now on fail.
    """

    def __init__(self) -> None:
        self.running: set[tuple[str, int]] = set()
        self.down = 0
        self.calls = 0

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        assert server == SERVER
        self.calls += 1
        if self.down:
            self.down -= 1
            raise SparkUnavailable(f"The Spark Connect server {server} does not answer.")
        self.running -= {(job_id, attempt) for attempt in attempts}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def jobs(store: Store, server: Server) -> Iterator[Jobs]:
    with Jobs(store, QUICK, orphans=server) as jobs:
        yield jobs


def killed(jobs: Jobs, server: Server, claim: Claim) -> Claim:
    """A worker that was killed while the server worked for it."""
    assert jobs.note_server(claim, SERVER)
    server.running.add((claim.job.job_id, claim.attempt))
    return claim


class OnServer(ScriptedEngine):
    server = SERVER


@pytest.mark.parametrize("engine", [OnServer, ScriptedEngine])
def test_a_successor_starts_nothing_before_the_statement_of_the_killed_try_has_ended(
    jobs: Jobs, server: Server, table: TableName, engine: type[ScriptedEngine]
) -> None:
    first = killed(jobs, server, jobs.submit_and_claim(table, ACTIONS, "try 1", owner="me"))
    server.down = 3
    seen: list[set[tuple[str, int]]] = []
    second = jobs.take_over(first.job.job_id, "try 2", owner="me")

    job = Attempt(jobs, second, engine(between=lambda _action: seen.append(set(server.running)))).run()
    assert (job.status, seen) == (JobStatus.COMPLETED, [set(), set()])
    assert server.calls >= 4
    assert (job.spark_server, jobs.locks.list()) == (None, [])


def test_a_queued_job_that_the_sweep_returned_waits_for_its_lost_attempt(
    jobs: Jobs, server: Server, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    first = jobs.claim("w1")
    assert first is not None
    killed(jobs, server, first)
    clock.move(seconds=1800)
    assert jobs.sweep().requeued == (job.job_id,)
    clock.move(hours=1)
    second = jobs.claim("w2")
    seen: list[bool] = []

    Attempt(jobs, second, ScriptedEngine(between=lambda _action: seen.append(bool(server.running)))).run()
    assert seen == [False, False]


def test_the_sweep_of_a_process_that_reaches_the_server_fails_a_job_only_after_its_statement_has_ended(
    store: Store, jobs: Jobs, server: Server, table: TableName, locks: TableLocks, clock: MovedClock
) -> None:
    claim = killed(jobs, server, jobs.submit_and_claim(table, ACTIONS, "try 1"))
    clock.move(seconds=1800)
    with Jobs(store) as elsewhere:
        assert not elsewhere.sweep().changed
        with pytest.raises(TableLocked):
            elsewhere.submit(table, ACTIONS)
        with pytest.raises(WorkStillRunning, match=SERVER):
            elsewhere.end_work(jobs.get(claim.job.job_id), [1])
    server.down = 1

    assert not jobs.sweep().changed
    assert (jobs.get(claim.job.job_id).status, len(locks.list())) == (JobStatus.RUNNING, 1)
    assert jobs.sweep().failed == (claim.job.job_id,)
    assert (server.running, locks.list()) == (set(), [])


def test_the_table_of_a_cancelled_job_stays_locked_until_the_statement_of_its_dead_worker_has_ended(
    jobs: Jobs, server: Server, table: TableName, locks: TableLocks, clock: MovedClock
) -> None:
    claim = killed(jobs, server, jobs.submit_and_claim(table, ACTIONS, "try 1"))
    jobs.cancel(claim.job.job_id, by="ann")
    clock.move(seconds=1800)
    server.down = 1

    with pytest.raises(TableLocked, match=f"its work on the Spark server '{SERVER}' may still be running"):
        jobs.submit(table, ACTIONS)
    with pytest.raises(TableLocked):
        locks.acquire(table, "etl", ttl=timedelta(hours=1))
    with pytest.raises(LockInUse, match=f"Spark server '{SERVER}'.*airflow snowpack sweep"):
        jobs.break_lock(table, claim.job.job_id, actor=Actor("vera", via="cli"))
    assert server.running
    # The submit itself sweeps, now that the server is back.
    assert jobs.submit(table, ACTIONS)
    assert not server.running


def test_cancelling_a_job_that_waits_again_does_not_free_the_table_under_its_lost_attempt(
    jobs: Jobs, server: Server, table: TableName, locks: TableLocks, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    claim = jobs.claim("w1")
    assert claim is not None
    killed(jobs, server, claim)
    clock.move(seconds=1800)
    jobs.sweep()
    jobs.cancel(job.job_id)

    assert len(locks.list()) == 1
    assert jobs.sweep().unlocked == (str(table),)
    assert (server.running, jobs.get(job.job_id).spark_server) == (set(), None)


def test_an_attempt_that_cannot_see_its_own_work_end_leaves_the_table_to_the_sweep(
    jobs: Jobs, server: Server, table: TableName, locks: TableLocks
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "try 1")

    def lose_connection(_action: str) -> None:
        server.running.add((claim.job.job_id, 1))
        server.down = 1

    job = Attempt(jobs, claim, OnServer({"rewrite_data_files": "fail"}, between=lose_connection)).run()
    assert (job.status, len(locks.list())) == (JobStatus.FAILED, 1)
    assert server.running
    assert jobs.sweep().unlocked == (str(table),)
    assert not server.running


def test_a_worker_that_was_cancelled_frees_the_table_when_its_work_on_the_server_has_ended(
    jobs: Jobs, server: Server, table: TableName, locks: TableLocks
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "try 1")
    engine = OnServer(between=lambda _action: jobs.cancel(claim.job.job_id) and None)

    with pytest.raises(StaleAttempt):
        Attempt(jobs, claim, engine).run()
    assert (locks.list(), jobs.get(claim.job.job_id).spark_server, server.calls) == ([], None, 1)


def test_many_orphans_on_a_server_that_is_down_do_not_keep_the_sweep_from_other_jobs(
    jobs: Jobs, server: Server, table: TableName, clock: MovedClock
) -> None:
    for number in range(BATCH_SIZE):
        killed(jobs, server, jobs.submit_and_claim(replace(table, table=f"t{number}"), ACTIONS, f"task {number}"))
    job = jobs.submit(table, ACTIONS)
    clock.move(seconds=1)
    assert jobs.claim("w1") is not None
    clock.move(hours=1)
    server.down = BATCH_SIZE
    assert jobs.sweep().requeued == (job.job_id,)
    assert len(jobs.sweep().failed) == BATCH_SIZE


@pytest.mark.parametrize("skipped", [ACTIONS, ACTIONS[1:]], ids=["all", "one"])
def test_an_attempt_that_skipped_all_actions_sends_nothing_to_its_server(
    jobs: Jobs, server: Server, table: TableName, skipped: list[str]
) -> None:
    calls = 0 if skipped == ACTIONS else 1
    server.down = 0 if calls else 1000

    job = Attempt(jobs, jobs.submit_and_claim(table, ACTIONS, "worker"), OnServer(dict.fromkeys(skipped, "skip"))).run()

    assert job.status is JobStatus.COMPLETED
    assert [result.action for result in job.results if result.outcome is ActionOutcome.SKIPPED] == skipped
    assert server.calls == calls
    assert jobs.locks.get(table) is None


def test_the_lock_of_an_orphaned_statement_can_be_released_by_force(
    jobs: Jobs, server: Server, table: TableName, clock: MovedClock
) -> None:
    claim = killed(jobs, server, jobs.submit_and_claim(table, ACTIONS, "try 1"))
    jobs.cancel(claim.job.job_id)
    clock.move(seconds=1800)
    assert jobs.break_lock(table, claim.job.job_id, force=True, actor=Actor("vera", via="cli"))
