"""The whole worker as an application of spark-submit: it claims jobs itself and runs them in the session of its command line."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bounded import PATIENCE_S, started
from submitted_worker import FILES, HARD, REWRITE, SubmittedWorld, eventually

from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from examples.cluster.spark import spark_environment

LONGEST_S = 900.0
ROWS = 5


@pytest.fixture
def world(store_url: str, tmp_path: Path) -> SubmittedWorld:
    return SubmittedWorld(tmp_path, store_url)


@pytest.fixture
def jobs(store_url: str) -> Iterator[Jobs]:
    with Jobs(open_store(store_url)) as jobs:
        yield jobs


@pytest.mark.one_database
@pytest.mark.timeout(LONGEST_S)
def test_a_submitted_worker_runs_jobs_and_ends_them_by_a_cancel_and_by_sigterm(
    jobs: Jobs, world: SubmittedWorld, tmp_path: Path
) -> None:
    quick, slow, log = world.table("quick", ROWS), world.table("slow", 75_000, **HARD), tmp_path / "worker.log"
    before = world.content(slow)
    done = jobs.submit(quick, ["rewrite_data_files"], options=REWRITE)
    command = world.command("local[2]", "--worker-id", "driver", "--poll", "1s")
    with log.open("w") as output, started(command, env=spark_environment(), stdout=output, stderr=output) as process:
        eventually(lambda: jobs.get(done.job_id).status.is_terminal or process.poll() is not None)
        assert jobs.get(done.job_id).status is JobStatus.COMPLETED, log.read_text()
        assert world.content(quick) == (1, sorted([*range(ROWS)] * FILES))
        assert "on local[2] in the JVM of spark-submit" in log.read_text(), "its own setting spark_master is local[7]"

        cancelled = world.running(jobs, slow)
        jobs.cancel(cancelled.job_id)
        eventually(lambda: jobs.locks.get(slow) is None)
        assert process.poll() is None, "the worker itself goes on"

        stopped = world.running(jobs, slow)
        os.killpg(process.pid, signal.SIGTERM)  # as YARN stops a container: the JVM and the worker
        assert process.wait(PATIENCE_S) != 0

    assert jobs.get(cancelled.job_id).status is JobStatus.CANCELLED
    eventually(lambda: jobs.get(stopped.job_id).status.is_terminal)
    failed = jobs.get(stopped.job_id)
    assert (failed.status, failed.error) == (JobStatus.FAILED, "Worker received SIGTERM")
    assert jobs.locks.get(slow) is None
    assert world.content(slow) == before


@pytest.mark.one_database
@pytest.mark.timeout(LONGEST_S)
def test_a_submitted_worker_without_icebergs_jar_claims_nothing_and_says_what_to_add(jobs: Jobs, world: SubmittedWorld) -> None:
    waiting = jobs.submit(world.table("quick", ROWS), ["rewrite_data_files"], options=REWRITE)
    command = world.command("local[1]", "--once")
    packages = command.index("--packages")
    del command[packages : packages + 2]
    done = subprocess.run(command, env=spark_environment(), capture_output=True, text=True, timeout=LONGEST_S, check=False)

    assert done.returncode != 0
    assert "spark-submit has no Iceberg. Add --packages org.apache.iceberg:iceberg-spark-runtime" in done.stdout
    assert jobs.get(waiting.job_id).status is JobStatus.PENDING
