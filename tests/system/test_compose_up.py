"""``docker compose up`` starts production's shape, on which the demo's table becomes healthy and a build is published.

Pods of Podman, made of the manifests for Kubernetes, then take the place of its worker.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from composed import REPOSITORY, Compose, Daemon, make_base_image, why_not
from worker_pods import WorkerPods, deployment, pod_of_a_job, why_no_pods

from tests.system.conftest import eventually

MEASURE = REPOSITORY / "tests" / "support" / "compose" / "measure_flights.py"
FOLDER = REPOSITORY / ".state" / "compose-test"
PATIENCE_S = 3600.0
# The command of Airflow imports all of it for each look.
PSQL = 'PGPASSWORD="$POSTGRES_PASSWORD" psql -At -h 127.0.0.1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -c "$0"'
# Also when it changes nothing: this starts Spark.
REWRITE = ("--action", "rewrite_data_files", "--no-only-if-needed")
AWS_BUNDLE = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
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


@pytest.fixture(scope="module", params=["small", "cluster"])
def compose(images: Path, request: pytest.FixtureRequest) -> Iterator[Compose]:
    with Daemon(images, connected=False) as docker, Compose(docker, request.param, images).up() as compose:
        yield compose


@pytest.fixture
def pods(compose: Compose, images: Path) -> Iterator[WorkerPods]:
    """The worker's pods, with what Compose's worker had: its store and its catalog, but Spark in the pod."""
    if reason := why_no_pods():
        pytest.skip(reason)
    given = compose.environment("worker")
    kept = {name: given[name] for name in ("AIRFLOW_CONN_SNOWPACK_STORE", "AIRFLOW_CONN_LAKEHOUSE")}
    pods = WorkerPods(compose.docker, images / "podman", kept | {"AIRFLOW__SNOWPACK__SPARK_PACKAGES": AWS_BUNDLE})
    compose.run("stop", "worker")
    try:
        yield pods
    finally:
        pods.remove()


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
        query = f"SELECT state FROM dag_run WHERE dag_id = '{dag_id}' AND run_id = '{run_id}'"
        state = compose.execute("airflow-db", "sh", "-c", PSQL, query).strip()
        return state if state in ("success", "failed") else None

    state: str = eventually(ended, f"{dag_id} ends", PATIENCE_S)
    return state


def jobs_of(compose: Compose) -> list[dict[str, Any]]:
    """The jobs, latest first."""
    found: list[dict[str, Any]] = json.loads(
        last_line(compose.execute("scheduler", "airflow", "snowpack", "jobs", "list", "--output", "json"))
    )
    return found


def submit(compose: Compose, table: str) -> None:
    compose.execute("scheduler", "airflow", "snowpack", "jobs", "submit", table, *REWRITE)


def test_the_demo_runs_on_production_s_shape(compose: Compose, record_property: Callable[[str, object], None]) -> None:
    before = measure(compose)
    assert (before["files"], before["manifests"]) == (14, 14)

    conf = json.dumps({"table": "demo.flights", "options": OPTIONS})
    assert run_dag(compose, "snowpack_maintain_table", "--conf", conf) == "success"
    after = measure(compose)
    assert after == before | {"files": 1, "manifests": 1}
    (job,) = jobs_of(compose)
    assert (job["database"], job["table_name"], job["status"]) == ("demo", "flights", "completed")
    assert job["job_id"] in compose.run("logs", "worker"), "the job did not run in the worker"

    assert run_dag(compose, "snowpack_interim_tables") == "success"
    assert run_dag(compose, "snowpack_build_shards", "--logical-date", "2013-01-15T00:00:00+00:00") == "success"

    assert compose.exit_code("worker") == 0
    record_property("measured", f"{before} became {after}.")


@pytest.mark.parametrize("compose", ["small"], indirect=True)
def test_pods_run_jobs_within_their_limits_and_end_on_sigterm(compose: Compose, pods: WorkerPods) -> None:
    pods.play(deployment())
    idle = "snowpack-worker-pod-0"
    eventually(lambda: "takes jobs from the store" in pods.logs(idle), "the worker is ready", PATIENCE_S)
    assert pods.memory_limit(idle) == 3 * 2**30
    assert pods.stop(idle) == 0
    assert pods.stop("snowpack-worker-pod-1") == 0

    pods.play(pod_of_a_job("without-a-job"))
    assert pods.wait("without-a-job") == 0

    submit(compose, "demo.flights")
    pods.play(pod_of_a_job("stopped"))
    eventually(lambda: "attempt 1, on lake.demo.flights" in pods.logs("stopped"), "the job runs", PATIENCE_S)
    assert pods.stop("stopped") == 1
    failed = jobs_of(compose)[0]
    assert (failed["status"], failed["error"]) == ("failed", "Worker received SIGTERM")

    submit(compose, "demo.flights")
    pods.play(pod_of_a_job("finished"))
    assert pods.wait("finished") == 0
    assert jobs_of(compose)[0]["status"] == "completed"
