"""Delete old rows of the store, every night: what is older than 180 days and no longer needed.

These are jobs that have ended, with their histories; records of builds whose files are deleted; events and lineage; and, after a
year, entries of the audit trail. Unpause it once, so that the store does not grow without limit.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import PruneStoreOperator

with DAG(
    dag_id="snowpack_prune",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["snowpack"],
) as prune:
    PruneStoreOperator(task_id="prune", older_than="180d", execution_timeout=timedelta(hours=2))
