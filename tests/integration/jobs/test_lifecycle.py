"""Specification 000 step by step, on SQLite and on Postgres."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    DrainModeOn,
    JobAlreadyFinished,
    JobNotFound,
    Jobs,
    JobStatus,
    JobStillActive,
    LifecyclePolicy,
    NotTheOwner,
    TableLocked,
    TableLocks,
)
from airflow_snowpack.store.schema import job_history, job_queue
from airflow_snowpack.store.schema import jobs as jobs_table

if TYPE_CHECKING:
    from conftest import MovedClock

    from airflow_snowpack.iceberg import TableName

ACTIONS = ["rewrite_data_files", "expire_snapshots"]
DONE = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 87 files into 12", 1.5, metrics={"files": 87})


def test_a_submitted_job_is_pending_queued_and_holds_its_table(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS, options={"expire_snapshots": {"retain_last": 3}}, submitted_by="ann")

    assert jobs.get(job.job_id) == job
    assert job.status is JobStatus.PENDING
    assert jobs.queue_depth() == 1
    lock = locks.get(table)
    assert lock is not None
    assert lock.holder == job.job_id


def test_a_second_submit_for_a_table_names_the_holder_since_when_and_until_when(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    clock.forward(minutes=1)

    with pytest.raises(TableLocked, match=rf"locked by {job.job_id} since 2026-11-21T22:00:00.*until 2026-11-21T22:30:00"):
        jobs.submit(table, ACTIONS)
    assert len(jobs.list()) == 1
    assert jobs.queue_depth() == 1


def test_tables_of_other_names_do_not_stand_in_each_others_way(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    jobs.submit(table, ACTIONS)
    jobs.submit(other_table, ACTIONS)

    assert jobs.queue_depth() == 2


def test_drain_mode_refuses_before_anything_is_written(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    jobs.set_drain(True, by="ops", reason="moving to Postgres 18")

    with pytest.raises(DrainModeOn, match=r"since 2026-11-21.* by ops \(moving to Postgres 18\)"):
        jobs.submit(table, ACTIONS)
    with pytest.raises(DrainModeOn):
        jobs.record_dry_run(table, ACTIONS, [])
    assert jobs.list() == []
    assert locks.list() == []


def test_in_drain_mode_a_locked_table_is_reported_as_drained(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS)
    jobs.set_drain(True)

    with pytest.raises(DrainModeOn):
        jobs.submit(table, ACTIONS)


def test_a_drained_store_still_lets_workers_finish_what_was_queued(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS)
    jobs.set_drain(True)

    claim = jobs.claim("w1")
    assert claim is not None
    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])


def test_switching_drain_mode_on_twice_keeps_who_did_it_first(jobs: Jobs, clock: MovedClock) -> None:
    first = jobs.set_drain(True, by="ops")
    clock.forward(hours=1)

    assert jobs.set_drain(True, by="somebody else") == first
    assert not jobs.set_drain(False, by="ops").on


def test_a_dry_run_is_completed_at_once_without_queue_row_or_lock(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    job = jobs.record_dry_run(table, ACTIONS, [DONE])

    assert jobs.get(job.job_id) == job
    assert (job.status, job.dry_run, job.results) == (JobStatus.COMPLETED, True, (DONE,))
    assert jobs.queue_depth() == 0
    assert locks.get(table) is None


def test_a_dry_run_is_possible_while_the_table_is_maintained(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS)

    assert jobs.record_dry_run(table, ACTIONS, []).status is JobStatus.COMPLETED


def test_a_claim_starts_the_job_under_a_new_fence_with_the_lease_of_the_policy(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    clock.forward(hours=2)
    claim = jobs.claim("w1")

    assert claim is not None
    stored = jobs.get(job.job_id)
    assert (stored.status, stored.attempt_id, stored.attempt) == (JobStatus.RUNNING, claim.attempt_id, 1)
    assert stored.started_at == clock.now
    assert claim.lease_until == clock.now + timedelta(seconds=1800)
    lock = locks.get(table)
    assert lock is not None
    assert lock.expires_at == claim.lease_until
    assert jobs.queue_depth() == 0


def test_claims_go_in_the_order_of_submission(jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock) -> None:
    first = jobs.submit(table, ACTIONS)
    clock.forward(seconds=1)
    second = jobs.submit(other_table, ACTIONS)

    claims = [jobs.claim("w1"), jobs.claim("w1"), jobs.claim("w1")]
    assert [claim and claim.job.job_id for claim in claims] == [first.job_id, second.job_id, None]


def test_a_named_job_is_claimed_once(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    jobs.submit(table, ACTIONS)
    wanted = jobs.submit(other_table, ACTIONS)

    claim = jobs.claim("w1", job_id=wanted.job_id)
    assert claim is not None
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
    clock.forward(minutes=20)
    assert jobs.renew(claim)
    clock.forward(minutes=20)

    assert jobs.sweep().requeued == ()
    lock = locks.get(table)
    assert lock is not None
    assert lock.expires_at == clock.now + timedelta(minutes=10)


def test_finishing_writes_the_result_empties_the_queue_and_frees_the_table(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    clock.forward(minutes=3)

    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    job = jobs.get(claim.job.job_id)
    assert (job.status, job.results, job.completed_at) == (JobStatus.COMPLETED, (DONE,), clock.now)
    assert locks.get(table) is None
    assert jobs.submit(table, ACTIONS).status is JobStatus.PENDING


@pytest.mark.parametrize("status", [JobStatus.PENDING, JobStatus.RUNNING, JobStatus.CANCELLED])
def test_an_attempt_ends_as_completed_or_failed_and_as_nothing_else(jobs: Jobs, table: TableName, status: JobStatus) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")

    with pytest.raises(ValueError, match="completed or failed"):
        jobs.finish(claim, status, [])


def test_only_one_of_two_attempts_at_a_job_reaches_a_terminal_state(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    jobs.submit(table, ACTIONS)
    first = jobs.claim("w1")
    assert first is not None
    clock.forward(minutes=31)
    jobs.sweep()
    clock.forward(minutes=2)
    second = jobs.claim("w2")
    assert second is not None

    assert not jobs.holds(first)
    assert not jobs.renew(first)
    assert not jobs.record_progress(first, [DONE])
    assert not jobs.finish(first, JobStatus.FAILED, [], "late")
    assert not jobs.release_lock(first)
    assert locks.get(table) is not None, "the table is the second attempt's now"
    assert jobs.finish(second, JobStatus.COMPLETED, [DONE])
    assert jobs.get(first.job.job_id).attempt_id == second.attempt_id


def test_a_retry_takes_its_own_job_over_at_once(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    first = jobs.submit_and_claim(table, ACTIONS, "try-1", owner="dag/run/task")
    clock.forward(seconds=4)
    owned = jobs.find_owned("dag/run/task")
    assert owned is not None
    second = jobs.take_over(owned.job_id, "try-2", owner="dag/run/task", actions=["rewrite_manifests"])

    assert second.attempt == 2
    assert second.job.actions == ("rewrite_manifests",)
    assert not jobs.holds(first)
    assert not jobs.finish(first, JobStatus.COMPLETED, [])
    assert jobs.finish(second, JobStatus.COMPLETED, [])
    assert jobs.find_owned("dag/run/task") is None


def test_a_job_is_taken_over_by_its_owner_only(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", owner="dag/run/task")

    with pytest.raises(NotTheOwner, match="belongs to dag/run/task"):
        jobs.take_over(claim.job.job_id, "w2", owner="dag/other-run/task")
    assert jobs.holds(claim)


def test_a_finished_job_cannot_be_taken_over(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", owner="me")
    jobs.finish(claim, JobStatus.COMPLETED, [])

    with pytest.raises(JobAlreadyFinished):
        jobs.take_over(claim.job.job_id, "w2", owner="me")


def test_a_retry_takes_over_what_its_own_earlier_try_had_claimed_and_nothing_else(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    jobs.submit(table, ACTIONS)
    jobs.submit(other_table, ACTIONS)
    mine, theirs = jobs.claim("dag/run/work try 1 on a:1"), jobs.claim("dag/run/work_2 try 1 on a:2")
    assert mine is not None
    assert theirs is not None

    again = jobs.reclaim("dag/run/work try ", "dag/run/work try 2 on b:3")
    assert again is not None
    assert (again.job.job_id, again.attempt) == (mine.job.job_id, 2)
    assert not jobs.holds(mine)
    assert jobs.holds(theirs)
    assert jobs.reclaim("dag/run/work_2 try ", "x", job_id=mine.job.job_id) is None
    assert jobs.reclaim("dag%/", "x") is None
    assert jobs.reclaim("DAG/run/work try ", "x") is None


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
    assert jobs.get(claim.job.job_id).error == "Cancelled by ann"


def test_the_sweep_frees_the_table_of_a_cancelled_job_whose_worker_never_left(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.cancel(claim.job.job_id)
    assert jobs.sweep().unlocked == ()
    clock.forward(minutes=31)

    assert jobs.sweep().unlocked == (str(table),)
    assert locks.get(table) is None


def test_a_cancelled_job_stays_cancelled_when_its_worker_reports_the_end(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.cancel(claim.job.job_id)

    assert not jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    assert not jobs.finish(claim, JobStatus.FAILED, [], "boom")
    clock.forward(hours=1)
    jobs.sweep()
    job = jobs.get(claim.job.job_id)
    assert (job.status, job.attempt_id, job.results) == (JobStatus.CANCELLED, None, ())


def test_cancelling_a_finished_job_is_refused(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    jobs.finish(claim, JobStatus.FAILED, [], "boom")

    with pytest.raises(JobAlreadyFinished, match="already failed"):
        jobs.cancel(claim.job.job_id)
    with pytest.raises(JobNotFound):
        jobs.cancel("no-such-job")


def test_a_deleted_job_is_out_of_sight_but_its_row_stays(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    with pytest.raises(JobStillActive, match="still running"):
        jobs.delete(claim.job.job_id)
    jobs.finish(claim, JobStatus.COMPLETED, [])
    jobs.delete(claim.job.job_id)

    with pytest.raises(JobNotFound):
        jobs.get(claim.job.job_id)
    with pytest.raises(JobNotFound):
        jobs.delete(claim.job.job_id)
    assert jobs.list() == []
    assert jobs.store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(jobs_table)).scalar_one()) == 1


def test_a_job_whose_lease_ran_out_waits_longer_after_each_attempt_and_then_fails_with_its_reason(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    for attempt, wait in ((1, 60), (2, 120)):
        claim = jobs.claim(f"w{attempt}")
        assert claim is not None
        clock.forward(minutes=30)
        assert jobs.sweep().requeued == (job.job_id,)
        assert jobs.get(job.job_id).status is JobStatus.PENDING
        assert not jobs.holds(claim), "the fence moves on every reclaim"
        clock.forward(seconds=wait - 1)
        assert jobs.queue_depth() == 0
        assert jobs.claim("early") is None
        clock.forward(seconds=1)
        assert jobs.queue_depth() == 1
    assert jobs.claim("w3") is not None
    clock.forward(minutes=30)

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
    clock.forward(minutes=30)

    assert jobs.sweep().failed == (claim.job.job_id,)
    failed = jobs.get(claim.job.job_id)
    assert failed.error is not None
    assert "dag/run/task try 1 on host:1 stopped sending heartbeats" in failed.error
    assert not jobs.holds(claim)
    assert locks.get(table) is None


def test_the_next_run_gets_the_table_of_a_process_that_died_even_where_nothing_sweeps(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    dead = jobs.submit_and_claim(table, ACTIONS, "w1", owner="dag/monday/task")
    with pytest.raises(TableLocked):
        jobs.submit_and_claim(table, ACTIONS, "w2", owner="dag/tuesday/task")
    clock.forward(minutes=30)

    assert jobs.holds(jobs.submit_and_claim(table, ACTIONS, "w2", owner="dag/tuesday/task"))
    assert jobs.get(dead.job.job_id).status is JobStatus.FAILED


def test_a_job_that_waits_for_a_worker_is_named_as_what_keeps_the_table(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    job = jobs.submit(table, ACTIONS)
    clock.forward(hours=2)

    with pytest.raises(TableLocked, match=rf"{job.job_id}.*the job still waits for a worker\. Start a worker"):
        jobs.submit(table, ACTIONS)


def test_the_sweep_pauses_in_drain_mode(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.submit(table, ACTIONS)
    claim = jobs.claim("w1")
    assert claim is not None
    clock.forward(hours=1)
    jobs.set_drain(True)

    assert jobs.sweep().paused
    assert jobs.holds(claim)
    jobs.set_drain(False)
    assert jobs.sweep().requeued == (claim.job.job_id,)


def test_a_pending_job_keeps_its_table_however_long_it_waits(
    jobs: Jobs, locks: TableLocks, table: TableName, clock: MovedClock
) -> None:
    job = jobs.submit(table, ACTIONS)
    clock.forward(days=3)

    assert jobs.sweep().unlocked == ()
    with pytest.raises(TableLocked):
        jobs.submit(table, ACTIONS)
    lock = locks.get(table)
    assert lock is not None
    assert lock.holder == job.job_id


def test_queue_depth_counts_what_is_unclaimed_and_visible_and_nothing_else(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    jobs.submit(table, ACTIONS)
    jobs.submit(other_table, ACTIONS)
    assert jobs.queue_depth() == 2
    jobs.claim("w1")
    assert jobs.queue_depth() == 1
    clock.forward(hours=1)
    assert jobs.queue_depth() == 1, "an expired claim is still claimed until it is swept"


def test_progress_is_seen_while_the_job_runs(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")

    assert jobs.record_progress(claim, [DONE])
    assert jobs.get(claim.job.job_id).results == (DONE,)


def test_jobs_are_listed_newest_first_by_table_and_status(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    older = jobs.submit(table, ACTIONS)
    clock.forward(seconds=1)
    newer = jobs.submit(other_table, ACTIONS)

    assert [job.job_id for job in jobs.list()] == [newer.job_id, older.job_id]
    assert [job.job_id for job in jobs.list(table=table)] == [older.job_id]
    assert jobs.list(status=JobStatus.FAILED) == []
    assert len(jobs.list(status=JobStatus.PENDING, limit=1)) == 1


def test_the_history_tells_the_life_of_a_job(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1", submitted_by="ann")
    clock.forward(minutes=1)
    jobs.finish(claim, JobStatus.COMPLETED, [DONE])

    history = jobs.history(claim.job.job_id)
    assert [entry.event for entry in history] == ["submitted", "claimed", "action", "completed"]
    assert history[0].detail["by"] == "ann"
    assert history[-1].at == clock.now


def test_a_history_that_cannot_be_written_fails_nothing(jobs: Jobs, table: TableName, caplog: pytest.LogCaptureFixture) -> None:
    with jobs.store.engine.begin() as conn:
        job_history.drop(conn)

    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    jobs.flush()
    assert "history_not_written" in caplog.text


def test_a_shorter_lease_comes_from_the_policy(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    short = Jobs(jobs.store, LifecyclePolicy(lease=timedelta(seconds=5), max_attempts=1))
    claim = short.submit_and_claim(table, ACTIONS, "w1")
    clock.forward(seconds=5)

    assert short.sweep().failed == (claim.job.job_id,)


def test_lock_job_and_queue_row_are_written_together_or_not_at_all(jobs: Jobs, locks: TableLocks, table: TableName) -> None:
    with jobs.store.engine.begin() as conn:
        job_queue.drop(conn)

    with pytest.raises(sa.exc.DBAPIError):
        jobs.submit(table, ACTIONS)
    assert locks.get(table) is None
    assert jobs.list() == []
