"""Several workers drain one queue while they are killed or stopped: each job ends once, and no lock stays."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import busy_worker
import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S, started
from effort import rounds, seed
from scripted_engine import eventually

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store
from airflow_snowpack.store.tables.jobs import job_queue

pytestmark = pytest.mark.both_in_soak

WORKERS = 4
JOBS = rounds(40, soak=200)


@pytest.fixture
def jobs(store_url: str) -> Iterator[Jobs]:
    with Jobs(open_store(store_url), busy_worker.POLICY) as jobs:
        yield jobs


def worker(url: str, name: str, *more: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """A worker process."""
    command = [sys.executable, busy_worker.__file__, url, name, *more]
    return started(command, stdout=subprocess.PIPE, cwd=Path(busy_worker.__file__).parent)


def ended(jobs: Jobs) -> int:
    """Requeue the jobs of dead workers, and count the jobs that have ended."""
    jobs.sweep()
    return len(jobs.list(status=JobStatus.COMPLETED, limit=JOBS))


@pytest.mark.timeout(900)
def test_each_job_ends_once_although_workers_are_killed_at_random(
    store_url: str, jobs: Jobs, record_property: Callable[[str, object], None]
) -> None:
    chance, kills = random.Random(seed(17)), 0
    submitted = [jobs.submit(TableName.parse(f"demo.t{number}", catalog="lake"), ["expire_snapshots"]) for number in range(JOBS)]
    with ExitStack() as processes:
        crew = [processes.enter_context(worker(store_url, f"worker-{number}")) for number in range(WORKERS)]
        enough = 0
        while (enough := enough + chance.randint(1, JOBS // 8)) < JOBS:
            eventually(lambda enough=enough: ended(jobs) >= enough)  # type: ignore[misc]
            place, kills = chance.randrange(WORKERS), kills + 1
            crew[place].kill()
            crew[place].wait(PATIENCE_S)
            crew[place] = processes.enter_context(worker(store_url, f"worker-{WORKERS + kills}"))
        eventually(lambda: ended(jobs) == JOBS)
    record_property("faults", kills)

    for job in submitted:
        assert jobs.get(job.job_id).status is JobStatus.COMPLETED
        ends = [entry for entry in jobs.history(job.job_id) if entry.event == "completed"]
        assert len(ends) <= 1, "the history is written a moment later, and a kill may lose an entry; never is there a second"
    assert jobs.locks.list() == []
    assert jobs.store.all(sa.select(job_queue)) == []


def test_the_result_of_a_worker_that_was_stopped_for_longer_than_its_lease_does_not_count(
    store_url: str, jobs: Jobs, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("faults", 1)
    job = jobs.submit(TableName.parse("demo.t", catalog="lake"), ["expire_snapshots"])
    with ExitStack() as processes:
        stopped = processes.enter_context(worker(store_url, "stopped", str(tmp_path / "go-on")))
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "working\n"
        stopped.send_signal(signal.SIGSTOP)
        eventually(lambda: job.job_id in jobs.sweep().requeued)
        other = processes.enter_context(worker(store_url, "other"))
        eventually(lambda: jobs.get(job.job_id).status is JobStatus.COMPLETED)
        result = jobs.get(job.job_id)

        (tmp_path / "go-on").touch()
        stopped.send_signal(signal.SIGCONT)
        following = jobs.submit(TableName.parse("demo.t", catalog="lake"), ["rewrite_manifests"])
        eventually(lambda: jobs.get(following.job_id).status is JobStatus.COMPLETED)
        for process in (stopped, other):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) in (0, 1)

    assert jobs.get(job.job_id) == result
    assert result.attempt == 2
    assert jobs.locks.list() == []
