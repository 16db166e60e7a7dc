"""When a lock whose period has run out may be taken, and when it may not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, TableLocked, TableLocks

HOUR = timedelta(hours=1)


def test_an_expired_lock_is_free_although_another_tables_job_is_queued(
    jobs: Jobs, locks: TableLocks, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    jobs.submit(other_table, ["expire_snapshots"])
    locks.acquire(table, "etl", ttl=HOUR)
    clock.move(hours=1)
    assert locks.acquire(table, "reload", ttl=HOUR).holder == "reload"
    clock.move(hours=1)

    job = jobs.submit(table, ["expire_snapshots"])
    assert locks.get(table).holder == job.job_id


def test_the_table_of_a_cancelled_job_whose_worker_never_left_is_free_after_the_lease_without_any_sweep(
    jobs: Jobs, locks: TableLocks, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ["expire_snapshots"], "w1")
    jobs.submit(other_table, ["expire_snapshots"])
    jobs.cancel(claim.job.job_id)
    clock.move(seconds=1799)
    with pytest.raises(TableLocked):
        jobs.submit(table, ["expire_snapshots"])
    clock.move(seconds=1)

    assert jobs.submit(table, ["expire_snapshots"])


def test_an_expired_lock_of_a_queued_job_is_nobody_elses(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ["expire_snapshots"])
    clock.move(days=2)

    assert jobs.sweep().unlocked == ()
    with pytest.raises(TableLocked, match=job.job_id):
        locks.acquire(table, "etl", ttl=HOUR)
    with pytest.raises(TableLocked, match=rf"{job.job_id}.*the job still waits for a worker\. Start a worker"):
        jobs.submit(table, ["expire_snapshots"])
    jobs.cancel(job.job_id)
    assert locks.acquire(table, "etl", ttl=HOUR).holder == "etl"


def test_an_orphan_that_was_replaced_does_not_free_the_table_under_its_successor_that_was_cancelled(
    jobs: Jobs, locks: TableLocks, table: TableName
) -> None:
    orphan = jobs.submit_and_claim(table, ["expire_snapshots"], "try-1", owner="me")
    successor = jobs.take_over(orphan.job.job_id, "try-2", owner="me")
    jobs.cancel(orphan.job.job_id)

    assert not jobs.release_lock(orphan)
    assert locks.get(table) is not None, "the successor is still on its way out"
    assert jobs.release_lock(successor)
