"""Maintain several tables by schedules, which are declared beside the DAG that they start.

The dispatcher (`snowpack_dispatcher`, or `airflow snowpack scheduler`) finds them by the name of this file, which matches
`[snowpack] schedule_files`. They are created suspended; `airflow snowpack schedules resume maintain_flights` starts one.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import MaintainTableOperator
from airflow_snowpack.scheduling import (
    BytesAdded,
    CommitsAdded,
    Every,
    MaxConcurrent,
    PartitionsAdded,
    Schedule,
    Since,
    SinceLastRun,
    Timeout,
    TimeWindow,
)

with DAG(
    dag_id="snowpack_maintain_scheduled",
    schedule=None,
    catchup=False,
    doc_md=__doc__,
    tags=["snowpack"],
    default_args={"retries": 1, "retry_delay": timedelta(minutes=1)},
    params={"table": "demo.flights"},
):
    MaintainTableOperator(task_id="maintain", table="{{ params.table }}", if_locked="wait")

GENTLY = [MaxConcurrent(2, group="compaction"), SinceLastRun("5m")]

# A busy table: by amount, at night, and after a day even outside of the window.
FLIGHTS = Schedule(
    "maintain_flights",
    dag_id="snowpack_maintain_scheduled",
    conf={"table": "demo.flights"},
    trigger=PartitionsAdded("demo.flights", 5) | BytesAdded("demo.flights", "100GB") | Every("1d"),
    constraints=[TimeWindow("22:00", "06:00", tz="America/New_York"), *GENTLY],
    timeout=Timeout("1d", then="launch"),
    priority=5,
    description="At night, when enough has arrived.",
)

# Tables that change rarely: half an hour after the last commit.
REFERENCE = [
    Schedule(
        f"maintain_{name}",
        dag_id="snowpack_maintain_scheduled",
        conf={"table": f"demo.{name}"},
        trigger=Since(CommitsAdded(f"demo.{name}"), "30m"),
        constraints=GENTLY,
        priority=-5,
    )
    for name in ("airports", "planes")
]
