"""The lock operators and the table sensor, against a real store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_snowpack import operators, sensors
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from tests.unit.faces.conftest import Runner

HOUR = timedelta(hours=1)


@pytest.fixture
def table(identified: Callable[[str], TableName]) -> TableName:
    return identified("demo.flights")


def test_a_dag_run_holds_the_table_that_it_acquired(run_operator: Runner, jobs: Jobs, table: TableName) -> None:
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", ttl=HOUR))

    assert outcome.state == "success"
    lock = jobs.locks.get(table)
    assert lock is not None
    assert lock.holder == "guard/run1"
    assert outcome.xcom == {"table": "lake.demo.flights", "holder": "guard/run1", "expires_at": lock.expires_at.isoformat()}


def test_the_same_run_acquires_again_and_releases_once(run_operator: Runner, jobs: Jobs, table: TableName) -> None:
    for _ in range(2):
        assert run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights")).state == "success"

    assert run_operator(operators.ReleaseTableLockOperator(task_id="release", table="demo.flights")).xcom is True
    assert run_operator(operators.ReleaseTableLockOperator(task_id="release", table="demo.flights")).xcom is False
    assert jobs.locks.get(table) is None


def test_a_lock_of_another_holder_fails_the_task_and_names_the_holder(run_operator: Runner, jobs: Jobs, table: TableName) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights"))

    assert outcome.state == "up_for_retry"
    assert "has been locked by etl/nightly since" in str(outcome.error)


def test_a_lock_of_another_holder_skips_the_task_that_asks_for_that(run_operator: Runner, jobs: Jobs, table: TableName) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="skip"))

    assert outcome.state == "skipped"


def test_waiting_for_a_lock_happens_in_the_triggerer_and_ends_with_the_lock(
    run_operator: Runner, jobs: Jobs, table: TableName
) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    waiting = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"))
    assert waiting.state == "deferred"
    assert waiting.message.classpath == "airflow_snowpack.triggers.waits.TableLockTrigger"

    jobs.locks.release(table, "etl/nightly")
    resume = ("execute_complete", {**waiting.message.next_kwargs, "event": {"table": "demo.flights", "free": True}})
    resumed = run_operator(
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"), resume=resume
    )
    assert resumed.state == "success"
    lock = jobs.locks.get(table)
    assert lock is not None
    assert lock.holder == "guard/run1"


def test_a_faster_holder_after_a_wait_means_another_wait_until_the_same_moment(
    run_operator: Runner, jobs: Jobs, table: TableName
) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    first = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"))
    resume = ("execute_complete", {**first.message.next_kwargs, "event": {"table": "demo.flights", "free": True}})
    second = run_operator(
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"), resume=resume
    )

    assert second.state == "deferred"
    assert second.message.next_kwargs == first.message.next_kwargs


def test_a_wait_that_is_over_fails_and_names_the_holder(run_operator: Runner, jobs: Jobs) -> None:
    event = {"table": "demo.flights", "free": False, "holder": "etl/nightly"}
    resume = ("execute_complete", {"event": event, "until": "2026-01-01T00:00:00+00:00"})
    outcome = run_operator(
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"), resume=resume
    )

    assert outcome.state == "up_for_retry"
    assert "still locked by etl/nightly" in str(outcome.error)


def test_a_bad_table_name_fails_without_a_retry(run_operator: Runner) -> None:
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="flights; DROP TABLE x"))

    assert outcome.state == "failed"
    assert "is not a table name" in str(outcome.error)


def test_an_unknown_way_to_meet_a_lock_is_refused_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="fail, skip, wait"):
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="hope")


def test_the_sensor_of_a_free_table_succeeds_at_once(run_operator: Runner, jobs: Jobs) -> None:
    assert run_operator(sensors.TableLockSensor(task_id="free", table="demo.flights")).state == "success"


def test_the_sensor_of_a_held_table_waits_in_the_triggerer(run_operator: Runner, jobs: Jobs, table: TableName) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(sensors.TableLockSensor(task_id="free", table="demo.flights"))

    assert outcome.state == "deferred"
    assert outcome.message.classpath == "airflow_snowpack.triggers.waits.TableLockTrigger"
