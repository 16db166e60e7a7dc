"""Why a job waits and what comes next for a table, each in one true sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from clocks import MovedClock

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    Jobs,
    JobStatus,
    TableExplanation,
    TableLocks,
    explain,
    explain_tables,
)
from airflow_snowpack.jobs.withdrawal import withdraw

ACTIONS = ["rewrite_data_files", "expire_snapshots"]
DONE = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 87 files into 12", 1.5, metrics={"files": 87})
WORK = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "would compact 87 files", 0.1, metrics={"files": 87})
NONE = ActionResult(
    "expire_snapshots",
    ActionOutcome.SUCCEEDED,
    "would expire nothing",
    0.1,
    metrics={"expired_snapshots_count": 0, "kept_snapshots_count": 7},
)
pytestmark = pytest.mark.one_database


def numbered(number: int) -> TableName:
    return TableName("lake", "analytics", f"t{number}")


def explained(jobs: Jobs, table: TableName) -> TableExplanation:
    return explain_tables(jobs, [table])[table]


def next_step(jobs: Jobs, table: TableName) -> str:
    return str(explained(jobs, table).next_step)


def test_a_waiting_job_says_how_many_are_ahead_of_it_and_how_many_workers_are_busy(jobs: Jobs, clock: MovedClock) -> None:
    def wait(number: int) -> str:
        clock.move(seconds=1)
        job = jobs.submit(numbered(number), ACTIONS)
        assert str(explain(jobs, job)) == next_step(jobs, numbered(number))
        return str(explain(jobs, job)).removeprefix("Waiting for a worker: ")

    assert wait(1).startswith("next in the queue, no worker busy. If no worker runs, start one with `airflow ")
    assert wait(2).startswith("1 job ahead, no worker busy. If no worker runs,")
    jobs.claim("w")
    assert next_step(jobs, numbered(2)) == "Waiting for a worker: next in the queue, 1 worker busy."
    assert wait(3) == "1 job ahead, 1 worker busy."
    jobs.claim("w")
    assert [wait(number) for number in (4, 5, 6)][-1] == "3 jobs ahead, 2 workers busy."


def test_a_job_that_no_worker_can_claim_says_which_worker_to_start(jobs: Jobs, table: TableName) -> None:
    """Neither a task that runs its own job nor a worker of another catalog will ever claim it."""
    jobs.submit_and_claim(numbered(1), ACTIONS, "a task")
    jobs.submit(replace(numbered(2), catalog_id="other"), ACTIONS)
    assert jobs.claim("a worker of another catalog", catalog_id="other") is not None
    own = replace(table, catalog_id="3f2a91bc04de")
    jobs.submit(own, ACTIONS)
    here = "no worker busy. If no worker runs for catalog 3f2a91bc04de, start one with `airflow snowpack worker`"
    assert here in next_step(jobs, own)

    assert jobs.claim("its worker", catalog_id="3f2a91bc04de") is not None
    waiting = replace(numbered(3), catalog_id="3f2a91bc04de")
    jobs.submit(waiting, ACTIONS)
    assert next_step(jobs, waiting) == "Waiting for a worker: next in the queue, 1 worker busy."


def test_a_running_job_says_where_it_runs_and_how_far_it_is(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "worker-1")
    assert next_step(jobs, table) == "Attempt 1 is running on worker-1: 0 of 2 actions done."
    jobs.record_progress(claim, [DONE])
    assert next_step(jobs, table) == "Attempt 1 is running on worker-1: 1 of 2 actions done."

    jobs.submit_and_claim(other_table, ACTIONS[:1], "worker-2")
    assert next_step(jobs, other_table) == "Attempt 1 is running on worker-2: 0 of 1 action done."


def test_a_job_that_was_claimed_or_ended_since_it_was_read_is_said_to_run_or_to_be_ending(jobs: Jobs, table: TableName) -> None:
    pending = jobs.submit(table, ACTIONS)
    jobs.claim("worker-1")

    assert str(explain(jobs, pending)) == "Attempt 1 is running on worker-1: 0 of 2 actions done."

    jobs.cancel(pending.job_id)
    assert str(explain(jobs, pending)) == "Ending now."


def test_a_lost_worker_is_named_with_who_takes_the_job_back(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.submit(table, ACTIONS)
    jobs.claim("worker-1")
    clock.move(minutes=31)
    lost = "The lease of attempt 1 ran out at 2026-11-21 22:30:00 UTC: its worker worker-1 stopped sending heartbeats."

    assert next_step(jobs, table) == f"{lost} The next sweep requeues the job."
    jobs.set_drain(True)
    assert next_step(jobs, table) == f"{lost} Drain mode is on, so the sweep does not requeue the job."
    jobs.set_drain(False)
    jobs.sweep()
    assert next_step(jobs, table) == "Attempt 1 was lost. The next attempt starts at 2026-11-21 22:32:00 UTC at the earliest."


def test_an_ended_job_says_how_it_ended(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w")
    jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    assert str(explain(jobs, jobs.get(claim.job.job_id))) == "Completed at 2026-11-21 22:00:00 UTC: all actions are done."
    assert next_step(jobs, table) == "No maintenance scheduled."

    clock.move(seconds=1)
    claim = jobs.submit_and_claim(table, ACTIONS, "w")
    jobs.finish(claim, JobStatus.FAILED, [], "boom")
    assert str(explain(jobs, jobs.get(claim.job.job_id))).startswith("Failed at 2026-11-21 22:00:01 UTC. Fix the error below")
    assert next_step(jobs, table) == "The last job failed. Fix its error, then re-run it."

    clock.move(seconds=1)
    cancelled = jobs.cancel(jobs.submit(table, ACTIONS).job_id, by="ann")
    assert str(explain(jobs, cancelled)).startswith("Cancelled by ann at 2026-11-21 22:00:02 UTC. Re-run the job if")
    assert next_step(jobs, table) == "The last job was cancelled. Re-run it if the table still needs maintenance."

    assert str(explain(jobs, jobs.record_dry_run(table, ACTIONS, []))) == "Dry run: nothing was changed."


def test_a_foreign_lock_is_named_until_its_time_has_run_out(
    jobs: Jobs, table: TableName, locks: TableLocks, clock: MovedClock
) -> None:
    assert next_step(jobs, table) == "No maintenance yet. Start with a dry run."

    locks.acquire(table, "etl", ttl=timedelta(hours=1))
    assert next_step(jobs, table) == "Locked by etl until 2026-11-21 23:00:00 UTC, unless released earlier."
    clock.move(hours=2)
    assert next_step(jobs, table) == "No maintenance yet. Start with a dry run."


def test_a_dry_run_that_is_newer_than_the_last_job_says_what_it_found(jobs: Jobs, table: TableName, clock: MovedClock) -> None:
    jobs.record_dry_run(table, ACTIONS, [WORK, NONE])
    assert next_step(jobs, table) == "A dry run found work: would compact 87 files."
    clock.move(seconds=1)
    jobs.record_dry_run(table, ACTIONS, [NONE])
    assert next_step(jobs, table) == "A dry run found nothing to do."
    clock.move(seconds=1)
    jobs.finish(jobs.submit_and_claim(table, ACTIONS, "w"), JobStatus.COMPLETED, [DONE])
    assert next_step(jobs, table) == "No maintenance scheduled."

    now = explained(jobs, table)
    assert now.last is not None
    assert now.plan is not None
    assert (now.last.dry_run, now.plan.dry_run) == (False, True)


def test_a_cancelled_job_whose_worker_is_still_there_says_until_when_its_table_is_locked(
    jobs: Jobs, table: TableName, clock: MovedClock
) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w")
    jobs.cancel(claim.job.job_id)
    assert next_step(jobs, table) == (
        "The last job was cancelled while it was running, and its worker has not left the table yet: "
        "locked until 2026-11-21 22:30:00 UTC at the latest."
    )
    jobs.release_lock(claim)
    assert next_step(jobs, table) == "The last job was cancelled. Re-run it if the table still needs maintenance."


def test_a_withdrawn_job_is_not_said_to_be_cancelled(jobs: Jobs, table: TableName) -> None:
    job_id = jobs.submit(table, ACTIONS).job_id
    jobs.store.transact(lambda conn: withdraw(conn, [job_id], "The time of the pass was over.", jobs.store.clock()))

    assert next_step(jobs, table) == (
        "The last job was withdrawn. The time of the pass was over. The next pass plans the table again."
    )
    assert str(explain(jobs, jobs.get(job_id))).startswith("Withdrawn at 2026-11-21 22:00:0")
