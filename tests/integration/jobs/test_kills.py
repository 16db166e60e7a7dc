"""kill -9 around statements and commits of the lifecycle, and at random moments: nothing is half done, and all of it recovers.

``make test`` kills around each kind of statement once; ``make soak`` kills around every statement.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from subprocess import PIPE
from typing import Any

import kill_process
import pytest
import sqlalchemy as sa
from bounded import started
from clocks import ShiftedClock
from effort import SOAK, rounds, seed
from scripted_engine import ScriptedEngine, eventually

from airflow_snowpack.jobs import Jobs, JobStatus, JobWorker, LifecyclePolicy
from airflow_snowpack.store import Actor, AuditTrail, Store, open_store
from airflow_snowpack.store.tables.jobs import idempotency_keys, job_queue, jobs as jobs_table, table_locks

pytestmark = pytest.mark.both_in_soak

ENDS = {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED}
ROUNDS_OF_CHANCE = rounds(3, soak=150)
STRIDE = rounds(12, soak=1)
MOMENTS = "every" if SOAK else "first"
LEAST_MOMENTS = rounds(15, soak=30)


@pytest.fixture
def shifted() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def survivor(store_url: str, store: Store, shifted: ShiftedClock) -> Iterator[Jobs]:
    """Another process, which clears up after the kill."""
    with Jobs(open_store(store_url, clock=shifted)) as jobs:
        yield jobs


@pytest.fixture
def live(store_url: str, record_property: Callable[[str, object], None]) -> Iterator[Callable[[str], str]]:
    """A process that runs a lifecycle for each line and reports whether it was killed."""
    command = [sys.executable, kill_process.__file__, store_url, MOMENTS]
    killed = 0
    with started(command, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def live(line: str) -> str:
            nonlocal killed
            stdin.write(f"{line}\n")
            stdin.flush()
            answer = stdout.readline().strip()
            killed += answer == "killed"
            return answer

        assert stdout.readline() == "ready\n"
        yield live
    record_property("faults", killed)


def assert_nothing_is_half_done(jobs: Jobs) -> None:
    """What must hold at every moment, whoever was killed."""

    def read(conn: sa.Connection) -> Any:
        if jobs.store.is_postgres:  # which may still be at work for the killed process
            conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        return tuple(conn.execute(sa.select(table)).all() for table in (jobs_table, job_queue, table_locks))

    every, queue, locks = jobs.store.transact(read)
    active = {job.job_id: job for job in every if job.status in ("pending", "running")}
    queued = {row.job_id: row for row in queue}
    assert queued.keys() == active.keys(), "a queue row exists for exactly the active jobs"
    for key, job in active.items():
        assert queued[key].attempt_id == job.attempt_id
        assert (queued[key].claimed_at is not None) == (job.status == "running")
    holders = {lock.table_key: lock.holder for lock in locks}
    assert all(holders.get(job.table_key) == key for key, job in active.items()), "an active job holds its table"
    cancelled = {job.job_id for job in every if job.status == "cancelled"}
    assert set(holders.values()) <= active.keys() | cancelled, "a lock has an active or a just cancelled job"


def recover(jobs: Jobs, shifted: ShiftedClock) -> None:
    """The lease runs out, sweeps go by, the back-off passes, and a fresh worker takes what there is."""

    def nothing_is_left() -> bool:
        # More than one sweep: Postgres may not have noticed yet that its client is dead, and a sweep passes over what is locked.
        shifted.ahead = jobs.policy.lease + timedelta(seconds=5)
        jobs.sweep()
        shifted.ahead += timedelta(minutes=5)
        while fresh.run_once() is not None:
            pass
        return not any(jobs.list(status=status) for status in (JobStatus.PENDING, JobStatus.RUNNING))

    fresh = JobWorker(jobs, ScriptedEngine, "fresh")
    eventually(nothing_is_left)
    shifted.ahead = timedelta(0)


def assert_all_is_well(jobs: Jobs) -> None:
    assert_nothing_is_half_done(jobs)
    assert {job.status for job in jobs.list(limit=10_000)} <= ENDS
    assert jobs.locks.list() == []


def assert_every_change_is_on_record(jobs: Jobs) -> None:
    """Each job that an actor requested has its entry, each entry its job, each key both, and so has each requested end."""
    entries = {(entry.subject, entry.change) for entry in AuditTrail(jobs.store).latest(100_000)}
    with jobs.store.engine.connect() as conn:
        every, keys = conn.execute(sa.select(jobs_table)).all(), conn.execute(sa.select(idempotency_keys)).all()
    made = {(job.job_id, change) for job in every for change in ("submit", "rerun", "dry_run") if (job.job_id, change) in entries}
    assert {key for key, _ in made} == {job.job_id for job in every}
    assert {entry for entry in entries if entry[1] in ("submit", "rerun", "dry_run")} == made
    assert {key.job_id for key in keys} == {
        job.job_id for job in every if job.table_name.endswith("_c") and (job.job_id, "rerun") not in made
    }
    assert {job.job_id for job in every if job.status == "cancelled"} == {key for key, change in entries if change == "cancel"}
    assert {job.job_id for job in every if job.deleted_at is not None} == {key for key, change in entries if change == "delete"}


def kill_at_every_moment(kind: str, live: Callable[[str], str], survivor: Jobs, shifted: ShiftedClock) -> Iterator[None]:
    """Kill a process around each of its statements in turn; the job runs again after each kill."""
    for moment in count(1):
        answer = live(f"{kind} {moment}")
        assert_nothing_is_half_done(survivor)
        yield
        recover(survivor, shifted)
        assert_all_is_well(survivor)
        if answer != "killed":
            break
    assert answer == "finished 0"
    assert moment > LEAST_MOMENTS, "every step was met"


def test_a_kill_around_a_statement_leaves_nothing_half_done_and_the_job_runs_again(
    live: Callable[[str], str], survivor: Jobs, shifted: ShiftedClock
) -> None:
    for _ in kill_at_every_moment("statement", live, survivor, shifted):
        pass
    failed = [job for job in survivor.list(limit=10_000) if job.status is JobStatus.FAILED]
    assert all(job.inline for job in failed), "one kill costs no job that a worker can take again"
    assert all("stopped sending heartbeats" in (job.error or "") for job in failed)


def test_a_kill_around_a_statement_of_a_request_leaves_no_change_without_its_entry(
    live: Callable[[str], str], survivor: Jobs, shifted: ShiftedClock
) -> None:
    for _ in kill_at_every_moment("request", live, survivor, shifted):
        assert_every_change_is_on_record(survivor)
        changes = [entry.change for entry in AuditTrail(survivor.store).of("drain")]
        assert len(changes) % 2 == survivor.drain().on
        if survivor.drain().on:
            survivor.set_drain(False, actor=Actor("survivor", via="cli"))


def test_a_job_without_attempts_left_fails_with_its_reason_wherever_its_worker_was_killed(
    live: Callable[[str], str], survivor: Jobs, shifted: ShiftedClock
) -> None:
    last_chance = Jobs(survivor.store, LifecyclePolicy(max_attempts=1))
    for moment in range(2, 60, STRIDE):
        live(f"statement {moment}")
        recover(last_chance, shifted)
        assert_all_is_well(last_chance)
    errors = [job.error or "" for job in survivor.list(status=JobStatus.FAILED, limit=1000)]
    assert errors
    # Two attempts: the one that was killed had taken the job over.
    assert all(re.match(r"Gave up after (1 attempt|2 attempts): the worker doomed stopped sending", error) for error in errors)


def test_kills_at_random_moments_leave_nothing_half_done(
    live: Callable[[str], str], survivor: Jobs, shifted: ShiftedClock
) -> None:
    chance = random.Random(seed(2013))
    for _ in range(ROUNDS_OF_CHANCE):
        assert live(f"milliseconds {chance.randint(0, 370)}") == "killed"
        assert_nothing_is_half_done(survivor)
        recover(survivor, shifted)
        assert_all_is_well(survivor)
    assert survivor.list(), "some of them got somewhere"
