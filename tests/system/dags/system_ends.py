"""A DAG that asks Airflow about the ended runs of another one, as the dispatcher does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, task


@task
def ask(about: str) -> dict[str, Any]:
    from airflow_snowpack.hooks.task_dag_runs import TaskDagRuns
    from airflow_snowpack.scheduling.airflow_port import EndsQuery

    found = TaskDagRuns().ended_runs([EndsQuery(about, datetime.now(UTC) - timedelta(hours=1), search=True)])[about]
    ended = {run_id: [end.state, str(end.began_at), str(end.at)] for run_id, end in found.ended.items()}
    return {"counts": dict(found.counts or {}), "ended": ended}


with DAG("system_asks", schedule=None):
    ask("system_ended")

with DAG("system_ended", schedule=None):
    EmptyOperator(task_id="work")

with DAG("system_leaves", schedule=None):
    EmptyOperator(task_id="work")
