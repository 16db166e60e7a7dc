"""Rules of the lifecycle that no SQL decides: what it refuses, what its policy sets, and how it explains a refusal."""

from __future__ import annotations

import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import (
    ActionOutcome,
    ActionResult,
    JobAlreadyFinished,
    JobNotFound,
    Jobs,
    JobStatus,
    explain,
)

ACTIONS = ["rewrite_data_files", "expire_snapshots"]
DONE = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 87 files into 12", 1.5, metrics={"files": 87})
pytestmark = pytest.mark.one_database


def test_in_drain_mode_running_jobs_finish_and_no_other_is_claimed(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    jobs.submit(table, ACTIONS)
    running = jobs.claim("w1")
    waiting = jobs.submit(other_table, ACTIONS)
    jobs.set_drain(True)

    assert jobs.claim("w1") is None
    assert jobs.claim("w1", job_id=waiting.job_id) is None
    assert (jobs.queue_depth(), jobs.queue_depths([table.catalog_id])) == (0, {table.catalog_id: 0})
    assert (jobs.queue().depth, jobs.queue().held, jobs.queue().oldest) == (0, 1, waiting.submitted_at)
    assert str(explain(jobs, waiting)).startswith("Waiting until drain mode is switched off")
    assert jobs.renew(running)
    assert jobs.finish(running, JobStatus.COMPLETED, [DONE])

    jobs.set_drain(False)
    assert (jobs.queue().depth, jobs.queue().held) == (1, 0)
    assert jobs.claim("w1").job.job_id == waiting.job_id


def test_in_drain_mode_a_retry_takes_its_own_running_job_over(jobs: Jobs, table: TableName) -> None:
    first = jobs.submit_and_claim(table, ACTIONS, "try 1", owner="dag/run/task")
    jobs.set_drain(True)

    again = jobs.take_over(first.job.job_id, "try 2", owner="dag/run/task")
    assert jobs.finish(again, JobStatus.COMPLETED, [DONE])


def test_a_dry_run_is_possible_while_the_table_is_maintained(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS)

    assert jobs.record_dry_run(table, ACTIONS, []).status is JobStatus.COMPLETED


def test_an_attempt_ends_in_a_state_that_is_final_and_a_finished_job_is_not_cancelled(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w1")
    for status in [JobStatus.PENDING, JobStatus.RUNNING]:
        with pytest.raises(ValueError, match="completed, failed or cancelled"):
            jobs.finish(claim, status, [])

    jobs.finish(claim, JobStatus.FAILED, [], "boom")

    with pytest.raises(JobAlreadyFinished, match="has already failed"):
        jobs.cancel(claim.job.job_id)
    with pytest.raises(JobNotFound):
        jobs.cancel("no-such-job")
