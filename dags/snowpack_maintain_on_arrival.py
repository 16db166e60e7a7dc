"""Maintain a table when enough data has arrived since the last maintenance, and at least every six hours.

The sensor counts across runs and waits in the triggerer. What maintenance rewrites does not count as arriving data.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_snowpack.operators import MaintainTableOperator
from airflow_snowpack.sensors import IcebergDataArrivalSensor

with DAG(
    dag_id="snowpack_maintain_on_arrival",
    schedule=timedelta(hours=6),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["snowpack"],
    is_paused_upon_creation=True,
    params={
        "table": Param(
            "demo.flights",
            type="string",
            pattern=r"^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)+$",
            title="Table",
            description="database.table, as the catalog has it",
        )
    },
):
    arrived = IcebergDataArrivalSensor(
        task_id="arrived",
        trigger={
            "any_of": [
                {"partitions_added": {"table": "{{ params.table }}", "count": 5}},
                {"bytes_added": {"table": "{{ params.table }}", "size": "100GB"}},
            ]
        },
        consumer="snowpack_maintain_on_arrival {{ params.table }}",
        timeout=timedelta(hours=6),
        on_timeout="go_on",
    )
    arrived >> MaintainTableOperator(task_id="maintain", table="{{ params.table }}", if_locked="wait")
