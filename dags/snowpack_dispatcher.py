"""Start the DAG runs that Snowpack's schedules want: when data has arrived, the moment is right, and there is room.

Unpause it once, in every installation that has schedules. One run follows the other, an hour each; between two launches it waits
in the triggerer and holds no worker's slot. `airflow snowpack scheduler` does the same as a process of its own, and both may run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import SnowpackDispatcherOperator

with DAG(
    dag_id="snowpack_dispatcher",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["snowpack"],
    # What it needs is gone for a while, such as the store: try again, and again in the next run. In a minute at the latest, since
    # nobody does its work meanwhile.
    default_args={
        "retries": 5,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=1),
    },
):
    SnowpackDispatcherOperator(task_id="dispatch", run_for=timedelta(minutes=55))
