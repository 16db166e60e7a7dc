"""A DAG that a test breaks and mends."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

with DAG("system_brittle", schedule=None):
    EmptyOperator(task_id="work")
