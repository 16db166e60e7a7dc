"""A second catalog with a table of the same name: submit, locks, workers and assets stay with the requested catalog."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from airflow_since import since_airflow

from airflow_snowpack import hooks, operators, sensors
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, Jobs, JobStatus
from tests.unit.faces.conftest import Runner

OTHER = "other_lake"


@pytest.fixture
def theirs(flights: TableName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableName:
    """``demo.flights`` of the catalog at the connection ``other_lake``."""
    import pyarrow as pa

    (tmp_path / "other").mkdir()
    extra = {"warehouse": f"file://{tmp_path}/other"}
    connection = {"conn_type": "sqlite", "host": f"{tmp_path}/other/catalog.db", "extra": extra}
    monkeypatch.setenv(f"AIRFLOW_CONN_{OTHER.upper()}", json.dumps(connection))
    hook = hooks.IcebergCatalogHook(OTHER)
    hook.catalog.create_namespace("demo")
    hook.catalog.create_table(flights.identifier, schema=pa.schema([("id", pa.int64())]))
    name = hook.identified("demo.flights")
    assert str(name) == str(flights)
    assert name != flights
    return name


@pytest.fixture
def submitted(run_operator: Runner, jobs: Jobs, theirs: TableName) -> Job:
    """A job that a task submitted for the other catalog."""
    task = operators.SubmitMaintenanceOperator(
        task_id="submit", table="demo.flights", actions=["expire_snapshots"], catalog_conn_id=OTHER
    )
    outcome = run_operator(task)
    assert outcome.xcom["catalog_id"] == theirs.catalog_id
    return jobs.get(outcome.xcom["job_id"])


def test_a_submitted_job_carries_its_catalog_and_locks_its_table_only(jobs: Jobs, submitted: Job, flights: TableName) -> None:
    assert submitted.table.catalog_id == hooks.IcebergCatalogHook(OTHER).config.catalog_id
    assert jobs.locks.get(submitted.table) is not None
    assert jobs.locks.get(flights) is None


def test_a_worker_task_of_the_installations_catalog_leaves_the_job_and_reports_it(
    run_operator: Runner, jobs: Jobs, submitted: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work"))

    assert outcome.state == "skipped"
    assert "1 waiting job belongs to other catalogs" in capsys.readouterr().out
    assert jobs.get(submitted.job_id).status is JobStatus.PENDING


def test_a_worker_task_that_names_a_job_of_another_catalog_fails_for_good(
    run_operator: Runner, jobs: Jobs, submitted: Job
) -> None:
    outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=submitted.job_id))

    assert outcome.state == "failed"
    assert f"is in the catalog lake ({submitted.table.catalog_id})" in str(outcome.error)
    assert jobs.get(submitted.job_id).status is JobStatus.PENDING


def test_the_same_tables_of_two_catalogs_are_maintained_at_the_same_time(
    run_operator: Runner, jobs: Jobs, submitted: Job, flights: TableName
) -> None:
    mine = operators.SubmitMaintenanceOperator(task_id="mine", table="demo.flights", actions=["expire_snapshots"])

    assert run_operator(mine).state == "success"
    assert {lock.table for lock in jobs.locks.list()} == {flights, submitted.table}


def test_a_retry_that_was_given_another_catalog_submits_a_job_of_its_own(
    run_operator: Runner, jobs: Jobs, submitted: Job, flights: TableName
) -> None:
    again = operators.SubmitMaintenanceOperator(task_id="submit", table="demo.flights", actions=["expire_snapshots"])
    outcome = run_operator(again, try_number=2)

    assert outcome.xcom["job_id"] != submitted.job_id
    assert outcome.xcom["catalog_id"] == flights.catalog_id


def test_locks_and_the_sensor_are_about_the_catalog_that_is_named(
    run_operator: Runner, jobs: Jobs, theirs: TableName, flights: TableName
) -> None:
    acquire = operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", catalog_conn_id=OTHER)
    assert run_operator(acquire).state == "success"
    assert [lock.table for lock in jobs.locks.list()] == [theirs]

    def free(catalog_conn_id: str | None) -> sensors.TableLockSensor:
        return sensors.TableLockSensor(task_id="free", table="demo.flights", catalog_conn_id=catalog_conn_id)

    assert run_operator(free(None)).state == "success"
    deferred = run_operator(free(OTHER))
    assert deferred.state == "deferred"
    assert deferred.message.trigger_kwargs["catalog_id"] == theirs.catalog_id

    mine = operators.ReleaseTableLockOperator(task_id="release", table="demo.flights")
    assert run_operator(mine).xcom is False
    release = operators.ReleaseTableLockOperator(task_id="release", table="demo.flights", catalog_conn_id=OTHER)
    assert run_operator(release).xcom is True


def test_waiting_for_a_locked_table_waits_for_the_table_of_the_right_catalog(
    run_operator: Runner, jobs: Jobs, theirs: TableName
) -> None:
    jobs.locks.acquire(theirs, "etl", ttl=timedelta(hours=1))
    task = operators.SubmitMaintenanceOperator(
        task_id="submit", table="demo.flights", actions=["expire_snapshots"], catalog_conn_id=OTHER, if_locked="wait"
    )
    outcome = run_operator(task)

    assert outcome.state == "deferred"
    assert outcome.message.trigger_kwargs["catalog_id"] == theirs.catalog_id


@since_airflow(3, 3)
def test_a_table_of_another_catalog_is_another_asset_in_all_that_names_it(
    installation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.assets import iceberg_asset, maintained_tables, maintenance_outlet

    uri = "iceberg://lake/demo/flights?catalog_conn_id=other_lake"
    assert iceberg_asset("demo.flights", catalog_conn_id=OTHER).uri == uri
    assert maintenance_outlet("demo.flights", dry_run=False, catalog_conn_id=OTHER) == iceberg_asset(
        "demo.flights", catalog_conn_id=OTHER
    )
    watched = iceberg_asset("demo.flights", catalog_conn_id=OTHER, watched=True)
    assert watched.uri == f"{uri}&events=arrivals"
    assert [watcher.name for watcher in watched.watchers] == ["snowpack demo.flights in other_lake"]
    assert maintenance_outlet("demo.flights", dry_run=False, catalog_conn_id="{{ params.lake }}") == maintained_tables()

    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", OTHER)
    mine = "iceberg://lake/demo/flights"
    assert iceberg_asset("demo.flights").uri == iceberg_asset("demo.flights", catalog_conn_id=OTHER).uri == mine


def test_the_maintenance_operator_declares_the_asset_of_its_catalog(installation: Path) -> None:
    from airflow_snowpack.assets import iceberg_asset

    task = operators.MaintainTableOperator(task_id="maintain", table="demo.flights", catalog_conn_id=OTHER)

    assert task.outlets == [iceberg_asset("demo.flights", catalog_conn_id=OTHER)]
