"""The DAG ``snowpack_workers``, and the lines of its page that limit it by a pool."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack import dags, operators, sensors

if TYPE_CHECKING:
    from airflow.sdk import DAG

REPOSITORY = Path(__file__).parents[3]


def example() -> DAG:
    return dags.workers


def on_the_page() -> DAG:
    from airflow.sdk import DAG

    page = (REPOSITORY / "docs/dags.md").read_text()
    imported = {"JobQueueSensor": sensors.JobQueueSensor, "RunQueuedJobsOperator": operators.RunQueuedJobsOperator}
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "RunQueuedJobsOperator" in block]
    with DAG("page", schedule=None) as dag:
        exec(textwrap.dedent(block), imported)
    return dag


@pytest.mark.parametrize("source", [example, on_the_page])
def test_a_worker_is_started_for_each_number_that_the_sensor_returns(source: Any) -> None:
    """The sensor's tests show which numbers those are."""
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    dag = source()
    sensor, work = dag.get_task("jobs_wait"), dag.get_task("work")
    assert isinstance(sensor, sensors.JobQueueSensor)
    assert (sensor.max_workers, work.upstream_task_ids) == (4, {"jobs_wait"})
    assert isinstance(work, MappedOperator)
    assert work.operator_class is operators.RunQueuedJobsOperator
    assert work.expand_input.value == {"number": sensor.output}


def test_each_worker_takes_a_slot_of_the_pool_that_the_dag_names() -> None:
    work = on_the_page().get_task("work")
    workers = [work.unmap({"number": number}) for number in range(4)]

    assert [(worker.number, worker.pool, worker.pool_slots) for worker in workers] == [
        (number, "snowpack_workers", 1) for number in range(4)
    ]
