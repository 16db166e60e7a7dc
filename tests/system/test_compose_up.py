"""``docker compose up`` starts production's shape, on which the demo's table becomes healthy and a build is published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from composed import REPOSITORY, Compose, Daemon, make_base_image, why_not

from tests.system.conftest import eventually

MEASURE = REPOSITORY / "tests" / "support" / "compose" / "measure_flights.py"
FOLDER = REPOSITORY / ".state" / "compose-test"
PATIENCE_S = 3600.0
OPTIONS = {"expire_snapshots": {"max_age": "0s"}}

pytestmark = [pytest.mark.soak_only, pytest.mark.timeout(6 * 3600)]


@pytest.fixture(scope="module")
def images() -> Iterator[Path]:
    """The folder of a daemon that has the images."""
    if reason := why_not():
        pytest.skip(reason)
    try:
        with Daemon(FOLDER, connected=True) as docker:
            make_base_image(docker, FOLDER)
            Compose(docker, "small", FOLDER).run("--profile", "cluster", "build")
        yield FOLDER
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.fixture(params=["small", "cluster"])
def compose(images: Path, request: pytest.FixtureRequest) -> Iterator[Compose]:
    with Daemon(images, connected=False) as docker, Compose(docker, request.param, images).up() as compose:
        yield compose


def last_line(printed: str) -> str:
    return printed.strip().splitlines()[-1]


def measure(compose: Compose) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(last_line(compose.execute("scheduler", "python", "-", input=MEASURE.read_text())))
    return found


def run_dag(compose: Compose, dag_id: str, *arguments: str) -> str:
    """Run a DAG to its end; return its state."""
    run_id = f"compose_{dag_id}"
    compose.execute("scheduler", "airflow", "dags", "unpause", dag_id)
    compose.execute("scheduler", "airflow", "dags", "trigger", dag_id, "--run-id", run_id, *arguments)

    def ended() -> str | None:
        state = last_line(compose.execute("scheduler", "airflow", "dags", "state", dag_id, run_id)).partition(",")[0]
        return state if state in ("success", "failed") else None

    state: str = eventually(ended, f"{dag_id} ends", PATIENCE_S)
    return state


def test_the_demo_runs_on_production_s_shape(compose: Compose, record_property: Callable[[str, object], None]) -> None:
    before = measure(compose)
    assert (before["files"], before["manifests"]) == (14, 14)

    conf = json.dumps({"table": "demo.flights", "options": OPTIONS})
    assert run_dag(compose, "snowpack_maintain_table", "--conf", conf) == "success"
    after = measure(compose)
    assert after == before | {"files": 1, "manifests": 1}
    jobs = json.loads(compose.execute("scheduler", "airflow", "snowpack", "jobs", "list", "--output", "json"))
    assert [(job["table"], job["status"], job["attempt"]) for job in jobs] == [("demo.flights", "completed", 1)]
    assert jobs[0]["job_id"] in compose.run("logs", "worker"), "the job did not run in the worker"

    assert run_dag(compose, "snowpack_interim_tables") == "success"
    assert run_dag(compose, "snowpack_build_shards", "--logical-date", "2013-01-15T00:00:00+00:00") == "success"

    assert compose.exit_code("worker") == 0
    record_property("measured", f"{before} became {after}.")
