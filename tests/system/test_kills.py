"""What becomes of a job when Airflow ends its task, or when the task's supervisor dies and leaves the task alive."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest
from titled_process import gone

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, Jobs, JobStatus
from tests.system.conftest import Run, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.table import Table

ROWS = 500_000

pytestmark = pytest.mark.usefixtures("orphaned")


@pytest.fixture(scope="module")
def new_slow_table(new_table: Callable[..., TableName], load: Callable[[TableName], Table]) -> Callable[[], TableName]:
    """Make a table whose rewrite takes seconds: its rows don't compress, and Spark is made to try hard."""

    def make() -> TableName:
        name = new_table([pa.table({"note": [os.urandom(40).hex() for _ in range(ROWS // 2)]}) for _ in range(2)])
        _compress(load(name), level=19)
        return name

    return make


@pytest.fixture
def slow_table(new_slow_table: Callable[[], TableName]) -> TableName:
    return new_slow_table()


def _compress(table: Table, *, level: int) -> None:
    with table.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": str(level)})


def rewriting(
    airflow: RunningAirflow, jobs: Jobs, table: TableName, attempt: int = 1
) -> tuple[Job, psutil.Process, psutil.Process]:
    """The running job, the process of its task, and the JVM that this has started; waits for all of them."""

    def look() -> tuple[Job, psutil.Process, psutil.Process] | None:
        for job in jobs.list(table=table, status=JobStatus.RUNNING):
            workers = [entry.detail["worker"] for entry in jobs.history(job.job_id) if "worker" in entry.detail]
            if job.attempt == attempt and len(workers) == attempt:
                task = psutil.Process(int(workers[-1].rpartition(":")[2]))
                for child in task.children(recursive=True):
                    if "java" in child.name() and child.cpu_times().user > 6:  # past its start, which takes 4 s of CPU
                        return job, task, child
        return None

    found: tuple[Job, psutil.Process, psutil.Process] = airflow.until(look, f"attempt {attempt} on {table} works in Spark")
    return found


@dataclass(frozen=True)
class Orphaned:
    """A job whose task has lost its supervisor in the middle of a rewrite."""

    run: Run
    table: TableName
    job: Job
    task: psutil.Process
    jvm: psutil.Process


@pytest.fixture(scope="module")
def orphaned(
    _running: RunningAirflow, jobs: Jobs, new_slow_table: Callable[[], TableName], load: Callable[[TableName], Table]
) -> Iterator[Orphaned]:
    """Before the first test: Airflow takes its time to miss the supervisor, and the other tests run meanwhile.

    The first attempt is held in its rewrite, so that it is certainly alive when the second takes over. Not a moment earlier:
    the kernel hangs up a process group that is orphaned while a member is stopped.
    """
    table = new_slow_table()
    run = _running.trigger("system_maintain", {"table": table.dotted})
    job, task, jvm = rewriting(_running, jobs, table)
    supervisor = task.parent()
    assert supervisor is not None
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    _compress(load(table), level=1)  # the retry need not be slow
    jvm.send_signal(signal.SIGSTOP)
    yield Orphaned(run, table, job, task, jvm)
    with suppress(psutil.NoSuchProcess):
        jvm.send_signal(signal.SIGCONT)


def events_of(jobs: Jobs, job: Job) -> list[str]:
    return [entry.event for entry in jobs.history(job.job_id)]


@pytest.fixture(autouse=True)
def _fault(record_property: Callable[[str, object], None]) -> None:
    record_property("faults", 1)  # each test injects one


def test_a_task_that_is_marked_failed_stops_its_spark_and_leaves_the_store_tidy(
    airflow: RunningAirflow, jobs: Jobs, slow_table: TableName, load: Callable[[TableName], Table]
) -> None:
    before = load(slow_table).current_snapshot()
    run = airflow.trigger("system_maintain", {"table": slow_table.dotted})
    job, task, jvm = rewriting(airflow, jobs, slow_table)
    airflow.set_task_state(run, "maintain", "failed")
    _compress(load(slow_table), level=1)  # whoever comes later need not be slow

    airflow.until(lambda: gone(task) and gone(jvm), "the task and its JVM are gone")
    ended = jobs.get(job.job_id)
    assert (ended.status, ended.error) == (JobStatus.FAILED, "Airflow ended the task system_maintain.maintain")
    assert jobs.locks.get(slow_table) is None
    assert jobs.find_owned(job.owner or "") is None
    assert load(slow_table).current_snapshot() == before
    assert airflow.task(run, "maintain")["state"] == "failed"

    airflow.clear(run)
    assert airflow.ended(run) == "success"
    assert airflow.result(run, "maintain")["job_id"] != job.job_id


def test_a_task_that_reaches_its_time_limit_ends_its_spark_and_its_job(
    airflow: RunningAirflow, jobs: Jobs, slow_table: TableName, load: Callable[[TableName], Table]
) -> None:
    before = load(slow_table).current_snapshot()

    def reach_the_limit() -> list[Job]:
        """On a busy machine, the time may be over before there is a job."""
        assert airflow.ended(airflow.trigger("system_time_limit", {"table": slow_table.dotted})) == "failed"
        return list(jobs.list(table=slow_table))

    (job,) = airflow.until(reach_the_limit, "a run has submitted its job when its time is over")
    assert job.status is JobStatus.FAILED
    assert "AirflowTaskTimeout" in (job.error or "")
    assert jobs.locks.get(slow_table) is None
    assert load(slow_table).current_snapshot() == before


def test_a_retry_takes_the_job_from_an_orphan_and_only_one_attempt_ends_it(
    airflow: RunningAirflow, jobs: Jobs, orphaned: Orphaned, load: Callable[[TableName], Table]
) -> None:
    run, job = orphaned.run, orphaned.job
    airflow.until(lambda: jobs.get(job.job_id).attempt == 2, "the retry takes the job over")
    assert orphaned.task.is_running()
    orphaned.jvm.send_signal(signal.SIGCONT)

    airflow.until(lambda: gone(orphaned.task), "the orphan leaves")
    assert airflow.ended(run) == "success"
    ended = jobs.get(job.job_id)
    assert (ended.status, ended.attempt) == (JobStatus.COMPLETED, 2)
    assert events_of(jobs, job).count("completed") == 1
    assert "failed" not in events_of(jobs, job)
    assert [other.job_id for other in jobs.list(table=orphaned.table)] == [job.job_id]
    assert jobs.locks.get(orphaned.table) is None
    assert load(orphaned.table).scan().to_arrow().num_rows == ROWS
    assert airflow.result(run, "maintain")["attempt"] == 2
