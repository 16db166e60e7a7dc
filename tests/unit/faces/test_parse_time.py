"""A DAG file with every operator and sensor must not load what only running them needs.

Airflow itself imports SQLAlchemy into every process, so the comparison is with a DAG file that has only
Airflow's own base classes.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from bounded import output_of

if TYPE_CHECKING:
    from pathlib import Path

TELL = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))\n"

BARE = """
from airflow.sdk import DAG, Asset, AssetAlias, BaseOperator, BaseSensorOperator, task

with DAG("nothing", schedule=Asset("x://a") | AssetAlias("b")):
    BaseOperator(task_id="a", outlets=[Asset("x://c")])
    BaseSensorOperator(task_id="b")

    @task
    def c(): ...

    c()
"""

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_snowpack.assets import build_asset, iceberg_asset, maintained_tables, published_builds
from airflow_snowpack.interim import TableRef, named_table
from airflow_snowpack.scheduling import BytesAdded, PartitionsAdded, Schedule, SinceLastRun
from airflow_snowpack.operators import (
    AcquireTableLockOperator, BuildShardsOperator, CancelMaintenanceOperator, CleanupBuildsOperator,
    CollectInterimTablesOperator, MaintainTableOperator, MapPartitionsOperator, MapRowsOperator, PublishBuildOperator,
    ReduceRowsOperator, ReleaseTableLockOperator, RollbackBuildOperator, RunMaintenanceJobOperator, SelectWinnersOperator,
    ShardedBuildOperator, SnowpackDispatcherOperator, SubmitMaintenanceOperator, SweepOperator,
)
from airflow_snowpack.sensors import BuildPublishedSensor, IcebergDataArrivalSensor, MaintenanceJobSensor, TableLockSensor

with DAG("everything", schedule=iceberg_asset("demo.flights") | maintained_tables() | build_asset("others") | published_builds()):
    MaintainTableOperator(task_id="maintain", table="demo.flights", actions=["expire_snapshots"])
    MaintainTableOperator(task_id="maintain_later", table="{{ params.table }}")
    SubmitMaintenanceOperator(task_id="submit", table="demo.flights")
    RunMaintenanceJobOperator(task_id="run")
    CancelMaintenanceOperator(task_id="cancel", job_id="0123")
    SweepOperator(task_id="sweep")
    CollectInterimTablesOperator(task_id="collect")
    AcquireTableLockOperator(task_id="acquire", table="demo.flights")
    ReleaseTableLockOperator(task_id="release", table="demo.flights")
    MaintenanceJobSensor(task_id="done", job_id="0123")
    TableLockSensor(task_id="free", table="demo.flights")
    IcebergDataArrivalSensor(task_id="arrived", trigger=PartitionsAdded("demo.flights", 5) | BytesAdded("demo.flights", "1GB"))
    SnowpackDispatcherOperator(task_id="dispatch")
    ShardedBuildOperator(task_id="build", dataset="flights", sql="SELECT 1 AS id", key="id", num_shards=8)
    write = BuildShardsOperator(task_id="write", dataset="flights", table="demo.flights", key="id", max_keys_per_shard=10)
    select = SelectWinnersOperator(task_id="select", build=write.output)
    PublishBuildOperator(task_id="publish", build=select.output)
    RollbackBuildOperator(task_id="back", dataset="flights", to="-1")
    CleanupBuildsOperator(task_id="clean")
    BuildPublishedSensor(task_id="published", dataset="flights")
    rows = MapRowsOperator(task_id="rows", python_callable=dict, table="demo.flights", schema="flight int")
    parts = MapPartitionsOperator(task_id="parts", python_callable=iter, table=rows.output)
    ReduceRowsOperator(task_id="one", python_callable=max, table=parts.output, fan_in=10)

    @task.snowpack(name="features", scope="global", preservation="FULL", ttl="7d")
    def features(spark, flights: TableRef): ...

    features.expand(flights=[named_table("flights")])

Schedule("s", dag_id="everything", trigger=PartitionsAdded("demo.flights"), constraints=[SinceLastRun("5m")])
"""

HEAVY = ("pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "alembic", "psycopg", "pandas", "numpy")


def modules_after(source: str, folder: Path) -> set[str]:
    script = folder / "parsed.py"
    script.write_text(source + TELL)
    told = output_of(sys.executable, str(script))
    return set(json.loads(told.splitlines()[-1]))


@pytest.fixture(scope="module")
def loaded_by_ours(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that the operators cost beyond Airflow itself."""
    folder = tmp_path_factory.mktemp("parsed")
    return modules_after(DAG_FILE, folder) - modules_after(BARE, folder)


def test_parsing_loads_no_spark_no_iceberg_and_no_database(loaded_by_ours: set[str]) -> None:
    assert {name for name in loaded_by_ours if name.partition(".")[0] in HEAVY} == set()


def test_parsing_loads_neither_the_store_nor_the_jobs(loaded_by_ours: set[str]) -> None:
    rooms = ("airflow_snowpack.store", "airflow_snowpack.jobs", "airflow_snowpack.spark")

    assert {name for name in loaded_by_ours if name.startswith(rooms)} == set()


SWEEP = """
from airflow_snowpack.hooks.store import SnowpackHook

with SnowpackHook() as hook:
    hook.jobs().sweep()
"""


def test_a_task_on_the_embedded_store_loads_no_postgres_no_migrations_and_no_iceberg(installation: Path, tmp_path: Path) -> None:
    modules_after(SWEEP, tmp_path)  # makes the tables
    loaded = modules_after(SWEEP, tmp_path) - modules_after(BARE, tmp_path)

    assert {
        name for name in loaded if name.partition(".")[0] in {"psycopg", "alembic", "pyiceberg", "pyarrow", "pyspark"}
    } == set()
