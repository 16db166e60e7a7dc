"""The collector's DAG in a running Airflow: by its own task's identity it learns who has finished, and drops what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from interim_world import handed_on, holder

from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.jobs import Jobs
from tests.system.conftest import RunningAirflow

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

COLLECTOR = "/dags/snowpack_interim_collector"


@pytest.fixture
def collector(airflow: RunningAirflow) -> Iterator[str]:
    """The DAG, switched on for this test alone: it would collect what other tests look at."""
    airflow.until(lambda: airflow.call("GET", COLLECTOR, allowed=(200, 404)).get("dag_id"), "the collector's DAG is parsed")
    yield COLLECTOR
    airflow.call("PATCH", COLLECTOR, {"is_paused": True})


def test_what_a_finished_run_left_goes(airflow: RunningAirflow, jobs: Jobs, catalog: Catalog, collector: str) -> None:
    import pyarrow as pa

    run = airflow.trigger("system_leaves", {})
    assert airflow.ended(run) == "success"
    registry = InterimRegistry(jobs.store)
    task_id = airflow.call("GET", f"{run.path}/taskInstances")["task_instances"][0]["task_id"]
    left = handed_on(registry, holder(task_id, run_id=run.run_id, dag_id=run.dag_id), rows=0, consumers=[task_id])
    catalog.create_namespace_if_not_exists("snowpack_interim")
    catalog.create_table(left.table.removeprefix("lake."), schema=pa.schema([("id", pa.int64())]))
    registry.nudge(run.dag_id, run.run_id)

    airflow.call("PATCH", collector, {"is_paused": False})
    collects = airflow.until(lambda: airflow.call("GET", f"{collector}/dagRuns")["dag_runs"], "a run of the collector")
    run_id = collects[-1]["dag_run_id"]
    airflow.until(lambda: airflow.call("GET", f"{collector}/dagRuns/{run_id}")["state"] == "success", "it has collected")
    told = airflow.call("GET", f"{collector}/dagRuns/{run_id}/taskInstances/collect/xcomEntries/return_value?deserialize=true")
    assert left.table in [each["table"] for each in told["value"]["dropped"]]
    assert not catalog.table_exists(left.table.removeprefix("lake."))
    assert registry.tables(dag_id=run.dag_id) == []
