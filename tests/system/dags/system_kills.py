"""What is started while its starters are killed. An empty task takes no worker, so a hundred runs are nothing to wait for."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

for target in ("system_killed_each", "system_killed_fifth"):
    with DAG(target, schedule=None, max_active_runs=100):
        EmptyOperator(task_id="work")
