"""The example DAGs that need no Spark are what their pages say."""

from __future__ import annotations

import runpy
from datetime import timedelta
from pathlib import Path

import pytest
from airflow_since import since_airflow

from airflow_snowpack import dags
from airflow_snowpack.provider_info import CONFIG
from airflow_snowpack.scheduling import collect

DAGS = Path(__file__).parents[3] / "dags"
EXAMPLES = [
    "snowpack_operations",
    "snowpack_schedules",
    "snowpack_maintain_on_arrival",
    "snowpack_maintain_gently",
    "snowpack_new_flights",
]


@pytest.mark.parametrize("name", EXAMPLES)
@since_airflow(3, 3)
def test_each_example_is_a_dag_with_a_page(name: str) -> None:
    from airflow.sdk import DAG

    found = [value for value in runpy.run_path(str(DAGS / f"{name}.py")).values() if isinstance(value, DAG)]
    assert all(dag.doc_md and dag.tasks for dag in found)


def test_a_quiet_week_does_not_fail_the_dag_of_workers() -> None:
    assert dags.workers.get_task("jobs_wait").timeout > timedelta(days=30).total_seconds()


def test_the_dispatcher_finds_the_example_schedules_by_the_defaults_and_they_begin_suspended() -> None:
    patterns = CONFIG["snowpack"]["options"]["schedule_files"]["default"].split(",")
    found = {schedule.name: schedule for schedule in collect(DAGS, patterns)}

    assert set(found) == {"maintain_flights", "maintain_airports", "maintain_planes"}
    assert not any(schedule.enabled for schedule in found.values())


@since_airflow(3, 3)
def test_a_dag_that_waits_for_data_is_not_started_by_what_tasks_leave_on_the_table() -> None:
    from airflow.sdk import DAG

    from airflow_snowpack.assets import iceberg_asset, is_started_by

    with DAG("waits", schedule=iceberg_asset("demo.flights", watched=True)) as dag:
        pass
    assert is_started_by(dag, iceberg_asset("demo.flights", watched=True))
    assert not is_started_by(dag, iceberg_asset("demo.flights"))
