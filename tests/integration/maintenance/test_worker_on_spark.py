"""A worker process in the middle of a rewrite: killed, told to stop, or its job cancelled."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from bounded import PATIENCE_S, started
from clocks import ShiftedClock
from spark_world import SparkWorld

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs, JobStatus, JobWorker, LifecyclePolicy
from airflow_snowpack.maintenance.removals import records
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.maintenance.removals.request import request_of
from airflow_snowpack.store import Actor, open_store

if TYPE_CHECKING:
    from pyiceberg.table import Table

SCRIPT = Path(__file__).parents[2] / "support" / "spark_worker.py"
LEASE = timedelta(minutes=1)
LONGEST_S = 600.0
REWRITE = {"rewrite_data_files": {"min_input_files": 2}}


def eventually(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


@pytest.fixture
def clock() -> ShiftedClock:
    """The clock of this process; the worker's process has the machine's."""
    return ShiftedClock()


@pytest.fixture
def jobs(store_url: str, clock: ShiftedClock) -> Iterator[Jobs]:
    policy = LifecyclePolicy(lease=LEASE, heartbeat=LEASE / 3, retry_base=timedelta(0))
    with Jobs(open_store(store_url, clock=clock), policy) as jobs:
        yield jobs


@contextmanager
def worker_process(store_url: str, lake: CatalogConfig, log: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(SCRIPT), store_url, str(lake_home(lake)), str(LEASE.total_seconds())]
    with (
        log.open("w") as stderr,
        started(command, patience_s=LONGEST_S, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", log.read_text()
        yield process


@contextmanager
def suspended_jvm(worker: subprocess.Popen[str]) -> Iterator[None]:
    """Stop the worker's JVM, so that its rewrite does not end before the worker has noticed what the test does."""
    (jvm,) = [child for child in psutil.Process(worker.pid).children(recursive=True) if child.name() == "java"]
    jvm.suspend()
    try:
        yield
    finally:
        jvm.resume()


def lake_home(lake: CatalogConfig) -> Path:
    return Path(lake.warehouse.removeprefix("file://")).parent


def files_of(table: Table) -> set[Path]:
    return set(Path(table.location().removeprefix("file:")).rglob("*.parquet"))


def wait_for_the_rewrite_to_write(table: Table, before: set[Path]) -> None:
    eventually(lambda: files_of(table) - before)


def slow_to_rewrite(world: SparkWorld) -> TableName:
    """Make a table whose rewrite takes seconds, for another process to be killed meanwhile, because it compresses that hard."""
    name, rows, digits = world.new_table("id BIGINT, note STRING"), 25_000, random.Random(13)
    for _ in range(3):
        world.append(name, id=range(rows), note=[f"{digits.getrandbits(432):0108x}" for _ in range(rows)])
    hard = "'write.parquet.compression-codec' = 'zstd', 'write.parquet.compression-level' = '19'"
    world.sql(f"ALTER TABLE {name.quoted} SET TBLPROPERTIES ({hard})")
    return name


@pytest.mark.one_database
@pytest.mark.timeout(LONGEST_S + 240)  # the worker starts a Spark of its own, which takes long on a busy machine
def test_a_job_whose_worker_was_killed_in_a_rewrite_runs_again_after_its_lease(
    jobs: Jobs,
    clock: ShiftedClock,
    store_url: str,
    lake: CatalogConfig,
    world: SparkWorld,
    tmp_path: Path,
    record_property: Callable[[str, int], None],
) -> None:
    record_property("faults", 1)
    name = slow_to_rewrite(world)
    before, files = world.content(name), files_of(world.table(name))
    with worker_process(store_url, lake, tmp_path / "worker.log") as process:
        job = jobs.submit(name, ["rewrite_data_files"], options=REWRITE)
        wait_for_the_rewrite_to_write(world.table(name), files)
        process.kill()
        process.wait(PATIENCE_S)

    assert jobs.get(job.job_id).status is JobStatus.RUNNING
    assert jobs.locks.get(name) is not None
    assert world.content(name) == before
    assert jobs.sweep().requeued == ()
    clock.ahead += LEASE
    assert jobs.sweep().requeued == (job.job_id,)
    with world.table(name).transaction() as change:  # nothing has to happen during the second attempt
        change.set_properties({"write.parquet.compression-level": "1"})
    assert JobWorker(jobs, lambda: world.engine, "next").run_once() is JobStatus.COMPLETED
    assert jobs.get(job.job_id).attempt == 2
    assert jobs.locks.get(name) is None
    assert world.content(name) == before
    assert len(list(world.table(name).scan().plan_files())) == 1


@pytest.mark.one_database
@pytest.mark.timeout(LONGEST_S + 240)
def test_a_cancel_and_a_sigterm_end_the_rewrite_itself(
    jobs: Jobs, store_url: str, lake: CatalogConfig, world: SparkWorld, tmp_path: Path
) -> None:
    name, log = slow_to_rewrite(world), tmp_path / "worker.log"
    before, head = world.content(name), world.table(name).metadata.current_snapshot_id
    with worker_process(store_url, lake, log) as process:
        files = files_of(world.table(name))
        cancelled = jobs.submit(name, ["rewrite_data_files"], options=REWRITE)
        wait_for_the_rewrite_to_write(world.table(name), files)
        with suspended_jvm(process):
            jobs.cancel(cancelled.job_id)
            eventually(lambda: "fence_moved" in log.read_text())
        eventually(lambda: jobs.locks.get(name) is None)
        assert process.poll() is None, "the worker itself goes on"
        assert world.table(name).metadata.current_snapshot_id == head

        files = files_of(world.table(name))
        stopped = jobs.submit(name, ["rewrite_data_files"], options=REWRITE)
        wait_for_the_rewrite_to_write(world.table(name), files)
        jvms = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 1
        gone, alive = psutil.wait_procs(jvms, timeout=PATIENCE_S)
        assert gone
        assert alive == []

    assert jobs.get(cancelled.job_id).status is JobStatus.CANCELLED
    failed = jobs.get(stopped.job_id)
    assert (failed.status, failed.error) == (JobStatus.FAILED, "Worker received SIGTERM")
    assert jobs.locks.get(name) is None
    assert world.table(name).metadata.current_snapshot_id == head
    assert world.content(name) == before


@pytest.mark.one_database
@pytest.mark.timeout(LONGEST_S + 240)
def test_the_list_of_a_killed_worker_is_deleted_to_its_end_and_nothing_else(
    jobs: Jobs,
    clock: ShiftedClock,
    store_url: str,
    lake: CatalogConfig,
    world: SparkWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, int], None],
) -> None:
    record_property("faults", 1)
    name = world.new_table("id BIGINT")
    world.append(name, id=[1])
    listed = [world.stray(name, f"stray {number}.parquet") for number in range(60)]
    monkeypatch.setattr(records, "PART_SIZE", 5)
    removals = world.removals = records.Removals(jobs.store)

    def next_worker() -> JobWorker:
        return JobWorker(jobs, world.new_engine, "next")

    planning = jobs.submit(name, ["remove_orphan_files"], options={"remove_orphan_files": {"approve_above_files": 0}})
    assert next_worker().run_once() is JobStatus.COMPLETED
    (removal,) = removals.planned_by(planning.job_id)
    removals.approve(removal.removal_id, actor=Actor("vera", "page"))
    later = [world.stray(name, f"later {number}.parquet") for number in range(3)]
    request = request_of(removals.get(removal.removal_id))

    with worker_process(store_url, lake, tmp_path / "worker.log") as process:
        job = jobs.submit(request.table, request.actions, options=request.options)
        eventually(lambda: removals.get(removal.removal_id).deleted_count)
        process.kill()
        process.wait(PATIENCE_S)
    killed = removals.get(removal.removal_id)
    assert killed.state is RemovalState.DELETING
    assert 0 < killed.deleted_count < 60

    clock.ahead += LEASE
    assert jobs.sweep().requeued == (job.job_id,)
    clock.ahead += LEASE
    assert next_worker().run_once() is JobStatus.COMPLETED

    done = removals.get(removal.removal_id)
    assert (done.state, done.deleted_count, done.gone_count, done.left_out_count) == (RemovalState.DELETED, 60, 0, 0)
    assert not any(path.exists() for path in listed)
    assert all(path.exists() for path in later), "they were not in the approved list"
