"""The worker's archive on YARN in cluster mode: the node has Java and Spark, and takes Python and the worker from the archive."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from submitted_worker import APPLICATION, FILES, HARD, REWRITE, SubmittedWorld, eventually

from airflow_snowpack.iceberg.catalog import SQLITE_JDBC
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from examples.cluster.errors import JarsMissing
from examples.cluster.yarn import Yarn

pytestmark = [pytest.mark.soak_only, pytest.mark.one_database, pytest.mark.cell("YARN (cluster mode)", "SQL", "local files")]

ARCHIVER = Path(__file__).parents[3] / "docker/spark/worker_archive.py"
LONGEST_S = 1_800.0
ROWS = 5
APPLICATION_ID = re.compile(r"application_\d+_\d+")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("archive") / "worker.tar.gz"
    subprocess.run([sys.executable, ARCHIVER, file], check=True, timeout=LONGEST_S)
    return file


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    cluster = Yarn(tmp_path_factory.mktemp("yarn"))
    try:
        cluster.start()
        yield cluster
    except JarsMissing as missing:
        pytest.skip(str(missing))
    finally:
        cluster.stop()


@pytest.fixture
def world(store_url: str, tmp_path: Path) -> SubmittedWorld:
    return SubmittedWorld(tmp_path, store_url)


@pytest.fixture
def jobs(store_url: str) -> Iterator[Jobs]:
    with Jobs(open_store(store_url)) as jobs:
        yield jobs


def submit(yarn: Yarn, world: SubmittedWorld, archive: Path, *options: str, wait: bool) -> tuple[str, str]:
    """Submit the worker; return the id of its application and the log of spark-submit.

    :param wait: until the application has ended.
    """
    python = "./worker/bin/python3"
    conf = {
        "spark.jars.packages": SQLITE_JDBC,
        "spark.yarn.dist.archives": f"{archive}#worker",
        "spark.yarn.dist.files": str(world.configuration),
        "spark.pyspark.python": python,
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": python,
        "spark.yarn.submit.waitAppCompletion": str(wait).lower(),
    }
    command = [*yarn.submit_command(APPLICATION, conf), "--config", world.configuration.name, *options]
    environment = {name: value for name, value in yarn.environment.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    application = APPLICATION_ID.findall(done.stderr)[-1]
    assert done.returncode == 0, done.stderr + logs(yarn, application)
    return application, done.stderr


def logs(yarn: Yarn, application: str) -> str:
    folder = Path(yarn.addresses["HADOOP_CONF_DIR"]).parent / "containers" / application
    return "\n".join(each.read_text(errors="replace") for each in sorted(folder.rglob("std*")))


def state_of(yarn: Yarn, application: str) -> str:
    return str(httpx.get(f"{yarn.url}/ws/v1/cluster/apps/{application}/state").json()["state"])


@pytest.mark.timeout(LONGEST_S)
def test_the_archived_worker_runs_a_job_in_the_driver_on_yarn(
    jobs: Jobs, yarn: Yarn, world: SubmittedWorld, archive: Path
) -> None:
    table = world.table("quick", ROWS)
    job = jobs.submit(table, ["rewrite_data_files"], options=REWRITE)
    application, log = submit(yarn, world, archive, "--once", "--worker-id", "yarn", wait=True)

    assert "final status: SUCCEEDED" in log
    ended = jobs.get(job.job_id)
    assert ended.status is JobStatus.COMPLETED, ended.error
    assert world.content(table) == (1, sorted([*range(ROWS)] * FILES))
    assert "on yarn in the JVM of spark-submit" in logs(yarn, application)


@pytest.mark.timeout(LONGEST_S)
def test_a_worker_on_yarn_follows_a_cancel_and_a_kill(jobs: Jobs, yarn: Yarn, world: SubmittedWorld, archive: Path) -> None:
    slow = world.table("slow", 75_000, **HARD)
    before = world.content(slow)
    application, _ = submit(yarn, world, archive, "--poll", "1s", wait=False)
    eventually(lambda: state_of(yarn, application) != "ACCEPTED")
    eventually(lambda: "takes jobs from the store" in logs(yarn, application))
    cancelled = world.running(jobs, slow)
    jobs.cancel(cancelled.job_id)
    eventually(lambda: jobs.locks.get(slow) is None)
    assert state_of(yarn, application) == "RUNNING", "the worker itself goes on"

    killed = world.running(jobs, slow)
    stop = httpx.put(f"{yarn.url}/ws/v1/cluster/apps/{application}/state", json={"state": "KILLED"})
    assert stop.is_success, stop.text
    eventually(lambda: jobs.get(killed.job_id).status.is_terminal)

    assert jobs.get(cancelled.job_id).status is JobStatus.CANCELLED
    failed = jobs.get(killed.job_id)
    assert (failed.status, failed.error) == (JobStatus.FAILED, "Worker received SIGTERM"), logs(yarn, application)
    assert jobs.locks.get(slow) is None
    assert world.content(slow) == before
