"""DAGs for the system tests alone."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_snowpack.operators import (
    AcquireTableLockOperator,
    MaintainTableOperator,
    ReleaseTableLockOperator,
    SubmitMaintenanceOperator,
)
from airflow_snowpack.sensors import MaintenanceJobSensor

SOON = timedelta(seconds=1)

with DAG("system_maintain", schedule=None, params={"table": "db.none"}):
    MaintainTableOperator(
        task_id="maintain",
        table="{{ params.table }}",
        actions=["rewrite_data_files"],
        options={"rewrite_data_files": {"rewrite_all": True, "min_input_files": 2}},
        retries=2,
        retry_delay=SOON,
    )

with DAG("system_time_limit", schedule=None, params={"table": "db.none"}):
    MaintainTableOperator(
        task_id="maintain",
        table="{{ params.table }}",
        actions=["rewrite_data_files"],
        options={"rewrite_data_files": {"rewrite_all": True, "min_input_files": 2}},
        execution_timeout=timedelta(seconds=15),
    )

with DAG("system_submit", schedule=None, params={"table": "db.none"}):
    submit = SubmitMaintenanceOperator(task_id="submit", table="{{ params.table }}", actions=["rewrite_manifests"])
    done = MaintenanceJobSensor(task_id="done", job_id="{{ ti.xcom_pull('submit')['job_id'] }}", poke_interval=SOON)
    submit >> done

with DAG("system_mapped", schedule=None, params={"table": "db.none"}):
    SubmitMaintenanceOperator.partial(task_id="plan", table="{{ params.table }}", dry_run=True).expand(
        actions=[["rewrite_manifests"], ["expire_snapshots"]]
    )

with DAG("system_guard", schedule=None, params={"table": "db.none"}):
    acquire = AcquireTableLockOperator(task_id="acquire", table="{{ params.table }}", if_locked="wait", poll_interval=SOON)
    release = ReleaseTableLockOperator(task_id="release", table="{{ params.table }}", trigger_rule="all_done")
    acquire >> release
