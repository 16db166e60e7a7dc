"""Every operation of the jobs' store does the same on SQLite and on Postgres, where much of its SQL differs.

Other files of this folder rely on it where they run on SQLite alone. The last test fails when a public method is not called here.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from counted_reads import counted_reads
from scripted_engine import eventually

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    DrainModeOn,
    Job,
    JobAlreadyFinished,
    JobCounts,
    JobFilter,
    JobNotFound,
    JobRunsInTask,
    Jobs,
    JobStatus,
    JobStillActive,
    KeyUsedBefore,
    LockInUse,
    NotTheOwner,
    QueueState,
    RequestKey,
    Submission,
    TableLocked,
    TableLocks,
    WorkStillRunning,
    explain_tables,
)
from airflow_snowpack.jobs.history import record_change
from airflow_snowpack.jobs.idempotency import KEPT
from airflow_snowpack.jobs.model import TableChange
from airflow_snowpack.lineage.operations import OperationLog
from airflow_snowpack.store import Actor, AuditTrail, Store
from airflow_snowpack.store.schema import audit_trail
from airflow_snowpack.store.tables.jobs import idempotency_keys, job_history, job_queue, jobs as jobs_table, table_locks

VERA = Actor("vera", via="api")
ACTIONS = ["rewrite_data_files", "expire_snapshots"]
OUTCOMES = (ActionOutcome.SUCCEEDED, ActionOutcome.FAILED)
DONE = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 87 files into 12", 1.5, metrics={"files": 87})
STATUSES = list(JobStatus)
HOUR = timedelta(hours=1)
FRESH = count(1)


def fresh() -> TableName:
    return TableName("lake", "db", f"t{next(FRESH)}")


def rows(store: Store, *tables: sa.Table) -> list[int]:
    counts = sa.select(*(sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in tables))
    return list(store.read(lambda conn: conn.execute(counts).one()))


# -- submit, claim, finish, cancel, sweep ---------------------------------------------------------------------------------------


def test_a_submitted_job_is_pending_queued_and_holds_its_table_from_then_on(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS, options={"expire_snapshots": {"retain_last": 3}}, submitted_by="ann")

    assert jobs.get(job.job_id) == job
    assert job.status is JobStatus.PENDING
    assert jobs.queue_depth() == 1
    assert locks.get(table).holder == job.job_id

    clock.move(minutes=1)
    since, until = "2026-11-21 22:00:00 UTC", "2026-11-21 22:30:00 UTC"
    with pytest.raises(TableLocked, match=rf"locked by {job.job_id} since {since}.*expires at {until}"):
        jobs.submit(table, ACTIONS)
    assert len(jobs.list()) == 1
    assert jobs.queue_depth() == 1


def test_drain_mode_refuses_before_anything_is_written_and_before_a_locked_table_is_reported(
    jobs: Jobs, locks: TableLocks, table: TableName, other_table: TableName
) -> None:
    before = jobs.submit(other_table, ACTIONS)
    jobs.set_drain(True, by="ops", reason="moving to Postgres 18")

    with pytest.raises(DrainModeOn, match=r"since 2026-11-21.* by ops \(moving to Postgres 18\)"):
        jobs.submit(table, ACTIONS)
    with pytest.raises(DrainModeOn):
        jobs.record_dry_run(table, ACTIONS, [])
    with pytest.raises(DrainModeOn):
        jobs.submit(other_table, ACTIONS)
    assert jobs.list() == [before]
    assert [lock.holder for lock in locks.list()] == [before.job_id]


def test_a_dry_run_is_completed_at_once_and_on_record_without_queue_row_or_lock(
    jobs: Jobs, trail: AuditTrail, table: TableName, store: Store
) -> None:
    job = jobs.record_dry_run(table, ACTIONS, [DONE], actor=VERA)

    assert jobs.get(job.job_id) == job
    assert (job.status, job.dry_run, job.results) == (JobStatus.COMPLETED, True, (DONE,))
    assert audited(trail, job.job_id) == [("vera", "api", "dry_run")]
    assert rows(store, job_queue, table_locks) == [0, 0]


def test_a_claim_starts_the_job_under_a_new_fence_with_the_lease_of_the_policy(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    clock.move(hours=2)
    claim = jobs.claim("w1")

    stored = jobs.get(job.job_id)
    assert (stored.status, stored.attempt_id, stored.attempt) == (JobStatus.RUNNING, claim.attempt_id, 1)
    assert stored.started_at == clock.now
    assert claim.lease_until == clock.now + timedelta(seconds=1800)
    assert locks.get(table).expires_at == claim.lease_until
    assert jobs.queue_depth() == 0


def test_a_named_job_is_claimed_once_and_the_others_in_the_order_of_submission(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    first = jobs.submit(table, ACTIONS)
    clock.move(seconds=1)
    second = jobs.submit(other_table, ACTIONS)

    claims = [jobs.claim("w1"), jobs.claim("w1"), jobs.claim("w1")]
    assert [claim and claim.job.job_id for claim in claims] == [first.job_id, second.job_id, None]

    for each in claims[:2]:
        jobs.finish(each, JobStatus.COMPLETED, [])
    jobs.submit(table, ACTIONS)
    wanted = jobs.submit(other_table, ACTIONS)
    claim = jobs.claim("w1", job_id=wanted.job_id)
    assert claim.job.job_id == wanted.job_id
    assert jobs.claim("w2", job_id=wanted.job_id) is None


def test_a_job_that_is_submitted_and_claimed_at_once_was_never_in_anybody_elses_reach(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", owner="dag/run/task")

    assert jobs.claim("w2") is None
    assert jobs.get(claim.job.job_id).attempt_id == claim.attempt_id
    with pytest.raises(TableLocked):
        jobs.submit_and_claim(table, ACTIONS, "w2")


def test_a_heartbeat_moves_the_end_of_lease_and_lock(jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    clock.move(minutes=20)
    assert jobs.renew(claim)
    clock.move(minutes=20)

    assert jobs.sweep().requeued == ()
    lock = locks.get(table)
    assert lock.expires_at == clock.now + timedelta(minutes=10)


def test_finishing_writes_the_result_empties_the_queue_and_frees_the_table(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    clock.move(minutes=3)

    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    job = jobs.get(claim.job.job_id)
    assert (job.status, job.results, job.completed_at) == (JobStatus.COMPLETED, (DONE,), clock.now)
    assert locks.get(table) is None
    assert jobs.submit(table, ACTIONS).status is JobStatus.PENDING


def test_only_one_of_two_attempts_at_a_job_reaches_a_terminal_state(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    jobs.submit(table, ACTIONS)
    first = jobs.claim("w1")
    clock.move(minutes=31)
    jobs.sweep()
    clock.move(minutes=2)
    second = jobs.claim("w2")

    assert not jobs.holds(first)
    assert not jobs.renew(first)
    assert not jobs.record_progress(first, [DONE])
    assert not jobs.finish(first, JobStatus.FAILED, [], "late")
    assert not jobs.release_lock(first)
    assert locks.get(table) is not None, "the table is the second attempt's now"
    assert jobs.finish(second, JobStatus.COMPLETED, [DONE])
    assert jobs.get(first.job.job_id).attempt_id == second.attempt_id


def test_a_retry_takes_its_own_job_over_at_once_and_shows_its_own_start_and_results(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    first = jobs.submit_and_claim(table, ACTIONS, "try-1", owner="dag/run/task")
    assert jobs.record_progress(first, [DONE])
    clock.move(seconds=4)
    owned = jobs.find_owned("dag/run/task")
    second = jobs.take_over(owned.job_id, "try-2", owner="dag/run/task", actions=["rewrite_manifests"])

    assert second.attempt == 2
    assert second.job == jobs.get(owned.job_id)
    assert (second.job.actions, second.job.started_at, second.job.results) == (("rewrite_manifests",), clock.now, ())
    assert not jobs.holds(first)
    assert not jobs.finish(first, JobStatus.COMPLETED, [])
    assert jobs.finish(second, JobStatus.COMPLETED, [])
    assert jobs.find_owned("dag/run/task") is None


def test_the_newest_job_of_a_task_is_found_also_when_it_has_ended(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    assert jobs.last_owned("dag/run/task") is None
    for _ in range(2):
        clock.move(seconds=1)
        last = jobs.submit(table, ["expire_snapshots"], owner="dag/run/task")
        jobs.cancel(last.job_id)
    jobs.submit(table, ["expire_snapshots"], owner="dag/run/other")

    found = jobs.last_owned("dag/run/task")
    assert (found.job_id, found.status) == (last.job_id, JobStatus.CANCELLED)


def test_the_jobs_that_tasks_wait_for_are_listed_until_they_end(jobs: Jobs, table: TableName) -> None:
    awaited = jobs.submit(table, ["expire_snapshots"], owner="dag/run/task", awaited=True)
    jobs.submit(replace(table, table="another"), ["expire_snapshots"], owner="dag/run/submit")
    assert [job.job_id for job in jobs.awaited()] == [awaited.job_id]

    assert jobs.claim("w1", job_id=awaited.job_id, catalog_id=table.catalog_id) is not None
    assert [job.job_id for job in jobs.awaited()] == [awaited.job_id]
    jobs.cancel(awaited.job_id)
    assert jobs.awaited() == []


def test_a_job_is_taken_over_by_its_owner_only_and_not_when_it_has_finished(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", owner="dag/run/task")

    with pytest.raises(NotTheOwner, match="belongs to dag/run/task"):
        jobs.take_over(claim.job.job_id, "w2", owner="dag/other-run/task")
    assert jobs.holds(claim)

    jobs.finish(claim, JobStatus.COMPLETED, [])
    with pytest.raises(JobAlreadyFinished):
        jobs.take_over(claim.job.job_id, "w2", owner="dag/run/task")


def test_a_retry_takes_over_what_its_own_earlier_try_had_claimed_and_nothing_else(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    jobs.submit(table, ACTIONS)
    jobs.submit(other_table, ACTIONS)
    mine, theirs = jobs.claim("dag/run/work try 1 on a:1"), jobs.claim("dag/run/work_2 try 1 on a:2")

    again = jobs.reclaim("dag/run/work try ", "dag/run/work try 2 on b:3")
    assert (again.job.job_id, again.attempt) == (mine.job.job_id, 2)
    assert not jobs.holds(mine)
    assert jobs.holds(theirs)
    assert jobs.reclaim("dag/run/work_2 try ", "x", job_id=mine.job.job_id) is None
    assert jobs.reclaim("dag%/", "x") is None
    assert jobs.reclaim("DAG/run/work try ", "x") is None


def test_a_job_that_waits_again_shows_nothing_of_its_lost_attempt(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    job = jobs.submit(table, ACTIONS)
    lost = jobs.claim("w1")
    assert jobs.record_progress(lost, [DONE])
    assert jobs.get(job.job_id).results == (DONE,)
    clock.move(seconds=1800)
    jobs.sweep()

    waiting = jobs.get(job.job_id)
    assert (waiting.status, waiting.started_at, waiting.results) == (JobStatus.PENDING, None, ())
    clock.move(hours=1)
    claim = jobs.claim("w2")
    assert (claim.job.started_at, claim.job.results) == (clock.now, ())


def test_cancelling_a_pending_job_frees_its_table_at_once(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS)
    cancelled = jobs.cancel(job.job_id)

    assert (cancelled.status, cancelled.error) == (JobStatus.CANCELLED, "Cancelled by user")
    assert locks.get(table) is None
    assert jobs.claim("w1") is None


def test_cancelling_a_running_job_keeps_the_table_locked_until_its_worker_has_left(
    jobs: Jobs, locks: TableLocks, table: TableName
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.cancel(claim.job.job_id, by="ann")

    assert not jobs.holds(claim)
    with pytest.raises(TableLocked):
        jobs.submit(table, ACTIONS)
    assert jobs.release_lock(claim)
    assert locks.get(table) is None
    cancelled = jobs.get(claim.job.job_id)
    assert (cancelled.error, cancelled.cancelled_by) == ("Cancelled by user", "ann")


def test_the_server_that_may_go_on_working_is_noted_by_the_present_attempt_alone(jobs: Jobs, table: TableName) -> None:
    lost = jobs.submit_and_claim(table, ACTIONS, "try 1", owner="me")
    claim = jobs.take_over(lost.job.job_id, "try 2", owner="me")

    assert not jobs.note_server(lost, "elsewhere")
    assert jobs.note_server(claim, "the_cluster")
    with pytest.raises(WorkStillRunning, match="the_cluster"):
        jobs.end_work(jobs.get(claim.job.job_id), [1])
    assert jobs.finish(claim, JobStatus.COMPLETED, [])
    jobs.end_work(jobs.get(claim.job.job_id), [1, 2])  # nothing is left, so there is nothing to reach


def test_jobs_are_counted_for_each_catalog_where_they_wait_and_where_workers_run_them(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    elsewhere = replace(table, catalog_id="lake-0123456789ab")
    jobs.submit(table, ACTIONS)
    jobs.submit(elsewhere, ACTIONS)

    assert jobs.waiting_elsewhere(table.catalog_id) == {elsewhere.catalog_id: 1}
    assert jobs.waiting_elsewhere(elsewhere.catalog_id) == {table.catalog_id: 1}

    jobs.submit_and_claim(other_table, ACTIONS, "a task")
    assert jobs.running_in_workers() == {}
    assert jobs.claim("w1", catalog_id=elsewhere.catalog_id) is not None
    assert jobs.running_in_workers() == {elsewhere.catalog_id: 1}
    depths = jobs.queue_depths([table.catalog_id, elsewhere.catalog_id, "unknown"])
    assert depths == {table.catalog_id: 1, elsewhere.catalog_id: 0, "unknown": 0}


def test_a_cancelled_job_stays_cancelled_and_the_sweep_frees_the_table_that_its_worker_never_left(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.cancel(claim.job.job_id)
    assert jobs.sweep().unlocked == ()
    clock.move(minutes=31)

    assert jobs.sweep().unlocked == (str(table),)
    assert locks.get(table) is None

    assert not jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    assert not jobs.finish(claim, JobStatus.FAILED, [], "boom")
    clock.move(hours=1)
    jobs.sweep()
    job = jobs.get(claim.job.job_id)
    assert (job.status, job.attempt_id, job.results) == (JobStatus.CANCELLED, None, ())


def test_a_deleted_job_is_out_of_sight_but_its_row_stays(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    with pytest.raises(JobStillActive, match="is running and cannot be deleted"):
        jobs.delete(claim.job.job_id)
    jobs.finish(claim, JobStatus.COMPLETED, [])
    jobs.delete(claim.job.job_id)

    with pytest.raises(JobNotFound):
        jobs.get(claim.job.job_id)
    with pytest.raises(JobNotFound):
        jobs.delete(claim.job.job_id)
    assert jobs.list() == []
    assert jobs.store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(jobs_table)).scalar_one()) == 1


def test_the_statuses_of_several_jobs_are_one_statement(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.finish(claim, JobStatus.COMPLETED, [])
    deleted, pending = claim.job.job_id, jobs.submit(other_table, ACTIONS).job_id
    with counted_reads() as reads:
        found = jobs.statuses([deleted, pending, "0123"])
    assert len(reads.of_store) == 1
    assert (found[deleted], found[pending]) == (JobStatus.COMPLETED, JobStatus.PENDING)
    assert isinstance(found["0123"], JobNotFound)

    jobs.delete(deleted)
    assert isinstance(jobs.statuses([deleted])[deleted], JobNotFound)


def test_a_job_whose_lease_ran_out_waits_longer_after_each_attempt_and_then_fails_with_its_reason(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    for attempt, wait in ((1, 60), (2, 120)):
        claim = jobs.claim(f"w{attempt}")
        clock.move(minutes=30)
        assert jobs.sweep().requeued == (job.job_id,)
        assert jobs.get(job.job_id).status is JobStatus.PENDING
        assert not jobs.holds(claim), "the fence moves on every reclaim"
        clock.move(seconds=wait - 1)
        assert jobs.queue_depth() == 0
        assert jobs.claim("early") is None
        clock.move(seconds=1)
        assert jobs.queue_depth() == 1
    assert jobs.claim("w3") is not None
    clock.move(minutes=30)

    assert jobs.sweep().failed == (job.job_id,)
    failed = jobs.get(job.job_id)
    assert failed.status is JobStatus.FAILED
    assert failed.error is not None
    assert failed.error.startswith("Gave up after 3 attempts: the worker w3 stopped")
    assert locks.get(table) is None


def test_a_job_that_its_own_process_ran_fails_when_the_lease_runs_out_because_nobody_else_would_claim_it(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "dag/run/task try 1 on host:1", owner="dag/run/task")
    clock.move(minutes=30)

    assert jobs.sweep().failed == (claim.job.job_id,)
    failed = jobs.get(claim.job.job_id)
    assert failed.error is not None
    assert "dag/run/task try 1 on host:1 stopped sending heartbeats" in failed.error
    assert not jobs.holds(claim)
    assert locks.get(table) is None


def test_a_queued_job_that_its_task_takes_over_fails_when_that_task_dies(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    """Where tasks run inline there may be no worker, and a job that waits for one would keep its table locked."""
    job = jobs.submit(table, ACTIONS, owner="dag/run/task")
    lost = jobs.claim("pod-1")
    claim = jobs.take_over(job.job_id, "dag/run/task try 2 on host:1", owner="dag/run/task")
    assert not jobs.holds(lost)
    assert (claim.job.inline, jobs.running_in_workers()) == (True, {})
    clock.move(minutes=30)

    assert jobs.sweep().failed == (job.job_id,)
    assert locks.get(table) is None


def test_a_cancel_of_a_queued_job_leaves_the_job_alone_that_its_task_runs(jobs: Jobs, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS, owner="dag/run/task")
    claim = jobs.take_over(job.job_id, "dag/run/task try 2 on host:1", owner="dag/run/task")

    with pytest.raises(JobRunsInTask, match=f"Job {job.job_id} runs in its own task"):
        jobs.cancel(job.job_id, by="dag/run/task", unless_inline=True)
    assert jobs.holds(claim)
    assert jobs.cancel(job.job_id, by="vera").status is JobStatus.CANCELLED


def test_the_next_run_gets_the_table_of_a_process_that_died_even_where_nothing_sweeps(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    dead = jobs.submit_and_claim(table, ACTIONS, "w1", owner="dag/monday/task")
    with pytest.raises(TableLocked):
        jobs.submit_and_claim(table, ACTIONS, "w2", owner="dag/tuesday/task")
    clock.move(minutes=30)

    assert jobs.holds(jobs.submit_and_claim(table, ACTIONS, "w2", owner="dag/tuesday/task"))
    assert jobs.get(dead.job.job_id).status is JobStatus.FAILED


def test_the_sweep_pauses_in_drain_mode(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.submit(table, ACTIONS)
    claim = jobs.claim("w1")
    clock.move(hours=1)
    jobs.set_drain(True)

    assert jobs.sweep().paused
    assert jobs.holds(claim)
    jobs.set_drain(False)
    assert jobs.sweep().requeued == (claim.job.job_id,)


def test_queue_depth_counts_what_is_unclaimed_and_visible_and_nothing_else(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    jobs.submit(table, ACTIONS)
    jobs.submit(other_table, ACTIONS)
    assert jobs.queue_depth() == 2
    jobs.claim("w1")
    assert jobs.queue_depth() == 1
    clock.move(hours=1)
    assert jobs.queue_depth() == 1, "an expired claim is still claimed until it is swept"


def test_the_history_tells_the_life_of_a_job(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", submitted_by="ann")
    clock.move(minutes=1)
    jobs.finish(claim, JobStatus.COMPLETED, [DONE])

    history = jobs.history(claim.job.job_id)
    assert [entry.event for entry in history] == ["submitted", "claimed", "action", "completed"]
    assert history[0].detail["by"] == "ann"
    assert history[-1].at == clock.now


def test_all_heartbeats_of_an_attempt_are_one_entry_of_the_history(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w", owner="dag/run/task")
    first = clock.now
    for number in range(50):
        jobs.renew(claim)
        if number % 7 == 0:
            jobs.flush()
        clock.move(minutes=1)
    again = jobs.take_over(claim.job.job_id, "w2", owner="dag/run/task")
    jobs.renew(again)

    beats = [entry for entry in jobs.history(claim.job.job_id) if entry.event == "heartbeat"]
    assert [(entry.attempt_id, entry.at, entry.detail["count"]) for entry in beats] == [
        (claim.attempt_id, first, 50),
        (again.attempt_id, clock.now, 1),
    ]
    assert beats[0].detail["last_at"] == (clock.now - timedelta(minutes=1)).isoformat()


def test_a_history_that_cannot_be_written_fails_nothing(jobs: Jobs, table: TableName, caplog: pytest.LogCaptureFixture) -> None:
    with jobs.store.engine.begin() as conn:
        job_history.drop(conn)

    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    jobs.flush()
    assert "history_not_written" in caplog.text


@pytest.mark.one_database
def test_the_thread_that_writes_the_history_ends_when_nothing_is_left_to_write(store: Store, table: TableName) -> None:
    jobs = Jobs(store)  # never closed, as those of a cancellation in the triggerer
    events = sa.select(sa.func.count()).select_from(job_history)
    for number, act in enumerate([lambda: jobs.submit(table, ACTIONS), lambda: jobs.claim("w1")], start=1):
        act()
        eventually(lambda: "snowpack-history" not in {thread.name for thread in threading.enumerate()})
        assert store.scalar(events) == number


def test_lock_job_and_queue_row_are_written_together_or_not_at_all(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    with jobs.store.engine.begin() as conn:
        job_queue.drop(conn)

    with pytest.raises(sa.exc.DBAPIError):
        jobs.submit(table, ACTIONS)
    assert locks.get(table) is None
    assert jobs.list() == []


def test_a_lock_blocks_until_its_time_has_run_out_and_a_queued_job_s_lock_blocks_for_longer(
    jobs: Jobs, locks: TableLocks, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    locks.acquire(table, "etl", ttl=HOUR)
    job = jobs.submit(other_table, ["expire_snapshots"])
    clock.move(minutes=59)
    lock = locks.blocking(table)
    assert lock.holder == "etl"
    free = TableName(table.catalog, table.database, "free")
    with counted_reads() as reads:
        blocking = locks.blocking_each([table, other_table, free])
    assert [None if lock is None else lock.holder for lock in blocking.values()] == ["etl", job.job_id, None]
    assert len(reads.of_store) == 1
    clock.move(minutes=1)

    assert locks.blocking(table) is None
    lock = locks.blocking(other_table)
    assert lock.holder == job.job_id


def test_ids_are_found_by_how_they_begin(store: Store, table: TableName) -> None:
    ids = iter(["0a" * 16, "0a1" + "f" * 29, "0a2" * 10 + "00", "f" * 32])
    with Jobs(store, make_id=lambda: next(ids)) as jobs:
        made = [jobs.record_dry_run(table, ACTIONS, []).job_id for _ in range(4)]
        jobs.delete(made[2])

        assert jobs.ids_beginning("0a") == made[:2]
        assert jobs.ids_beginning("0a", limit=1) == made[:1]
        assert jobs.ids_beginning(made[3]) == [made[3]]
        assert jobs.ids_beginning("f" * 33) == jobs.ids_beginning("0b") == jobs.ids_beginning("\x00 \ud800") == []


def test_a_change_of_a_table_becomes_an_operation_of_its_job(jobs: Jobs, store: Store, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    record_change(jobs.store, claim, replace(DONE, change=TableChange(11, 12)))

    (operation,) = OperationLog(store).of_table(str(table)).items
    assert (operation.job_id, operation.detail["action"]) == (claim.job.job_id, DONE.action)


# -- requests with an entry in the audit trail ----------------------------------------------------------------------------------


def audited(trail: AuditTrail, subject: str) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.via, entry.change) for entry in trail.of(subject)]


def test_a_submit_is_a_job_of_the_actor_with_its_entry(jobs: Jobs, trail: AuditTrail, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS, options={"expire_snapshots": {"retain_last": 3}}, actor=VERA)

    assert jobs.get(job.job_id) == job
    assert job.submitted_by == "vera"
    (entry,) = trail.of(job.job_id)
    assert (entry.actor, entry.via, entry.change) == ("vera", "api", "submit")
    assert entry.detail == {"table": str(table), "actions": ACTIONS}
    assert entry.at == job.submitted_at


def test_every_change_of_a_job_is_on_record_in_order(jobs: Jobs, trail: AuditTrail, table: TableName, clock: MovedClock) -> None:
    job_id = jobs.submit(table, ACTIONS, actor=VERA).job_id
    clock.move(minutes=1)
    jobs.cancel(job_id, actor=VERA)
    clock.move(minutes=1)
    again = jobs.rerun(job_id, actor=VERA)
    jobs.delete(job_id, actor=VERA)

    assert [change for _, _, change in audited(trail, job_id)] == ["submit", "cancel", "delete"]
    (entry,) = trail.of(again.job_id)
    assert (entry.change, entry.detail["of"]) == ("rerun", job_id)


def test_a_sweep_is_on_record_when_it_changed_something(
    jobs: Jobs, trail: AuditTrail, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.sweep(actor=VERA)
    assert trail.of("queue") == []
    clock.move(hours=1)
    jobs.sweep(actor=VERA)

    (entry,) = trail.of("queue")
    assert (entry.change, entry.detail["failed"]) == ("sweep", [claim.job.job_id])


def test_switching_drain_mode_to_what_it_is_is_not_noted(jobs: Jobs, trail: AuditTrail) -> None:
    jobs.set_drain(False, actor=VERA)
    jobs.set_drain(True, reason="moving \x00 the store", actor=VERA)
    jobs.set_drain(True, reason="moving \x00 the store", actor=VERA)
    jobs.set_drain(True, actor=VERA)
    jobs.set_drain(False, actor=VERA)
    jobs.set_drain(False, reason="again", actor=VERA)

    assert [(entry.change, entry.detail) for entry in trail.of("drain")] == [
        ("drain_on", {"reason": "moving � the store"}),
        ("drain_off", {"reason": None}),
    ]


def test_a_second_drain_on_changes_the_reason_and_keeps_who_switched_it_on_and_when(
    jobs: Jobs, trail: AuditTrail, clock: MovedClock
) -> None:
    first = jobs.set_drain(True, reason="moving the store", actor=VERA)
    clock.move(hours=1)
    second = jobs.set_drain(True, reason="it takes until 18:00 \x00", actor=Actor("bob", via="cli"))

    assert second == jobs.drain() == replace(first, reason="it takes until 18:00 \ufffd")
    assert jobs.set_drain(True, actor=VERA) == second
    assert [(entry.actor, entry.change, entry.detail) for entry in trail.of("drain")] == [
        ("vera", "drain_on", {"reason": "moving the store"}),
        ("bob", "drain_reason", {"reason": "it takes until 18:00 \ufffd"}),
    ]


def test_a_lock_is_released_for_its_holder_only_and_on_record(
    jobs: Jobs, locks: TableLocks, trail: AuditTrail, table: TableName
) -> None:
    locks.acquire(table, "etl", ttl=HOUR)

    assert not locks.release(table, "reload")
    assert jobs.break_lock(table, "somebody else", actor=VERA) is None
    assert trail.of(str(table)) == []
    assert jobs.break_lock(table, "etl", actor=VERA).holder == "etl"
    assert jobs.break_lock(table, "etl", actor=VERA) is None
    assert audited(trail, str(table)) == [("vera", "api", "release_lock")]
    locks.acquire(table, "etl", ttl=HOUR)
    assert [locks.release(table, "etl") for _ in range(2)] == [True, False]
    assert locks.get(table) is None


@pytest.mark.parametrize("deleted", [False, True], ids=["listed", "deleted"])
def test_the_lock_of_a_cancelled_job_whose_worker_may_be_at_work_is_released_by_force_only(
    jobs: Jobs, locks: TableLocks, table: TableName, deleted: bool
) -> None:
    job = jobs.submit_and_claim(table, ACTIONS, "w1").job
    jobs.cancel(job.job_id, actor=VERA)
    if deleted:
        jobs.delete(job.job_id, actor=VERA)

    with pytest.raises(LockInUse, match="its worker has not left the table yet"):
        jobs.break_lock(table, job.job_id, actor=VERA)
    assert jobs.break_lock(table, job.job_id, force=True, actor=VERA) is not None
    assert locks.list() == []


def test_an_id_that_no_job_has_is_not_found_whatever_is_in_it(jobs: Jobs, trail: AuditTrail) -> None:
    for job_id in ("no-such-job", "", "a\x00b", "\ud800", "💾" * 200):
        for change in (jobs.cancel, jobs.delete, jobs.rerun, jobs.get):
            with pytest.raises(JobNotFound):
                change(job_id)
        assert jobs.find(job_id) is None
        assert jobs.history(job_id) == trail.of(job_id) == []


# -- idempotency keys -----------------------------------------------------------------------------------------------------------


def test_the_same_request_again_is_the_same_job(
    jobs: Jobs, store: Store, table: TableName, ask: Callable[..., Submission]
) -> None:
    first, second = ask(jobs, table), ask(jobs, table)

    assert (first.again, second.again) == (False, True)
    assert first.job == second.job
    assert rows(store, jobs_table, audit_trail) == [1, 1]


def test_a_key_belongs_to_whoever_used_it(
    jobs: Jobs, table: TableName, other_table: TableName, ask: Callable[..., Submission]
) -> None:
    mine = ask(jobs, table)
    theirs = ask(jobs, other_table, actor=Actor("tom", via="api"))

    assert mine.job.job_id != theirs.job.job_id
    assert not theirs.again


def test_a_key_is_forgotten_after_a_day(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock, ask: Callable[..., Submission]
) -> None:
    first = ask(jobs, table)
    clock.now += KEPT - timedelta(microseconds=1)
    assert ask(jobs, table).job.job_id == first.job.job_id
    clock.now += timedelta(microseconds=1)

    assert not ask(jobs, other_table).again
    assert ask(jobs, other_table).again


def test_what_a_request_became_before_can_be_looked_up_by_its_key_and_without_one_each_is_a_new_one(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    first, second = (jobs.submit_once(table, ACTIONS, key=None, actor=VERA, results=[DONE]) for _ in range(2))

    assert (first.again, second.again) == (False, False)
    assert first.job.job_id != second.job.job_id

    request = RequestKey.of(VERA, "key", table, ACTIONS, None, dry_run=False)
    assert jobs.submitted_before(request) is None

    job = jobs.submit_once(table, ACTIONS, key="key", actor=VERA).job
    assert jobs.submitted_before(request) == job
    with pytest.raises(KeyUsedBefore):
        jobs.submitted_before(RequestKey.of(VERA, "key", other_table, ACTIONS, None, dry_run=False))


def test_a_key_is_forgotten_with_its_job(
    jobs: Jobs, table: TableName, other_table: TableName, ask: Callable[..., Submission]
) -> None:
    first = ask(jobs, table).job
    if not first.status.is_terminal:
        jobs.cancel(first.job_id, actor=VERA)
    jobs.delete(first.job_id, actor=VERA)

    second = ask(jobs, other_table)
    assert not second.again
    assert second.job.job_id != first.job_id
    with pytest.raises(JobNotFound):
        jobs.get(first.job_id)


def test_the_sweep_removes_old_keys_and_keeps_young_ones(jobs: Jobs, store: Store, table: TableName, clock: MovedClock) -> None:
    jobs.submit_once(table, ACTIONS, results=[], key="old", actor=VERA)
    clock.now += KEPT / 2
    jobs.submit_once(table, ACTIONS, results=[], key="young", actor=VERA)
    clock.now += KEPT / 2 + timedelta(seconds=1)
    jobs.sweep()

    keys = store.read(lambda conn: conn.execute(sa.select(idempotency_keys.c.key)).scalars().all())
    assert keys == ["young"]


# -- the audit trail ------------------------------------------------------------------------------------------------------------


def test_pages_go_back_in_time_and_repeat_nothing_while_more_happens(jobs: Jobs, clock: MovedClock) -> None:
    trail, vera = AuditTrail(jobs.store), Actor("vera", via="cli")
    for number in range(7):
        jobs.submit(TableName("lake", "db", f"t{number}"), ["expire_snapshots"], actor=vera)
        clock.move(seconds=1)
    everything = trail.latest()
    seen = trail.latest(limit=3)
    while page := trail.latest(limit=3, before=seen[-1].id):
        seen += page
        jobs.set_drain(not jobs.drain().on, actor=vera)

    assert seen == everything
    assert [entry.at for entry in seen] == sorted((entry.at for entry in seen), reverse=True)
    assert {entry.via for entry in seen} == {"cli"}


def test_a_page_can_be_of_one_subject_and_any_number_is_a_place_in_the_trail(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    trail, vera = AuditTrail(jobs.store), Actor("vera", via="page")
    job = jobs.submit(table, ["expire_snapshots"], actor=vera)
    for on in (True, False, True, False):
        jobs.set_drain(on, reason="upgrade", actor=vera)
        clock.move(seconds=1)
    jobs.cancel(job.job_id, actor=vera)

    assert [entry.change for entry in trail.latest(subject=job.job_id)] == ["cancel", "submit"]
    assert [entry.change for entry in trail.latest(limit=3, subject="drain")] == ["drain_off", "drain_on", "drain_off"]
    assert [entry.change for entry in trail.of("drain")] == ["drain_on", "drain_off"] * 2
    assert trail.latest(subject="nothing \x00 \ud800") == []

    assert trail.latest(before=2**200) == trail.latest()
    assert trail.latest(before=-(2**200)) == []
    assert trail.latest(before=0) == []


# -- lists, searches and counts -------------------------------------------------------------------------------------------------


def numbered(number: int) -> TableName:
    return TableName("lake", "db", f"t{number}")


def walk(jobs: Jobs, which: JobFilter, limit: int) -> list[str]:
    """The ids on all pages."""
    seen, cursor = [], None
    while True:
        page = jobs.page(which, after=cursor, limit=limit)
        assert len(page.items) <= limit
        seen += [job.job_id for job in page.items]
        cursor = page.next
        if cursor is None:
            return seen


def make(jobs: Jobs, table: TableName, status: JobStatus, **said: Any) -> Job:
    """A job in this state."""
    job = jobs.submit(table, ACTIONS, **said)
    match status:
        case JobStatus.PENDING:
            pass
        case JobStatus.CANCELLED:
            jobs.cancel(job.job_id)
        case _:
            claim = jobs.claim("w", job_id=job.job_id)
            if status.is_terminal:
                assert jobs.finish(claim, status, [], "boom" if status is JobStatus.FAILED else None)
    return jobs.get(job.job_id)


def test_pages_go_from_the_newest_to_the_oldest_and_by_id_at_the_same_moment(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(9):
        made.append(jobs.submit(numbered(number), ACTIONS))
        clock.move(seconds=number % 3)
    newest_first = sorted(made, key=lambda job: (job.submitted_at, job.job_id), reverse=True)

    for limit in (1, 2, 8, 9, 10):
        assert walk(jobs, JobFilter(), limit) == [job.job_id for job in newest_first]


def test_several_statuses_are_any_of_them_in_one_order(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(15):
        made.append(make(jobs, numbered(number), STATUSES[number % 5]))
        clock.move(seconds=1)

    for statuses in ({JobStatus.FAILED}, {JobStatus.FAILED, JobStatus.RUNNING}, set(STATUSES)):
        expected = [job.job_id for job in reversed(made) if job.status in statuses]
        assert walk(jobs, JobFilter(statuses=frozenset(statuses)), 2) == expected
    assert jobs.count() == JobCounts(dict.fromkeys(STATUSES, 3), frozenset())
    assert jobs.count(at_most=2) == JobCounts(dict.fromkeys(STATUSES, 2), frozenset(STATUSES))


def test_filters_narrow_together(jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock) -> None:
    old = make(jobs, table, JobStatus.FAILED, submitted_by="ann", owner="dag_a/run/task")
    clock.move(hours=1)
    plan = jobs.record_dry_run(table, ACTIONS, [], submitted_by="bob")
    new = make(jobs, other_table, JobStatus.PENDING, owner="dag_a_b/run/task[3]")

    def found(**which: Any) -> set[str]:
        return {job.job_id for job in jobs.page(JobFilter(**which)).items}

    assert found(table=table) == {old.job_id, plan.job_id}
    assert found(table=table, dry_run=False) == {old.job_id}
    assert jobs.list(table, JobStatus.FAILED, limit=1) == [old]
    assert found(table=table, statuses=frozenset({JobStatus.FAILED, JobStatus.PENDING})) == {old.job_id}
    assert found(dag_id="dag_a") == {old.job_id}
    assert found(dag_id="dag_a_b") == {new.job_id}
    assert found(dag_id="dag") == set()
    assert found(since=clock.now) == {plan.job_id, new.job_id}
    assert found(until=clock.now) == {old.job_id}
    assert found(until=clock.now, search="PAGE_VIEWS", statuses=frozenset({JobStatus.FAILED})) == {old.job_id}
    assert found(until=clock.now, dry_run=True) == set()


def test_a_dag_of_any_name_finds_its_own_jobs_only(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS, owner="compact/run/task")

    for name in ("a\x00b", "\ud800", "'; DROP TABLE jobs; --", "a" * 300, "%", "_", "COMPACT"):
        assert jobs.page(JobFilter(dag_id=name)).items == (), name


def test_a_search_finds_exactly_what_is_written_and_nothing_that_nobody_wrote(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    other = jobs.submit_and_claim(other_table, ACTIONS, "w")
    jobs.finish(other, JobStatus.FAILED, [], "something else, with axb and 100 files")
    for text in ("%", "_", "\\", "/", "%%", "\\%", "\x00", "a\x00", "\ud800", "\udfff\ud800", "💾", "x" * 10_000):
        assert jobs.page(JobFilter(search=text)).items == (), text
        assert jobs.count(JobFilter(search=text)) == JobCounts(dict.fromkeys(STATUSES, 0), frozenset())

    for error in ("100% of", "a_b", "back\\slash", "a/b", "it's", 'a "b"', "Grüße aus Übersee", "數據庫", "[x]", "(a|b)*"):
        claim = jobs.submit_and_claim(table, ACTIONS, "w")
        jobs.finish(claim, JobStatus.FAILED, [], f"before {error} after")
        assert [job.job_id for job in jobs.page(JobFilter(search=error)).items] == [claim.job.job_id], error


def test_a_search_looks_at_table_id_submitter_owner_and_error_in_upper_and_lower_case(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w", submitted_by="Ann", owner="Dag/run/task")
    jobs.finish(claim, JobStatus.FAILED, [], "Boom")

    for text in ("ANALYTICS.PAGE", claim.job.job_id[3:12].upper(), "aNN", "dag/RUN", "bOOM", ""):
        assert len(jobs.page(JobFilter(search=text)).items) == 1, text


def test_a_cursor_of_a_job_that_was_deleted_since_goes_on_at_its_place(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(3):
        made.append(make(jobs, numbered(number), JobStatus.COMPLETED))
        clock.move(seconds=1)
    cursor = jobs.page(limit=2).next
    jobs.delete(made[1].job_id)

    assert [job.job_id for job in jobs.page(after=cursor, limit=2).items] == [made[0].job_id]


def test_the_newest_job_of_each_table_is_found_among_thousands_and_dry_runs_are_asked_for_apart(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    make(jobs, table, JobStatus.FAILED)
    clock.move(seconds=1)
    newest = make(jobs, table, JobStatus.COMPLETED)
    clock.move(seconds=1)
    plan = jobs.record_dry_run(table, ACTIONS, [])
    clock.move(seconds=1)
    deleted = make(jobs, other_table, JobStatus.COMPLETED)
    jobs.delete(deleted.job_id)

    asked = [table, other_table, numbered(1)]
    assert jobs.latest(asked) == {table: newest}
    assert jobs.latest(asked, dry_run=True) == {table: plan}
    assert jobs.latest([]) == {}

    assert jobs.latest([*(numbered(number) for number in range(3000)), table]) == {table: newest}


def test_counts_by_status_leave_deleted_jobs_out(jobs: Jobs) -> None:
    for number, status in enumerate([*STATUSES, JobStatus.FAILED, JobStatus.FAILED]):
        job = make(jobs, numbered(number), status)
    jobs.delete(job.job_id)

    assert jobs.count().by_status == {**dict.fromkeys(STATUSES, 1), JobStatus.FAILED: 2}
    assert jobs.count_open() == {JobStatus.PENDING: 1, JobStatus.RUNNING: 1}
    later = JobFilter(since=job.submitted_at + timedelta(seconds=1))
    assert jobs.count(later).by_status == dict.fromkeys(STATUSES, 0)


def test_recent_jobs_are_active_or_ended_within_the_period_newest_first(jobs: Jobs, clock: MovedClock) -> None:
    make(jobs, numbered(1), JobStatus.COMPLETED)
    clock.move(seconds=10)
    since = clock()
    ended = make(jobs, numbered(2), JobStatus.FAILED)
    clock.move(seconds=1)
    pending = jobs.submit(numbered(3), ACTIONS)
    jobs.record_dry_run(numbered(4), ACTIONS, [])

    assert [job.job_id for job in jobs.recent(since, at_most=10)] == [pending.job_id, ended.job_id]
    clock.move(seconds=1)
    newer = jobs.submit(numbered(5), ACTIONS)
    assert [job.job_id for job in jobs.recent(since, at_most=1)] == [newer.job_id, ended.job_id]
    clock.move(days=9)
    assert {job.job_id for job in jobs.recent(clock(), at_most=10)} == {newer.job_id, pending.job_id}


def test_the_history_of_a_table_knows_when_each_action_last_succeeded(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    done, failed = (ActionResult(action, outcome, "", 1.0) for action, outcome in zip(ACTIONS, OUTCOMES, strict=True))
    claim = jobs.submit_and_claim(table, ACTIONS, "w")
    jobs.finish(claim, JobStatus.FAILED, [done, failed], "no")

    histories = jobs.action_histories([table, numbered(1)])
    assert histories[table].of(ACTIONS[0]).last_success_at == clock()
    assert (histories[table].of(ACTIONS[1]).last_success_at, histories[table].of(ACTIONS[1]).failures) == (None, 1)
    assert histories[numbered(1)].of(ACTIONS[0]).last_run_at is None


# -- the queue ------------------------------------------------------------------------------------------------------------------


def test_the_queue_tells_what_could_be_claimed_what_waits_and_what_runs(jobs: Jobs, clock: MovedClock) -> None:
    assert jobs.queue() == QueueState(depth=0, oldest=None, delayed=0, running=0)

    jobs.submit(fresh(), ACTIONS)
    lost = jobs.claim("w1")
    clock.move(hours=1)
    jobs.sweep()  # back in the queue, behind a back-off
    waiting = jobs.submit(fresh(), ACTIONS)
    clock.move(seconds=1)
    jobs.submit(fresh(), ACTIONS)
    running = jobs.submit(fresh(), ACTIONS)
    jobs.claim("w2", job_id=running.job_id)

    assert jobs.queue() == QueueState(depth=2, oldest=waiting.submitted_at, delayed=1, running=1)
    assert jobs.queue().depth == jobs.queue_depth()
    clock.move(minutes=5)
    assert jobs.queue() == QueueState(depth=3, oldest=lost.job.submitted_at, delayed=0, running=1)


def test_only_what_could_be_claimed_before_it_is_ahead_of_a_job(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for _ in range(5):
        made.append(jobs.submit(fresh(), ACTIONS))
        clock.move(seconds=1)
    jobs.claim("w", job_id=made[1].job_id)
    jobs.cancel(made[2].job_id)
    places = jobs.places(job.job_id for job in made)

    assert made[2].job_id not in places
    ahead = jobs.ahead_of([made[number].job_id for number in (0, 3, 4)])
    assert [ahead[made[number].job_id] for number in (0, 3, 4)] == [0, 1, 2]
    assert jobs.find_all([made[2].job_id, "gone"]) == {made[2].job_id: jobs.get(made[2].job_id)}
    assert (places[made[1].job_id].claimed_by, places[made[1].job_id].attempt) == ("w", 1)
    assert (places[made[0].job_id].claimed_by, places[made[0].job_id].attempt) == (None, 0)
    assert jobs.places([]) == {}


def test_deleted_jobs_and_dry_runs_are_no_part_of_the_samples(jobs: Jobs, clock: MovedClock) -> None:
    job = jobs.submit(fresh(), ACTIONS)
    jobs.record_dry_run(fresh(), ACTIONS, [])
    clock.move(minutes=10)
    jobs.cancel(job.job_id)
    clock.move(minutes=10)
    assert {sample.waiting for sample in jobs.queue_over_time(timedelta(hours=1), 60)} == {0, 1}

    jobs.delete(job.job_id)
    assert {(sample.waiting, sample.running) for sample in jobs.queue_over_time(timedelta(hours=1), 60)} == {(0, 0)}


def test_a_job_that_has_waited_for_weeks_is_seen_as_long_as_it_waits(jobs: Jobs, clock: MovedClock) -> None:
    jobs.submit(fresh(), ACTIONS)
    clock.move(days=30)

    assert {sample.waiting for sample in jobs.queue_over_time(timedelta(hours=1), 4)} == {1}


# -- explanations ---------------------------------------------------------------------------------------------------------------


def test_many_tables_are_told_at_once(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    jobs.submit(table, ACTIONS)

    explained = explain_tables(jobs, [table, other_table, numbered(1)])
    assert list(explained) == [table, other_table, numbered(1)]
    assert [each.lock is not None for each in explained.values()] == [True, False, False]
    assert explain_tables(jobs, []) == {}


# -- the whole of it ---------------------------------------------------------------------------------------------------


def test_every_public_method_is_called_here() -> None:
    called = {node.attr for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Attribute)}
    public = {name for room in (Jobs, TableLocks, AuditTrail) for name in dir(room) if not name.startswith("_")}

    assert public - called - {"close"} == set()
