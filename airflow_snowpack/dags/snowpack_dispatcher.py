"""Start the DAG runs of Snowpack's schedules.

Unpause it once, in every installation that has schedules. Its runs follow each other, an hour each; while there is nothing to do
it waits in the triggerer and uses no worker slot. `airflow snowpack scheduler` does the same as a process of its own; both can
run at the same time.
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
    # If the store does not answer for a while, try again, within a minute at most: meanwhile no run is started.
    default_args={
        "retries": 5,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": True,
        "max_retry_delay": timedelta(minutes=1),
    },
) as scheduler:
    SnowpackDispatcherOperator(task_id="dispatch", run_for=timedelta(minutes=55))
