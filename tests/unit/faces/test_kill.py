"""How operators answer Airflow's signal, with a real store, an engine that has nothing to do and nothing that writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.builds.build import Build
from airflow_snowpack.builds.registry.model import RunHandle, RunStatus
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Attempt, Job, Jobs, JobStatus


@pytest.fixture
def build(installation: Path) -> Iterator[Build]:
    with hooks.SnowpackHook() as hook:
        yield Build(hook.builds(), Storage(installation / "features"))


@pytest.fixture
def task(build: Build) -> operators.BuildShardsOperator:
    """A task that is about to begin a run."""
    operator = operators.BuildShardsOperator(task_id="write", dataset="features", table="web.features", key="user", num_shards=1)
    operator._build = build
    return operator


def begun(build: Build) -> RunHandle:
    as_of = datetime(2026, 1, 1, tzinfo=UTC)
    return build.registry.begin("features", build.storage.url, as_of=as_of, num_shards=1)


def status(build: Build) -> tuple[RunStatus, str | None]:
    (run,) = build.registry.runs("features").items
    return run.status, run.error


def test_a_task_that_has_begun_nothing_ends_its_process(task: operators.BuildShardsOperator) -> None:
    task._build = None
    for idle in (task, operators.RunMaintenanceJobOperator(task_id="work")):
        with pytest.raises(SystemExit) as ended:
            idle.on_kill()
        assert ended.value.code == 143


def test_a_signal_fails_the_run_stops_its_writers_and_ends_the_process(task: operators.BuildShardsOperator, build: Build) -> None:
    task._handle = begun(build)
    with pytest.raises(SystemExit):
        task.on_kill()

    assert build.interrupt.work.interrupted
    assert build.interrupt.stop.is_set()
    assert status(build) == (RunStatus.FAILED, f"Airflow ended the task {task.dag_id}.write")


def test_a_signal_that_comes_while_a_run_is_begun_fails_that_run_before_the_process_ends(
    task: operators.BuildShardsOperator, build: Build
) -> None:
    @task.kill_postponed()
    def begin() -> None:
        task._handle = begun(build)
        task.on_kill()  # the signal

    with pytest.raises(SystemExit):
        begin()

    assert status(build)[0] is RunStatus.FAILED


def test_a_signal_that_comes_while_a_run_is_published_leaves_it_to_who_has_the_dataset_next(
    task: operators.BuildShardsOperator, build: Build
) -> None:
    task._handle = begun(build)
    task.leave_run()
    with pytest.raises(SystemExit):
        task.on_kill()

    assert status(build)[0] is RunStatus.RUNNING


def test_a_time_limit_is_left_for_airflow_to_report(task: operators.BuildShardsOperator, build: Build) -> None:
    from airflow.providers.common.compat.sdk import AirflowTaskTimeout

    task._handle = begun(build)
    try:
        raise AirflowTaskTimeout("too long")
    except AirflowTaskTimeout:
        task.on_kill()  # and no SystemExit in its place

    assert status(build)[0] is RunStatus.FAILED


class IdleEngine:
    server: str | None = None
    gb_hours: float | None = None

    def run(self, job: Job, action: str) -> ActionResult:
        return ActionResult(action, ActionOutcome.SUCCEEDED, "Nothing to do", 0.0)

    def interrupt(self) -> None: ...


@pytest.fixture
def work() -> operators.RunMaintenanceJobOperator:
    return operators.RunMaintenanceJobOperator(task_id="work")


def test_a_signal_that_comes_while_a_job_is_claimed_fails_that_job_before_the_process_ends(
    work: operators.RunMaintenanceJobOperator, jobs: Jobs, flights: TableName
) -> None:
    job = jobs.submit(flights, ["expire_snapshots"])

    @work.kill_postponed()
    def claim() -> None:
        claimed = jobs.claim("worker", catalog_id=flights.catalog_id)
        assert claimed is not None
        work.on_kill()  # the signal
        work._running = Attempt(jobs, claimed, IdleEngine())

    with pytest.raises(SystemExit):
        claim()

    assert jobs.get(job.job_id).status is JobStatus.FAILED
    assert jobs.locks.get(flights) is None


def test_a_signal_that_comes_while_a_claim_is_refused_ends_the_process(work: operators.RunMaintenanceJobOperator) -> None:
    @work.kill_postponed()
    def refused() -> None:
        work.on_kill()
        raise LookupError("nothing to claim")

    with pytest.raises(SystemExit):
        refused()
