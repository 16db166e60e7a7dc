"""A trigger with conf, a backfill, and waits in the triggerer, through Airflow's own processes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.types import DateType, LongType, NestedField

from airflow_snowpack.jobs import JobStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs
    from tests.system.conftest import AirflowHome, RunningAirflow

DAYS = [date(2013, 7, day) for day in range(1, 8)]
FLIGHTS = Schema(NestedField(1, "flight_date", DateType()), NestedField(2, "delay", LongType()))
BY_DAY = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=DayTransform(), name="flight_day"))


def small_commits(count: int = 6) -> list[pa.Table]:
    return [pa.table({"id": pa.array(range(100))})] * count


def test_a_trigger_with_conf_maintains_the_table_and_leaves_its_event(
    airflow: RunningAirflow, new_table: Callable[..., TableName]
) -> None:
    table = new_table(small_commits())
    conf = {
        "table": table.dotted,
        "actions": ["rewrite_data_files"],
        "options": {"rewrite_data_files": {"min_input_files": 2}},
        "dry_run": False,
    }
    run = airflow.trigger("snowpack_maintain_table", conf)

    assert airflow.ended(run) == "success"
    report = airflow.result(run, "maintain")
    assert report["results"][0]["message"] == "Compacted 6 files into 1"
    assert (report["before"]["data_files"], report["after"]["data_files"]) == (6, 1)
    events = airflow.call("GET", f"/assets/events?source_dag_id={run.dag_id}&source_run_id={run.run_id}")["asset_events"]
    assert [event["uri"] for event in events] == [table.asset_uri]
    assert events[0]["extra"]["after"] == report["after"]


def test_a_dry_run_with_conf_leaves_the_table_as_it_is(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName], load: Callable[[TableName], Table]
) -> None:
    table = new_table(small_commits())
    run = airflow.trigger("snowpack_maintain_table", {"table": table.dotted, "dry_run": True})

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


def test_a_backfill_over_five_days_compacts_these_days_and_no_other(
    airflow: RunningAirflow, airflow_home: AirflowHome, new_table: Callable[..., TableName], load: Callable[[TableName], Table]
) -> None:
    rows = [pa.table({"flight_date": pa.array([day] * 50), "delay": pa.array(range(50))}) for day in DAYS for _ in range(3)]
    table = new_table(rows, schema=FLIGHTS, partition_spec=BY_DAY)
    airflow_home.run(
        "backfill",
        "create",
        "--dag-id",
        "snowpack_maintain_partitions",
        "--from-date",
        "2013-07-01",
        "--to-date",
        "2013-07-05",
        "--max-active-runs",
        "2",
        "--reprocess-behavior",
        "none",
        "--dag-run-conf",
        f'{{"table": "{table.dotted}"}}',
    )
    runs = airflow.backfill_runs("snowpack_maintain_partitions")

    assert len(runs) == 5
    assert {airflow.ended(run) for run in runs} == {"success"}
    by_day = Counter(partition["flight_day"] for partition in load(table).inspect.files()["partition"].to_pylist())
    assert by_day == {day: 1 if day <= date(2013, 7, 5) else 3 for day in DAYS}


def test_the_job_sensor_waits_in_the_triggerer_until_the_job_has_ended(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    table = new_table(small_commits(1))
    run = airflow.trigger("system_submit", {"table": table.dotted})
    airflow.task_becomes(run, "done", "deferred")
    claim = jobs.claim("the test", job_id=airflow.result(run, "submit")["job_id"])
    assert claim is not None
    jobs.finish(claim, JobStatus.COMPLETED, [])

    assert airflow.ended(run) == "success"
    assert airflow.result(run, "done")["status"] == "completed"


def test_the_job_sensor_fails_with_the_error_of_the_job(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    table = new_table(small_commits(1))
    run = airflow.trigger("system_submit", {"table": table.dotted})
    airflow.task_becomes(run, "done", "deferred")
    jobs.cancel(airflow.result(run, "submit")["job_id"], by="ops")

    assert airflow.ended(run) == "failed"
    assert jobs.locks.get(table) is None


def test_a_run_that_guards_its_writes_waits_for_the_holder_of_the_table(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    table = new_table(small_commits(1))
    jobs.locks.acquire(table, "somebody", ttl=timedelta(hours=1))
    run = airflow.trigger("system_guard", {"table": table.dotted})
    airflow.task_becomes(run, "acquire", "deferred")
    jobs.locks.release(table, "somebody")

    assert airflow.ended(run) == "success"
    assert airflow.result(run, "acquire")["holder"] == f"system_guard/{run.run_id}"
    assert airflow.result(run, "release") is True
    assert datetime.fromisoformat(airflow.result(run, "acquire")["expires_at"]) > datetime.now(UTC)


def test_a_gated_run_waits_while_another_has_passed_and_goes_on_after_its_end(
    airflow: RunningAirflow, jobs: Jobs, new_table: Callable[..., TableName]
) -> None:
    held, free = new_table(small_commits(1)), new_table(small_commits(1))
    jobs.locks.acquire(held, "somebody", ttl=timedelta(hours=1))
    first = airflow.trigger("system_gated", {"table": held.dotted})
    airflow.task_becomes(first, "work", "deferred")
    second = airflow.trigger("system_gated", {"table": free.dotted})
    airflow.task_becomes(second, "gate", "deferred")
    waits = airflow.call("GET", f"{second.path}/taskInstances/gate/xcomEntries/waits_because")["value"]
    assert "1 of at most 1 runs of system_gated are active" in waits

    jobs.locks.release(held, "somebody")
    assert airflow.ended(first) == "success"
    assert airflow.ended(second) == "success"
    assert airflow.result(second, "gate")["met"] is True
    passed_at = datetime.fromisoformat(airflow.task(second, "gate")["end_date"])
    assert passed_at >= datetime.fromisoformat(airflow.call("GET", first.path)["end_date"])
