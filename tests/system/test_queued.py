"""Tasks that wait in the triggerer for queued jobs, through Airflow's own processes; the test is the worker.

All runs begin together, before the first test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pytest

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, Jobs, JobStatus
from tests.system.conftest import Run, RunningAirflow

DONE = ActionResult("rewrite_manifests", ActionOutcome.SUCCEEDED, "Rewrote 3 manifests", 0.1)


@dataclass(frozen=True)
class Queued:
    """A run whose task waits for a job, and its table."""

    run: Run
    table: TableName


@dataclass(frozen=True)
class Runs:
    """The runs of this module, each named after what happens to it."""

    completed: Queued
    marked: Queued
    cleared: Queued
    cleared_while_running: Queued
    limited: Queued
    restarted: Queued
    marked_without_triggerer: Queued


@pytest.fixture(scope="module")
def runs(_running: RunningAirflow, new_table: Callable[..., TableName]) -> Runs:
    """Start them all."""

    def start(name: str) -> Queued:
        table = new_table([pa.table({"id": pa.array(range(100))})])
        dag_id = "system_queued_limited" if name == "limited" else "system_queued"
        return Queued(_running.trigger(dag_id, {"table": table.dotted}), table)

    return Runs(**{name: start(name) for name in Runs.__annotations__})


def waiting(airflow: RunningAirflow, jobs: Jobs, queued: Queued) -> Job:
    """The job of a task that has left its worker."""
    airflow.task_becomes(queued.run, "maintain", "deferred")
    (job,) = jobs.list(queued.table, JobStatus.PENDING)
    return job


def work(jobs: Jobs, job: Job) -> None:
    claim = jobs.claim("the test", job_id=job.job_id, catalog_id=job.table.catalog_id)
    assert claim is not None
    assert jobs.finish(claim, JobStatus.COMPLETED, [DONE])


def becomes_cancelled(airflow: RunningAirflow, jobs: Jobs, queued: Queued, job: Job) -> None:
    airflow.until(lambda: jobs.get(job.job_id).status is JobStatus.CANCELLED, f"{job.job_id} is cancelled")
    assert jobs.get(job.job_id).cancelled_by == f"{queued.run.dag_id}/{queued.run.run_id}/maintain"


def test_a_task_goes_on_when_a_worker_has_completed_its_job(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    run, table = runs.completed.run, runs.completed.table
    job = waiting(airflow, jobs, runs.completed)
    work(jobs, job)

    assert airflow.ended(run) == "success"
    assert airflow.tries(run, "maintain") == 1
    report = airflow.result(run, "maintain")
    assert (report["job_id"], report["status"], report["before"]) == (job.job_id, "completed", report["after"])
    events = airflow.call("GET", f"/assets/events?source_dag_id={run.dag_id}&source_run_id={run.run_id}")["asset_events"]
    assert [(event["uri"], event["extra"]["job_id"]) for event in events] == [(table.asset_uri, job.job_id)]


def test_the_job_of_a_task_that_is_marked_failed_is_cancelled(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    job = waiting(airflow, jobs, runs.marked)
    airflow.set_task_state(runs.marked.run, "maintain", "failed")

    becomes_cancelled(airflow, jobs, runs.marked, job)
    assert jobs.locks.get(runs.marked.table) is None
    path = f"{runs.marked.run.path}/taskInstances/maintain/logs/1?full_content=true"
    ended = f"Job {job.job_id} was cancelled, because its task has ended"
    log = airflow.until(lambda: ended in (text := str(airflow.call("GET", path))) and text, "the log of the task says so")
    assert "the state of its task is unknown" not in log
    assert "Waiting for a worker" in log


@pytest.mark.parametrize("running", [False, True], ids=["pending", "running"])
def test_a_task_that_is_cleared_ends_with_one_job_of_its_own(
    airflow: RunningAirflow, runs: Runs, jobs: Jobs, running: bool
) -> None:
    """Whether its next try starts before or after the trigger of the first one has cancelled the job."""
    queued = runs.cleared_while_running if running else runs.cleared
    before = waiting(airflow, jobs, queued)
    claim = jobs.claim("the test", job_id=before.job_id, catalog_id=before.table.catalog_id) if running else None
    airflow.clear(queued.run)
    airflow.until(lambda: airflow.task(queued.run, "maintain")["try_number"] > 1, "the next try starts")

    def work_until_it_succeeds() -> bool:
        task = airflow.task(queued.run, "maintain")
        if claim is not None and not jobs.holds(claim):
            jobs.release_lock(claim)  # a worker that is fenced leaves the table
        elif claim is not None and task["state"] == "deferred":
            jobs.finish(claim, JobStatus.COMPLETED, [DONE])  # the next try has found the job
        for job in jobs.list(queued.table, JobStatus.PENDING):
            again = jobs.claim("the test", job_id=job.job_id, catalog_id=job.table.catalog_id)
            if again is not None and not jobs.finish(again, JobStatus.COMPLETED, [DONE]):
                jobs.release_lock(again)
        return bool(task["state"] == "success")

    airflow.until(work_until_it_succeeds, "the next try succeeds")
    done = jobs.get(airflow.result(queued.run, "maintain")["job_id"])
    assert done.status is JobStatus.COMPLETED
    assert {job.status for job in jobs.list(queued.table)} <= {JobStatus.COMPLETED, JobStatus.CANCELLED}
    assert jobs.locks.get(queued.table) is None


def test_a_triggerer_that_dies_leaves_jobs_alone_and_its_successor_cancels_those_of_tasks_that_were_marked_meanwhile(
    airflow: RunningAirflow, runs: Runs, jobs: Jobs
) -> None:
    kept, marked = waiting(airflow, jobs, runs.restarted), waiting(airflow, jobs, runs.marked_without_triggerer)
    airflow.kill_process("triggerer")
    airflow.set_task_state(runs.marked_without_triggerer.run, "maintain", "failed")
    airflow.start_process("triggerer")

    becomes_cancelled(airflow, jobs, runs.marked_without_triggerer, marked)
    assert jobs.get(kept.job_id).status is JobStatus.PENDING
    work(jobs, kept)
    assert airflow.ended(runs.restarted.run) == "success"
    assert airflow.tries(runs.restarted.run, "maintain") == 1


def test_the_job_of_a_task_that_is_out_of_time_is_cancelled(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    """The last one here, so that the time of the run that began with the others is over."""
    queued = runs.limited

    def reach_the_limit() -> list[Job]:
        nonlocal queued
        assert airflow.ended(queued.run) == "failed"
        submitted = jobs.list(queued.table)
        if not submitted:  # on a busy machine, the time may be over before there is a job
            queued = Queued(airflow.trigger(queued.run.dag_id, {"table": queued.table.dotted}), queued.table)
        return list(submitted)

    (job,) = airflow.until(reach_the_limit, "a run has submitted its job when its time is over")
    becomes_cancelled(airflow, jobs, queued, job)
