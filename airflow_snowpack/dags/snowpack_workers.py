"""Run the jobs of the queue in Airflow's own tasks.

Unpause it where jobs are queued (`execution="queued"`, `SubmitMaintenanceOperator`, the API, the command line) and no other
workers run. It waits in the triggerer until jobs wait, and then starts a worker for each, four at most. A worker runs jobs with
one Spark session until the queue is empty. Create a pool and name it in `work` to limit the workers of several DAGs together.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import RunQueuedJobsOperator
from airflow_snowpack.sensors import JobQueueSensor

with DAG(
    dag_id="snowpack_workers",
    schedule="@continuous",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,  # it claims every job of the queue, also where other workers run
    doc_md=__doc__,
    tags=["snowpack"],
    # If the store does not answer for a while, try again. A worker's retry takes over the job of the try before.
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
) as workers:
    # Airflow's default would fail the run after seven days without a job.
    jobs_wait = JobQueueSensor(task_id="jobs_wait", max_workers=4, timeout=timedelta(days=365))
    RunQueuedJobsOperator.partial(task_id="work", run_for=timedelta(minutes=30)).expand(number=jobs_wait.output)
