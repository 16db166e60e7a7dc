"""A trigger with conf, a backfill, and waits in the triggerer, through Airflow's own processes.

All runs begin together, before the first test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DateType, LongType, NestedField

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from tests.system.conftest import Run, RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.table import Table

DAYS = [date(2013, 7, day) for day in range(1, 6)]
LAST_BACKFILLED = DAYS[2]
MAINTAIN, BACKFILL = "snowpack_maintain_table", "snowpack_maintain_partitions"
FLIGHTS = Schema(NestedField(1, "flight_date", DateType()), NestedField(2, "delay", LongType()))
BY_DAY = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="flight_day"))


def small_commits(count: int = 6) -> list[pa.Table]:
    return [pa.table({"id": pa.array(range(100))})] * count


@dataclass(frozen=True)
class Started:
    """A run, and the table that it is about."""

    run: Run
    table: TableName


@dataclass(frozen=True)
class Runs:
    """The runs of this module. The table of ``guarded`` and that of ``gated`` are locked by somebody else."""

    maintained: Started
    dry: Started
    submitted: Started
    cancelled: Started
    guarded: Started
    gated: Started
    backfilled: TableName


@pytest.fixture(scope="module")
def runs(_running: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]) -> Runs:
    """Start them all."""

    def start(dag_id: str, table: TableName, **conf: Any) -> Started:
        return Started(_running.trigger(dag_id, {"table": table.dotted, **conf}), table)

    guarded, gated = new_table(small_commits(1)), new_table(small_commits(1))
    for table in (guarded, gated):
        jobs.locks.acquire(table, "somebody", ttl=timedelta(hours=2))
    rows = [pa.table({"flight_date": pa.array([day] * 50), "delay": pa.array(range(50))}) for day in DAYS for _ in range(3)]
    by_day = new_table(rows, schema=FLIGHTS, partition_spec=BY_DAY)
    options = {"rewrite_data_files": {"min_input_files": 2}}
    started = Runs(
        maintained=start(MAINTAIN, new_table(small_commits()), actions=["rewrite_data_files"], options=options, dry_run=False),
        dry=start(MAINTAIN, new_table(small_commits()), dry_run=True),
        submitted=start("system_submit", new_table(small_commits(1))),
        cancelled=start("system_submit", new_table(small_commits(1))),
        guarded=start("system_guard", guarded),
        gated=start("system_gated", gated),
        backfilled=by_day,
    )
    _running.backfill(BACKFILL, DAYS[0], LAST_BACKFILLED, {"table": by_day.dotted})
    return started


def test_a_trigger_with_conf_maintains_the_table_and_leaves_its_event(airflow: RunningAirflow, runs: Runs) -> None:
    run, table = runs.maintained.run, runs.maintained.table
    assert airflow.ended(run) == "success"
    report = airflow.result(run, "maintain")
    assert report["results"][0]["message"] == "Compacted 6 files into 1"
    assert (report["before"]["data_files"], report["after"]["data_files"]) == (6, 1)
    events = airflow.call("GET", f"/assets/events?source_dag_id={run.dag_id}&source_run_id={run.run_id}")["asset_events"]
    assert [event["uri"] for event in events] == [table.asset_uri]
    assert events[0]["extra"]["after"] == report["after"]


def test_a_dry_run_with_conf_leaves_the_table_as_it_is(
    airflow: RunningAirflow, runs: Runs, jobs: Jobs, load: Callable[[TableName], Table]
) -> None:
    run, table = runs.dry.run, runs.dry.table
    assert airflow.ended(run) == "success"
    assert airflow.result(run, "maintain")["dry_run"] is True
    assert len(load(table).inspect.files()) == 6
    assert jobs.locks.get(table) is None


def test_a_conf_that_the_form_would_refuse_is_refused(airflow: RunningAirflow) -> None:
    answer = airflow.call(
        "POST",
        "/dags/snowpack_maintain_table/dagRuns",
        {"logical_date": None, "conf": {"table": "db.t; DROP TABLE t"}},
        allowed=(400, 422),
    )

    assert "table" in str(answer)


def test_the_job_sensor_waits_in_the_triggerer_until_the_job_has_ended(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    run = runs.submitted.run
    airflow.task_becomes(run, "done", "deferred")
    job = jobs.get(airflow.result(run, "submit")["job_id"])
    claim = jobs.claim("the test", job_id=job.job_id, catalog_id=job.table.catalog_id)
    assert claim is not None
    jobs.finish(claim, JobStatus.COMPLETED, [])

    assert airflow.ended(run) == "success"
    assert airflow.tries(run, "done") == 1
    assert airflow.result(run, "done")["status"] == "completed"


def test_the_job_sensor_fails_with_the_error_of_the_job(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    run, table = runs.cancelled.run, runs.cancelled.table
    airflow.task_becomes(run, "done", "deferred")
    jobs.cancel(airflow.result(run, "submit")["job_id"], by="ops")

    assert airflow.ended(run) == "failed"
    assert airflow.tries(run, "done") == 1, "it fails for good"
    assert jobs.locks.get(table) is None


def test_a_run_that_guards_its_writes_waits_for_the_holder_of_the_table(airflow: RunningAirflow, runs: Runs, jobs: Jobs) -> None:
    run, table = runs.guarded.run, runs.guarded.table
    airflow.task_becomes(run, "acquire", "deferred")
    jobs.locks.release(table, "somebody")

    assert airflow.ended(run) == "success"
    assert airflow.tries(run, "acquire") == 1
    assert airflow.result(run, "acquire")["holder"] == f"system_guard/{run.run_id}"
    assert airflow.result(run, "release") is True
    assert datetime.fromisoformat(airflow.result(run, "acquire")["expires_at"]) > datetime.now(UTC)


def test_a_gated_run_waits_while_another_has_passed_and_goes_on_after_its_end(
    airflow: RunningAirflow, runs: Runs, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    first, held, free = runs.gated.run, runs.gated.table, new_table(small_commits(1))
    airflow.task_becomes(first, "work", "deferred")
    second = airflow.trigger("system_gated", {"table": free.dotted})
    airflow.task_becomes(second, "gate", "deferred")
    waits = airflow.call("GET", f"{second.path}/taskInstances/gate/xcomEntries/waiting_reason")["value"]
    assert "1 of at most 1 runs of system_gated are active" in waits

    jobs.locks.release(held, "somebody")
    assert airflow.ended(first) == "success"
    assert airflow.ended(second) == "success"
    assert (airflow.tries(first, "work"), airflow.tries(second, "gate")) == (1, 1)
    assert airflow.result(second, "gate")["met"] is True
    passed_at = datetime.fromisoformat(airflow.task(second, "gate")["end_date"])
    assert passed_at >= datetime.fromisoformat(airflow.call("GET", first.path)["end_date"])


def test_a_backfill_over_some_days_compacts_these_days_and_no_other(
    airflow: RunningAirflow, runs: Runs, load: Callable[[TableName], Table]
) -> None:
    """More days than may run at once, all of them on one table, so that they wait for each other."""
    backfill = airflow.backfill_runs(BACKFILL)

    assert len(backfill) == 3
    assert {airflow.ended(run) for run in backfill} == {"success"}
    by_day = Counter(partition["flight_day"] for partition in load(runs.backfilled).inspect.files()["partition"].to_pylist())
    assert by_day == {day: 1 if day <= LAST_BACKFILLED else 3 for day in DAYS}
