"""Maintain a table every day, but only at night, next to at most one other run, and an hour after the last run.

The first task of the DAG is a gate that holds the run until its constraints are met. It waits in the triggerer and uses no worker
slot. The group `compaction` is also that of the schedules in `snowpack_schedules`: their runs and these count each other.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_snowpack.operators import MaintainTableOperator
from airflow_snowpack.sensors import RunConstraintSensor

MINUTE = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"

with DAG(
    dag_id="snowpack_maintain_gently",
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
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
        ),
        "from": Param("22:00", type="string", pattern=MINUTE, title="From", description="Local time of the zone"),
        "until": Param("06:00", type="string", pattern=MINUTE, title="Until", description="Earlier than From means the next day"),
        "zone": Param("UTC", type="string", title="Zone", description="such as Europe/Berlin"),
    },
):
    gate = RunConstraintSensor(
        task_id="gate",
        constraints=[
            {"time_window": {"start": "{{ params['from'] }}", "end": "{{ params.until }}", "tz": "{{ params.zone }}"}},
            {"max_concurrent": {"limit": 2, "group": "compaction"}},
            {"since_last_run": "1h"},
        ],
        timeout=timedelta(hours=23),
        on_timeout="skip",
    )
    gate >> MaintainTableOperator(task_id="maintain", table="{{ params.table }}", if_locked="wait")
