"""Clean up after workers that died, every five minutes.

Jobs whose lease expired go back to the queue, or fail if they have no attempts left; locks of workers that died are released.
Unpause it once, in every installation.
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
) as sweep:
    SweepOperator(task_id="sweep", execution_timeout=timedelta(minutes=2))
