"""Drop the interim tables that no task needs any more, every ten minutes.

A table is dropped when all tasks that received it have finished for good and it is not preserved. Nothing else drops interim
tables: without this DAG no table is lost, and none is removed. Unpause it once, in every installation that uses `@task.snowpack`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import CollectInterimTablesOperator

with DAG(
    dag_id="snowpack_interim_collector",
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    is_paused_upon_creation=True,
    tags=["snowpack"],
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
) as collector:
    CollectInterimTablesOperator(task_id="collect", execution_timeout=timedelta(hours=1))
