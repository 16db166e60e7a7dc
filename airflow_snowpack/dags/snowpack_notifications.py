"""Send what people have to know about tables, jobs and schedules, once, and a digest every morning.

Name the notifiers in `[snowpack] notifiers`, and unpause it. For notifiers of a DAG file, use `NotifyOperator` in a DAG of your
own instead.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import NotifyOperator

with DAG(
    dag_id="snowpack_notifications",
    schedule=timedelta(minutes=5),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,  # it fails until a notifier is named
    doc_md=__doc__,
    tags=["snowpack"],
) as notifications:
    NotifyOperator(task_id="notify", execution_timeout=timedelta(minutes=10))
