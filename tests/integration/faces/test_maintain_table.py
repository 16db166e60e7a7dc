"""Maintaining a real table from a task, and what becomes of it when the task is ended, replaced or cancelled meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from airflow_snowpack import operators
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, Jobs, JobStatus, StaleAttempt
from tests.unit.faces.conftest import Runner

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

REWRITE = ["rewrite_data_files"]
SMALL = {"rewrite_data_files": {"min_input_files": 2, "rewrite_all": True}}


def maintain(table: TableName, **arguments: Any) -> operators.MaintainTableOperator:
    given = {"actions": REWRITE, "options": SMALL, **arguments}
    return operators.MaintainTableOperator(task_id="maintain", table=table.dotted, **given)


def only_job(jobs: Jobs) -> Job:
    (job,) = jobs.list()
    return job


def rows_of(spark: SparkSession, table: TableName) -> int:
    return spark.table(table.quoted).count()


def active_spark_jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_maintained_table_has_fewer_files_as_its_task_and_its_event_report(
    run_operator: Runner, jobs: Jobs, small_files: TableName
) -> None:
    task = maintain(small_files)
    outcome = run_operator(task)

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["results"][0]["message"] == "Compacted 6 files into 1"
    assert outcome.xcom["before"]["data_files"] == 6
    assert outcome.xcom["after"]["data_files"] == 1
    assert outcome.xcom["before"]["records"] == outcome.xcom["after"]["records"] == 60
    assert only_job(jobs).status is JobStatus.COMPLETED
    assert jobs.locks.get(small_files) is None
    (event,) = outcome.events
    assert event["dest_asset_key"]["uri"] == small_files.asset_uri
    assert event["extra"]["before"]["data_files"] == 6
    assert event["extra"]["after"]["data_files"] == 1
    assert event["extra"]["job_id"] == outcome.xcom["job_id"]


def test_a_table_that_is_known_only_later_gets_its_event_through_the_alias(run_operator: Runner, small_files: TableName) -> None:
    from airflow.sdk import AssetAlias

    task = operators.MaintainTableOperator(task_id="maintain", table="{{ params.table }}", actions=REWRITE, options=SMALL)
    outcome = run_operator(task, params={"table": small_files.dotted})

    assert task.outlets == [AssetAlias("snowpack_maintained_tables")]
    (event,) = outcome.events
    assert event["dest_asset_key"]["uri"] == small_files.asset_uri
    assert event["source_alias_name"] == "snowpack_maintained_tables"


def test_a_failed_action_fails_the_task_with_its_error(run_operator: Runner, jobs: Jobs, small_files: TableName) -> None:
    outcome = run_operator(maintain(small_files, where="length(cast(part AS STRING)) = 3"))

    assert outcome.state == "failed", "the same predicate would be refused again"
    assert "Cannot convert Spark filter" in str(outcome.error)
    assert only_job(jobs).status is JobStatus.FAILED
    assert jobs.locks.get(small_files) is None


def test_a_retry_takes_the_job_of_the_try_before_over_at_once(run_operator: Runner, jobs: Jobs, small_files: TableName) -> None:
    left_behind = jobs.submit_and_claim(small_files, REWRITE, "a process that is gone", owner="guard/run1/maintain")
    outcome = run_operator(maintain(small_files), try_number=2)

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["job_id"] == left_behind.job.job_id
    assert outcome.xcom["attempt"] == 2
    assert jobs.finish(left_behind, JobStatus.COMPLETED, []) is False


def test_a_task_that_is_ended_while_spark_works_stops_it_and_leaves_the_store_tidy(
    run_operator: Runner,
    jobs: Jobs,
    spark: SparkSession,
    small_files: TableName,
    meanwhile: Callable[..., AbstractContextManager[None]],
) -> None:
    exits: list[int | str | None] = []

    def kill() -> None:
        # From a thread: a SystemExit in the main thread would tear the session that the other tests share. The system tests
        # have the real signal.
        try:
            run_operator.instance.task.on_kill()
        except SystemExit as exit:
            exits.append(exit.code)

    with meanwhile(kill, until_the_end=True):
        outcome = run_operator(maintain(small_files))

    assert exits == [143]
    assert outcome.state == "up_for_retry"
    job = only_job(jobs)
    assert (job.status, job.error) == (JobStatus.FAILED, "Airflow ended the task guard.maintain")
    assert jobs.locks.get(small_files) is None
    assert active_spark_jobs(spark) == []
    assert rows_of(spark, small_files) == 60


def test_a_job_that_is_cancelled_while_spark_works_stops_and_is_not_tried_again(
    run_operator: Runner,
    jobs: Jobs,
    spark: SparkSession,
    small_files: TableName,
    meanwhile: Callable[..., AbstractContextManager[None]],
) -> None:
    with meanwhile(lambda: jobs.cancel(only_job(jobs).job_id, by="ops"), until_the_end=True):
        outcome = run_operator(maintain(small_files))

    assert outcome.state == "failed"
    assert isinstance(outcome.error, Exception)
    assert isinstance(outcome.error.__cause__, StaleAttempt)
    assert only_job(jobs).status is JobStatus.CANCELLED
    assert jobs.locks.get(small_files) is None
    assert rows_of(spark, small_files) == 60


def test_an_attempt_that_is_replaced_leaves_the_end_to_its_successor(
    run_operator: Runner,
    jobs: Jobs,
    small_files: TableName,
    meanwhile: Callable[..., AbstractContextManager[None]],
) -> None:
    def take_over() -> None:
        jobs.take_over(only_job(jobs).job_id, "the next try", owner="guard/run1/maintain")

    with meanwhile(take_over, until_the_end=True):
        outcome = run_operator(maintain(small_files))

    assert outcome.state == "failed"  # and not up_for_retry: that would take the job from the successor
    assert only_job(jobs).status is JobStatus.RUNNING
    lock = jobs.locks.get(small_files)
    assert lock is not None
    assert lock.holder == only_job(jobs).job_id


def test_a_submitted_job_is_run_by_another_task(run_operator: Runner, jobs: Jobs, small_files: TableName) -> None:
    submit = operators.SubmitMaintenanceOperator(task_id="submit", table=small_files.dotted, actions=REWRITE, options=SMALL)
    submitted = run_operator(submit)
    outcome = run_operator(operators.RunMaintenanceJobOperator(task_id="work", job_id=submitted.xcom["job_id"]))

    assert outcome.state == "success", outcome.error
    assert outcome.xcom["job_id"] == submitted.xcom["job_id"]
    assert outcome.xcom["results"][0]["message"] == "Compacted 6 files into 1"


def test_a_queued_task_reports_what_the_worker_did_to_its_table(run_operator: Runner, jobs: Jobs, small_files: TableName) -> None:
    deferred = run_operator(maintain(small_files, execution="queued"))
    worked = run_operator(operators.RunMaintenanceJobOperator(task_id="work"))
    assert worked.state == "success", worked.error
    event = {"event": {"status": "completed"}, **deferred.message.next_kwargs}
    outcome = run_operator(maintain(small_files, execution="queued"), resume=(deferred.message.next_method, event))

    assert outcome.state == "success", outcome.error
    assert outcome.xcom == worked.xcom | {"before": outcome.xcom["before"], "after": outcome.xcom["after"]}
    assert (outcome.xcom["before"]["data_files"], outcome.xcom["after"]["data_files"]) == (6, 1)
    (recorded,) = outcome.events
    assert recorded["dest_asset_key"]["uri"] == small_files.asset_uri
    assert recorded["extra"]["after"]["data_files"] == 1
    assert jobs.locks.get(small_files) is None


def test_removing_orphans_of_one_table_again_loads_that_table_alone(
    run_operator: Runner,
    small_files: TableName,
    new_table: Callable[..., TableName],
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: set[tuple[str, ...]] = set()
    data = Path(urlsplit(catalog.load_table(small_files.identifier).location()).path, "data")
    really = type(catalog).load_table

    def load(self: Catalog, identifier: tuple[str, ...]) -> Table:
        loaded.add(identifier)
        return really(self, identifier)

    def removed() -> str:
        loaded.clear()
        stray = data / "stray.parquet"
        stray.write_text("stray")
        os.utime(stray, (86_400, 86_400))
        outcome = run_operator(maintain(small_files, actions=["remove_orphan_files"], options=None))
        return str(outcome.xcom["results"][0]["message"])

    other = new_table()
    monkeypatch.setattr(type(catalog), "load_table", load)

    assert removed() == "Removed 1 orphan file"
    assert {small_files.identifier, other.identifier} <= loaded, "all that the catalog has"
    assert removed() == "Removed 1 orphan file"
    assert loaded == {small_files.identifier}
