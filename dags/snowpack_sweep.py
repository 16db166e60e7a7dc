"""Clean up behind processes that are gone: every five minutes.

Jobs whose worker died go back to the queue when their lease has run out, or fail with their reason when they have no attempts
left, and tables whose holder is gone become free. Unpause it once, in every installation.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import SweepOperator

with DAG(
    dag_id="snowpack_sweep",
    schedule=timedelta(minutes=5),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["snowpack"],
):
    SweepOperator(task_id="sweep", execution_timeout=timedelta(minutes=2))
