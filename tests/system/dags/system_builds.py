"""DAGs that build snapshots, for the system tests alone: without Spark, so that they take seconds."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_snowpack.assets import build_asset
from airflow_snowpack.operators import ShardedBuildOperator
from airflow_snowpack.sensors import BuildPublishedSensor

SOON = timedelta(seconds=1)
BUILD: dict[str, Any] = {"key": "user", "num_shards": 1, "engine": "python", "shard_format": "sqlite"}


def rows_of(data_interval_end: datetime) -> list[dict[str, Any]]:
    """Two rows that say of which day they are."""
    return [{"user": user, "day": data_interval_end.date().isoformat()} for user in ("ann", "bob")]


with DAG(
    "system_daily_build",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    is_paused_upon_creation=True,
):
    ShardedBuildOperator(task_id="build", dataset="system_days", python_callable=rows_of, **BUILD)

with DAG("system_after_build", schedule=build_asset("system_days")):
    EmptyOperator(task_id="work")

with DAG("system_awaits_build", schedule=None, params={"as_of": ""}):
    BuildPublishedSensor(
        task_id="wait",
        dataset="system_days",
        as_of="{{ params.as_of }}",
        poke_interval=SOON,
        retries=3,  # Airflow may fail a try since it heard late of the deferral (docs/decisions/0010)
        retry_delay=SOON,
    )


def slow_rows(params: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that take minutes to write at the rate of the first try; it leaves its process id for the one who kills it."""
    with Path(params["pids"]).open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    return [{"user": f"u{number}", "number": number} for number in range(2000)]


with DAG("system_slow_build", schedule=None, params={"pids": "", "dataset": "system_slow"}):
    ShardedBuildOperator(
        task_id="build",
        dataset="{{ params.dataset }}",
        python_callable=slow_rows,
        batch_size=10,
        rows_per_second="{{ 10 if ti.try_number == 1 else 1000000 }}",
        retries=2,
        retry_delay=SOON,
        **BUILD,
    )
