"""How an operator that builds answers Airflow's signal, with a real registry and nothing that writes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_snowpack import hooks, operators
from airflow_snowpack.builds.build import Build
from airflow_snowpack.builds.registry.model import RunHandle, RunStatus
from airflow_snowpack.builds.storage import Storage


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


def test_a_task_that_has_begun_nothing_ends_its_process() -> None:
    with pytest.raises(SystemExit) as ended:
        operators.BuildShardsOperator(
            task_id="write", dataset="features", table="web.features", key="user", num_shards=1
        ).on_kill()

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
    from airflow.sdk.exceptions import AirflowTaskTimeout

    task._handle = begun(build)
    try:
        raise AirflowTaskTimeout("too long")
    except AirflowTaskTimeout:
        task.on_kill()  # and no SystemExit in its place

    assert status(build)[0] is RunStatus.FAILED
