"""Builds through Airflow's own processes: who comes after a publication, backfills of past days, clears and kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest
from titled_process import gone

from airflow_snowpack.builds.read.reader import SnapshotReader
from airflow_snowpack.builds.registry.model import (
    BuildRun,
    RunStatus,
)
from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.jobs import Jobs
from tests.system.conftest import AirflowHome, Run, RunningAirflow

DAILY = "system_daily_build"


@pytest.fixture
def builds(jobs: Jobs) -> BuildRegistry:
    return BuildRegistry(jobs.store)


@pytest.fixture
def served(airflow_home: AirflowHome) -> Callable[[str], SnapshotReader]:
    """What readers of a dataset are given now."""
    return lambda dataset: SnapshotReader(airflow_home.home / "snowpack" / "builds" / dataset)


@pytest.fixture
def daily_builds(airflow: RunningAirflow) -> Iterator[Callable[[], None]]:
    """Let the daily builds begin; they are paused again afterwards."""

    def pause(paused: bool) -> None:
        # Airflow's own SQLite answers that it is busy, now and then.
        path, body = f"/dags/{DAILY}", {"is_paused": paused}
        airflow.until(lambda: airflow.call("PATCH", path, body, allowed=(200, 500)), f"{DAILY} is paused: {paused}")

    yield lambda: pause(False)
    pause(True)


def run_ids(airflow: RunningAirflow, dag_id: str, state: str = "success") -> list[str]:
    found = airflow.call("GET", f"/dags/{dag_id}/dagRuns?state={state}&limit=100")["dag_runs"]
    return [run["dag_run_id"] for run in found]


def xcom(airflow: RunningAirflow, run_id: str) -> dict[str, Any]:
    path = f"/dags/{DAILY}/dagRuns/{run_id}/taskInstances/build/xcomEntries/return_value?deserialize=true"
    found: dict[str, Any] = airflow.call("GET", path)["value"]
    return found


def published(airflow: RunningAirflow) -> list[str]:
    """The runs of which events were left, in order."""
    events = airflow.call("GET", f"/assets/events?source_dag_id={DAILY}&order_by=timestamp")["asset_events"]
    return [event["extra"]["run_id"] for event in events]


def test_a_backfill_never_takes_readers_back_and_who_waits_hears_of_what_they_are_given(
    airflow: RunningAirflow,
    builds: BuildRegistry,
    served: Callable[[str], SnapshotReader],
    daily_builds: Callable[[], None],
) -> None:
    awaiting = airflow.trigger("system_awaits_build", {"as_of": "2026-02-01T00:00:00+00:00"})
    airflow.task_becomes(awaiting, "wait", "deferred")
    daily_builds()
    (latest,) = airflow.until(lambda: run_ids(airflow, DAILY), "the latest day is built")
    newest = xcom(airflow, latest)
    assert (newest["moved"], newest["publication"]) == (True, 1)
    assert airflow.ended(awaiting) == "success"
    assert airflow.tries(awaiting, "wait") == 1
    assert airflow.result(awaiting, "wait")["run_id"] == newest["run_id"]

    airflow.backfill(DAILY, date(2026, 1, 5), date(2026, 1, 7))
    past = airflow.backfill_runs(DAILY)
    assert [airflow.ended(run) for run in past] == ["success"] * 3
    assert [airflow.result(run, "build")["moved"] for run in past] == [False] * 3
    assert served("system_days").manifest.run_id == newest["run_id"]
    history = {run.run_id: run.status for run in builds.runs("system_days").items}
    assert history == dict.fromkeys(
        [newest["run_id"], "20260108T000000Z", "20260107T000000Z", "20260106T000000Z"], RunStatus.SUCCEEDED
    )
    assert published(airflow) == [newest["run_id"]]

    again = {"dry_run": False, "dag_run_id": latest, "only_failed": False, "reset_dag_runs": True}
    path = f"/dags/{DAILY}/clearTaskInstances"
    airflow.until(lambda: airflow.call("POST", path, again, allowed=(200, 500)), "the latest day is cleared")
    airflow.until(lambda: len(published(airflow)) == 2, "the cleared day is built again")
    assert served("system_days").manifest.run_id == f"{newest['run_id']}.2"
    assert published(airflow)[1] == f"{newest['run_id']}.2"
    airflow.until(lambda: len(run_ids(airflow, "system_after_build")) == 2, "who comes after it ran for each publication")


@pytest.fixture
def writing(airflow: RunningAirflow, builds: BuildRegistry, tmp_path: Path) -> Callable[[str], tuple[Run, psutil.Process]]:
    """A build of a dataset that is writing its shards, which takes minutes, and the process that does."""

    def start(dataset: str) -> tuple[Run, psutil.Process]:
        pids = tmp_path / "pids"
        run = airflow.trigger("system_slow_build", {"dataset": dataset, "pids": str(pids)})

        def look() -> psutil.Process | None:
            if not builds.runs(dataset).items or not pids.exists():
                return None
            process = psutil.Process(int(pids.read_text().splitlines()[0]))
            return process if process.children(recursive=True) else None

        found: psutil.Process = airflow.until(look, f"{dataset} is being written")
        return run, found

    return start


def only(runs: list[BuildRun], status: RunStatus) -> BuildRun:
    (found,) = (run for run in runs if run.status is status)
    return found


def test_a_build_whose_process_is_killed_is_built_anew_by_the_retry(
    airflow: RunningAirflow,
    builds: BuildRegistry,
    served: Callable[[str], SnapshotReader],
    writing: Callable[[str], tuple[Run, psutil.Process]],
) -> None:
    run, process = writing("system_killed")
    writers = process.children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)

    assert airflow.ended(run) == "success"
    runs = builds.runs("system_killed").items
    assert len(runs) == 2
    assert only(runs, RunStatus.SUCCEEDED).run_id == served("system_killed").manifest.run_id
    assert "later try" in (only(runs, RunStatus.FAILED).error or "")
    assert served("system_killed").get("u7") == {"user": "u7", "number": 7}
    airflow.until(lambda: all(gone(writer) for writer in writers), "the writers of the dead process are gone")


def test_a_build_that_is_marked_failed_ends_its_writers_and_says_so(
    airflow: RunningAirflow, builds: BuildRegistry, writing: Callable[[str], tuple[Run, psutil.Process]]
) -> None:
    run, process = writing("system_marked")
    writers = process.children(recursive=True)
    airflow.set_task_state(run, "build", "failed")

    airflow.until(lambda: all(gone(each) for each in (process, *writers)), "the task and its writers are gone")
    (left,) = builds.runs("system_marked").items
    assert (left.status, left.error) == (RunStatus.FAILED, "Airflow ended the task system_slow_build.build")
    assert builds.dataset("system_marked").publication is None
