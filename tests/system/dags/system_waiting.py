"""The DAG whose mapped tasks wait for queued jobs, one for each table."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_snowpack.operators import MaintainTableOperator

with DAG(
    "system_waiting",
    schedule=None,
    params={"tables": ["db.none"]},
    # A task of a busy machine may miss a heartbeat: its next try waits for the same job.
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
):

    @task
    def tables(params: Any = None) -> list[str]:
        """Return the tables of the run's configuration."""
        return list(params["tables"])

    MaintainTableOperator.partial(task_id="maintain", actions=["expire_snapshots"], execution="queued").expand(table=tables())
