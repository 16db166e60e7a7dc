"""A worker: what it claims, and how it leaves. The processes and the signals are real."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
import worker_process
from bounded import PATIENCE_S as SAFETY_LIMIT_S, Beside, started
from scripted_engine import PATIENCE_S, ScriptedEngine

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Claim, Jobs, JobStatus, JobWorker
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.tables.jobs import job_queue


@pytest.fixture
def live(store_url: str, store: Store) -> Iterator[Jobs]:
    """Jobs on the machine's clock, which is the worker process's too."""
    with Jobs(open_store(store_url)) as jobs:
        yield jobs


@contextmanager
def worker(url: str, how: str, first_line: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that has said its first line."""
    command = [sys.executable, worker_process.__file__, url, how]
    folder = Path(worker_process.__file__).parent
    with started(command, stdout=subprocess.PIPE, cwd=folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == first_line
        yield process


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_whose_main_thread_is_stuck_in_c_fails_its_job_and_exits_with_1(
    store_url: str, live: Jobs, table: TableName, sent: signal.Signals, record_property: Callable[[str, object], None]
) -> None:
    job = live.submit(table, ["rewrite_data_files"])
    with worker(store_url, "stuck", "stuck") as process:
        assert live.get(job.job_id).status is JobStatus.RUNNING
        asked = time.monotonic()
        process.send_signal(sent)
        code = process.wait(SAFETY_LIMIT_S)
        record_property("seconds_from_signal_to_exit", round(time.monotonic() - asked, 2))

    failed = live.get(job.job_id)
    assert (code, failed.status, failed.error) == (1, JobStatus.FAILED, f"Worker received {sent.name}")
    assert live.locks.list() == []
    assert live.store.read(lambda conn: conn.execute(sa.select(job_queue)).all()) == []
    assert "failed" in [entry.event for entry in live.history(job.job_id)]


@pytest.mark.one_database
def test_an_idle_worker_that_is_told_to_leave_exits_with_0(store_url: str, live: Jobs, table: TableName) -> None:
    with worker(store_url, "quick", "idle") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(SAFETY_LIMIT_S) == 0
    job = live.submit(table, ["rewrite_data_files"])
    assert live.get(job.job_id).status is JobStatus.PENDING


def test_a_worker_that_was_killed_leaves_its_job_to_the_sweep(store_url: str, live: Jobs, table: TableName) -> None:
    job = live.submit(table, ["rewrite_data_files"])
    with worker(store_url, "stuck", "stuck") as process:
        process.kill()
        assert process.wait(SAFETY_LIMIT_S) == -signal.SIGKILL

    assert live.get(job.job_id).status is JobStatus.RUNNING
    assert live.queue_depth() == 0


@pytest.mark.one_database
def test_a_worker_drains_the_queue_and_then_finds_nothing(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    submitted = [jobs.submit(name, ["expire_snapshots"]) for name in (table, other_table)]
    drain = JobWorker(jobs, ScriptedEngine, "w1")

    assert [drain.run_once(), drain.run_once(), drain.run_once()] == [JobStatus.COMPLETED, JobStatus.COMPLETED, None]
    assert {jobs.get(job.job_id).status for job in submitted} == {JobStatus.COMPLETED}


@pytest.mark.one_database
def test_a_worker_logs_which_job_it_runs_and_how_that_ended(
    jobs: Jobs, table: TableName, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="airflow_snowpack.jobs.worker")
    job = jobs.submit(table, ["expire_snapshots"])
    JobWorker(jobs, lambda: ScriptedEngine({"expire_snapshots": "fail"}), "w1").run_once()

    error = jobs.get(job.job_id).error
    assert error is not None
    assert caplog.messages == [
        f"Job {job.job_id}, attempt 1, on {table}: expire_snapshots",
        f"Job {job.job_id} on {table} ended as failed: {error}",
    ]


@pytest.mark.one_database
def test_a_worker_whose_attempt_was_cancelled_goes_on_with_the_next_job(
    jobs: Jobs, table: TableName, other_table: TableName
) -> None:
    cancelled = jobs.submit(table, ["rewrite_data_files", "expire_snapshots"])
    engine = ScriptedEngine(between=lambda _action: jobs.cancel(cancelled.job_id) and None)
    engines = iter([engine, ScriptedEngine()])
    worker = JobWorker(jobs, lambda: next(engines), "w1")

    assert worker.run_once() is JobStatus.CANCELLED
    jobs.submit(other_table, ["expire_snapshots"])
    assert worker.run_once() is JobStatus.COMPLETED


@pytest.mark.one_database
def test_a_machine_that_cannot_make_an_engine_takes_no_job(jobs: Jobs, table: TableName) -> None:
    def no_java() -> ScriptedEngine:
        raise RuntimeError("no Java")

    job = jobs.submit(table, ["rewrite_data_files"])
    with pytest.raises(RuntimeError, match="no Java"):
        JobWorker(jobs, no_java, "w1").run_once()
    assert jobs.get(job.job_id).status is JobStatus.PENDING


@pytest.mark.one_database
def test_an_engine_is_made_for_each_job_and_not_for_each_look_into_an_empty_queue(jobs: Jobs, table: TableName) -> None:
    made: list[ScriptedEngine] = []

    def make() -> ScriptedEngine:
        made.append(ScriptedEngine())
        return made[-1]

    worker = JobWorker(jobs, make, "w1")
    assert [worker.run_once() for _ in range(3)] == [None, None, None]
    jobs.submit(table, ["rewrite_data_files"])
    worker.run_once()
    jobs.submit(table, ["rewrite_data_files"])
    worker.run_once()
    assert [engine.ran for engine in made] == [["rewrite_data_files"], ["rewrite_data_files"]]


def test_a_signal_in_the_middle_of_a_claim_is_answered_for_the_claimed_job(store: Store, table: TableName) -> None:
    claiming, go_on = threading.Event(), threading.Event()

    class SlowToClaim(Jobs):
        def claim(self, worker_id: str, *, job_id: str | None = None, catalog_id: str = "") -> Claim | None:
            claim = super().claim(worker_id, job_id=job_id, catalog_id=catalog_id)
            claiming.set()
            assert go_on.wait(PATIENCE_S)
            return claim

    jobs = SlowToClaim(store)
    job = jobs.submit(table, ["rewrite_data_files"])
    engine = ScriptedEngine({"rewrite_data_files": "block"})
    worker = JobWorker(jobs, lambda: engine, "w1")
    running = Beside(worker.run_once)
    assert claiming.wait(PATIENCE_S)
    leave = Beside(lambda: worker.abandon("Worker received SIGTERM"))  # what the shutdown watcher calls
    go_on.set()
    leave.join()
    running.join()

    assert jobs.get(job.job_id).error == "Worker received SIGTERM"
    assert worker.run_once() is None, "it claims nothing more"
