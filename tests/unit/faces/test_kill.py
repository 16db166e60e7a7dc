"""How an operator answers Airflow's signal, with a real store and an engine that has nothing to do."""

from __future__ import annotations

import pytest

from airflow_snowpack import operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Attempt, Job, Jobs, JobStatus


class IdleEngine:
    server: str | None = None
    gb_hours: float | None = None

    def run(self, job: Job, action: str) -> ActionResult:
        return ActionResult(action, ActionOutcome.SUCCEEDED, "Nothing to do", 0.0)

    def interrupt(self) -> None: ...


@pytest.fixture
def task() -> operators.RunMaintenanceJobOperator:
    return operators.RunMaintenanceJobOperator(task_id="work")


def test_a_task_that_runs_nothing_ends_its_process(task: operators.RunMaintenanceJobOperator) -> None:
    with pytest.raises(SystemExit) as ended:
        task.on_kill()

    assert ended.value.code == 143


def test_a_time_limit_is_left_for_airflow_to_report(task: operators.RunMaintenanceJobOperator) -> None:
    from airflow.sdk.exceptions import AirflowTaskTimeout

    try:
        raise AirflowTaskTimeout("too long")
    except AirflowTaskTimeout:
        task.on_kill()  # and no SystemExit in its place


def test_a_signal_that_comes_while_a_job_is_claimed_fails_that_job_before_the_process_ends(
    task: operators.RunMaintenanceJobOperator, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])

    @task.kill_postponed()
    def claim() -> None:
        claimed = jobs.claim("worker", catalog_id=flights.catalog_id)
        assert claimed is not None
        task.on_kill()  # the signal
        task._running = Attempt(jobs, claimed, IdleEngine())

    with pytest.raises(SystemExit):
        claim()

    assert jobs.get(job.job_id).status is JobStatus.FAILED
    assert jobs.locks.get(flights) is None


def test_a_signal_that_comes_while_a_claim_is_refused_ends_the_process(task: operators.RunMaintenanceJobOperator) -> None:
    @task.kill_postponed()
    def refused() -> None:
        task.on_kill()
        raise LookupError("nothing to claim")

    with pytest.raises(SystemExit):
        refused()
