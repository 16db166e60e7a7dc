"""Tasks that do a background role's work leave a sign of life with the period that their DAG's schedule promises."""

from __future__ import annotations

import threading
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_snowpack import operators
from airflow_snowpack.api.roles import DagState
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.store.signs_of_life import read_signs
from tests.unit.faces.conftest import Runner

pytestmark = pytest.mark.one_database
NOW = datetime(2026, 11, 21, 18, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "minutes"),
    [
        (timedelta(minutes=5), 5),
        ("*/10 * * * *", 10),
        ("0 8-18 * * *", 13.5 * 60),
        ("@daily", 24 * 60),
        ("@continuous", 5),
        (None, 5),
    ],
)
def test_the_period_follows_the_schedule_of_the_dag(schedule: Any, minutes: float) -> None:
    from airflow.sdk import DAG

    from airflow_snowpack.operators.housekeeping import period_of

    dag = DAG("some", schedule=schedule, start_date=NOW, max_active_runs=1)
    assert period_of(dag.timetable, NOW) == timedelta(minutes=minutes)


def test_a_sweep_that_fails_leaves_no_sign(run_operator: Runner, jobs: Jobs) -> None:
    jobs.store.transact(lambda conn: conn.exec_driver_sql("ALTER TABLE job_queue RENAME TO elsewhere"))

    assert run_operator(operators.SweepOperator(task_id="sweep")).state != "success"
    assert jobs.store.read(read_signs) == []


@pytest.mark.usefixtures("flights")
def test_a_sweep_a_queue_worker_and_a_collector_are_seen_and_a_run_of_one_job_is_not(run_operator: Runner, jobs: Jobs) -> None:
    from airflow.sdk import DAG

    with DAG("often", schedule=timedelta(minutes=2), start_date=NOW):
        sweep = operators.SweepOperator(task_id="sweep")
        work = operators.RunMaintenanceJobOperator(task_id="work")
        one = operators.RunMaintenanceJobOperator(task_id="one", job_id="0123456789abcdef")
        look = operators.CollectInterimTablesOperator(task_id="look", dry_run=True)
        collect = operators.CollectInterimTablesOperator(task_id="collect", sweep=False)
    for task in (sweep, work, one, look, collect):
        run_operator(task)
    found = jobs.store.read(read_signs)

    assert [(sign.role, sign.instance, sign.period, sign.detail["dag"]) for sign in found] == [
        ("collector", "often.collect", timedelta(minutes=2), "often"),
        ("sweeper", "often.sweep", timedelta(minutes=2), "often"),
        ("worker", "often.work", timedelta(minutes=2), "often"),
    ]


def test_an_airflow_database_that_hangs_delays_one_answer_by_its_patience_and_no_further_one() -> None:
    from airflow_snowpack.hooks.services import DagStatesInTime

    release, asked = threading.Event(), []

    def hang(dag_ids: Collection[str]) -> dict[str, DagState]:
        asked.append(dag_ids)
        release.wait()
        return {"snowpack_sweep": DagState.PAUSED}

    states = DagStatesInTime(hang, timeout=timedelta(milliseconds=20))
    try:
        assert [states(["snowpack_sweep"]) for _ in range(3)] == [{}, {}, {}]
        assert len(asked) == 1, "the others did not wait"
    finally:
        release.set()
    patient = DagStatesInTime(lambda dag_ids: {"snowpack_sweep": DagState.PAUSED}, timeout=timedelta(minutes=5))
    assert patient(["snowpack_sweep"]) == {"snowpack_sweep": DagState.PAUSED}
