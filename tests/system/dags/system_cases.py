"""DAGs for the system tests alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from airflow_snowpack.assets import IcebergTableWatcher, iceberg_asset
from airflow_snowpack.operators import (
    AcquireTableLockOperator,
    MaintainTableOperator,
    ReleaseTableLockOperator,
    SubmitMaintenanceOperator,
)
from airflow_snowpack.scheduling import MaxConcurrent
from airflow_snowpack.sensors import IcebergDataArrivalSensor, MaintenanceJobSensor, RunConstraintSensor, TableLockSensor

SOON, LONG = timedelta(seconds=1), timedelta(hours=1)
# For tasks that defer: Airflow may fail a try since it heard late of the deferral (docs/decisions/0010).
AGAIN: dict[str, Any] = {"retries": 3, "retry_delay": SOON}

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

queued: dict[str, Any] = {
    "task_id": "maintain",
    "table": "{{ params.table }}",
    "actions": ["rewrite_manifests"],
    "execution": "queued",
    "poll_interval": SOON,
}

with DAG("system_queued", schedule=None, params={"table": "db.none"}, default_args=AGAIN):
    MaintainTableOperator(**queued)

with DAG("system_queued_limited", schedule=None, params={"table": "db.none"}):
    MaintainTableOperator(**queued, execution_timeout=timedelta(seconds=30))

with DAG("system_submit", schedule=None, params={"table": "db.none"}, default_args=AGAIN):
    submit = SubmitMaintenanceOperator(task_id="submit", table="{{ params.table }}", actions=["rewrite_manifests"])
    done = MaintenanceJobSensor(task_id="done", job_id="{{ ti.xcom_pull('submit')['job_id'] }}", poke_interval=SOON)
    submit >> done

with DAG("system_mapped", schedule=None, params={"table": "db.none"}):
    SubmitMaintenanceOperator.partial(task_id="plan", table="{{ params.table }}", dry_run=True).expand(
        actions=[["rewrite_manifests"], ["expire_snapshots"]]
    )

with DAG("system_guard", schedule=None, params={"table": "db.none"}, default_args=AGAIN):
    acquire = AcquireTableLockOperator(task_id="acquire", table="{{ params.table }}", if_locked="wait", poll_interval=SOON)
    release = ReleaseTableLockOperator(task_id="release", table="{{ params.table }}", trigger_rule="all_done")
    acquire >> release

# What schedules start: one DAG for each test, so that they can run at the same time.
for case in ("scheduled_1", "scheduled_4", "scheduled_6", "scheduled_8", "scheduled_late", "witness", "registered"):
    with DAG(f"system_{case}", schedule=None):
        EmptyOperator(task_id="work")

with DAG("system_asset", schedule=None):
    EmptyOperator(task_id="work", outlets=[Asset("x://system/late")])

arrivals = iceberg_asset("db.watched", watched=True)
watched = Asset(uri=arrivals.uri, group=arrivals.group, watchers=[IcebergTableWatcher("db.watched", poll=SOON)])
with DAG("system_watched", schedule=watched):
    EmptyOperator(task_id="work")

with DAG("system_arrival", schedule=None, params={"table": "db.none"}, default_args=AGAIN):
    IcebergDataArrivalSensor(
        task_id="wait",
        trigger={"partitions_added": {"table": "{{ params.table }}", "count": 3}},
        consumer="system_arrival {{ params.table }}",
        poke_interval=SOON,
        timeout=LONG,
    )

# One run at a time: it goes on while nobody holds its table.
with DAG("system_gated", schedule=None, params={"table": "db.none"}, default_args=AGAIN):
    gate = RunConstraintSensor(task_id="gate", constraints=[MaxConcurrent(1)], timeout=LONG)
    gate >> TableLockSensor(task_id="work", table="{{ params.table }}", poke_interval=SOON)
