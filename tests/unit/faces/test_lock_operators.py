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


def test_a_dag_run_holds_the_table_that_it_acquired_once_or_again_until_it_releases_it(
    run_operator: Runner, jobs: Jobs, table: TableName
) -> None:
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", ttl=HOUR))

    assert outcome.state == "success"
    lock = jobs.locks.get(table)
    assert lock is not None
    assert lock.holder == "guard/run1"
    assert outcome.xcom == {"table": "lake.demo.flights", "holder": "guard/run1", "expires_at": lock.expires_at.isoformat()}

    for _ in range(2):
        assert run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights")).state == "success"

    assert run_operator(operators.ReleaseTableLockOperator(task_id="release", table="demo.flights")).xcom is True
    assert run_operator(operators.ReleaseTableLockOperator(task_id="release", table="demo.flights")).xcom is False
    assert jobs.locks.get(table) is None

    assert run_operator(sensors.TableLockSensor(task_id="free", table="demo.flights")).state == "success"


def test_a_lock_of_another_holder_fails_or_skips_the_task_and_defers_the_sensor(
    run_operator: Runner, jobs: Jobs, table: TableName
) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights"))

    assert outcome.state == "up_for_retry"
    assert "has been locked by etl/nightly since" in str(outcome.error)

    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="skip"))

    assert outcome.state == "skipped"

    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    outcome = run_operator(sensors.TableLockSensor(task_id="free", table="demo.flights"))

    assert outcome.state == "deferred"
    assert outcome.message.classpath == "airflow_snowpack.triggers.waits.TableLockTrigger"


def test_waiting_for_a_lock_happens_in_the_triggerer_until_the_same_moment_or_the_lock_ends(
    run_operator: Runner, jobs: Jobs, table: TableName
) -> None:
    jobs.locks.acquire(table, "etl/nightly", ttl=HOUR)
    acquire = operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait")
    waiting = run_operator(acquire)
    assert waiting.state == "deferred"
    assert waiting.message.classpath == "airflow_snowpack.triggers.waits.TableLockTrigger"

    resume = ("execute_complete", {**waiting.message.next_kwargs, "event": {"table": "demo.flights", "free": True}})
    faster = run_operator(acquire, resume=resume)
    assert (faster.state, faster.message.next_kwargs) == ("deferred", waiting.message.next_kwargs), "another holder was faster"

    jobs.locks.release(table, "etl/nightly")
    assert run_operator(acquire, resume=resume).state == "success"
    lock = jobs.locks.get(table)
    assert lock is not None
    assert lock.holder == "guard/run1"


def test_a_wait_that_is_over_fails_and_names_the_holder(run_operator: Runner, jobs: Jobs) -> None:
    event = {"table": "demo.flights", "free": False, "holder": "etl/nightly"}
    resume = ("execute_complete", {"event": event, "until": "2026-01-01T00:00:00+00:00"})
    outcome = run_operator(
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="wait"), resume=resume
    )

    assert outcome.state == "up_for_retry"
    assert "still locked by etl/nightly" in str(outcome.error)


def test_a_bad_table_name_fails_without_a_retry_and_an_unknown_way_to_meet_a_lock_is_refused_when_the_dag_is_parsed(
    run_operator: Runner,
) -> None:
    outcome = run_operator(operators.AcquireTableLockOperator(task_id="acquire", table="flights; DROP TABLE x"))

    assert outcome.state == "failed"
    assert "is not a table name" in str(outcome.error)

    with pytest.raises(ValueError, match="fail, skip, wait"):
        operators.AcquireTableLockOperator(task_id="acquire", table="demo.flights", if_locked="hope")
