"""A DAG file with every operator and sensor must not load what only running them needs.

Airflow parses each DAG file in a fork of the DAG processor. So the tests fork a process that has loaded what the DAG processor
has, run one DAG file in each fork, and compare the modules that the fork loads beyond its parent. Counted are modules: a module
of declarations costs about a millisecond of each parse.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bounded import output_of

DAG_FILE = """
from airflow.sdk import DAG, task
from airflow_snowpack.assets import build_asset, iceberg_asset, maintained_tables, published_builds
from airflow_snowpack.interim import TableRef, named_table
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.scheduling import BytesAdded, MaxConcurrent, PartitionsAdded, Schedule, SinceLastRun
from airflow_snowpack.operators import (
    AcquireTableLockOperator, BuildShardsOperator, CancelMaintenanceOperator, CleanupBuildsOperator,
    CollectInterimTablesOperator, MaintainFleetOperator, MaintainTableOperator, MapPartitionsOperator, MapRowsOperator,
    NotifyOperator, PlanFleetOperator, PlanRemovalOperator, PruneStoreOperator, PublishBuildOperator,
    ReduceRowsOperator, ReleaseTableLockOperator, ReportFleetOperator, RollbackBuildOperator, RunEntryOperator,
    RunMaintenanceJobOperator, RunQueuedJobsOperator, RunRemovalOperator,
    SelectWinnersOperator,
    ShardedBuildOperator, SnowpackDispatcherOperator, SubmitMaintenanceOperator, SweepOperator,
)
from airflow_snowpack.sensors import (
    BuildPublishedSensor, IcebergDataArrivalSensor, JobQueueSensor, MaintenanceJobSensor, RunConstraintSensor, TableLockSensor,
)

with DAG("everything", schedule=iceberg_asset("demo.flights") | maintained_tables() | build_asset("others") | published_builds()):
    MaintainTableOperator(task_id="maintain", table="demo.flights", actions=["expire_snapshots"])
    MaintainTableOperator(task_id="maintain_later", table="{{ params.table }}")
    SubmitMaintenanceOperator(task_id="submit", table="demo.flights")
    RunMaintenanceJobOperator(task_id="run")
    RunQueuedJobsOperator(task_id="work")
    MaintainFleetOperator(task_id="fleet", budget={"tables": 3})
    PlanFleetOperator(task_id="plan")
    ReportFleetOperator(task_id="report", pass_id="0123")
    JobQueueSensor(task_id="wanted")
    CancelMaintenanceOperator(task_id="cancel", job_id="0123")
    orphans = PlanRemovalOperator(task_id="orphans", table="demo.flights")
    RunRemovalOperator(task_id="delete", removal_id=orphans.output["removal_id"])
    SweepOperator(task_id="sweep")
    PruneStoreOperator(task_id="prune", older_than="180d")
    NotifyOperator(task_id="notify")
    CollectInterimTablesOperator(task_id="collect")
    AcquireTableLockOperator(task_id="acquire", table="demo.flights")
    ReleaseTableLockOperator(task_id="release", table="demo.flights")
    MaintenanceJobSensor(task_id="done", job_id="0123")
    TableLockSensor(task_id="free", table="demo.flights")
    IcebergDataArrivalSensor(task_id="arrived", trigger=PartitionsAdded("demo.flights", 5) | BytesAdded("demo.flights", "1GB"))
    RunConstraintSensor(task_id="may_go_on", constraints=[MaxConcurrent(1)])
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
    RunEntryOperator(task_id="entry", runner="docker", image="python:3.12", function="a:b", op_kwargs={"flights": parts.output})

    @task.snowpack(name="features", scope="global", preservation="FULL", ttl="7d")
    def features(spark, flights: TableRef): ...

    features.expand(flights=[named_table("flights")])

    @task.snowpack(runner="kubernetes", build=ImageBuild("https://example.com/score.git", "main"), command_env={"A": "b"})
    def score(flights: TableRef): ...

    score(parts.output)

Schedule("s", dag_id="everything", trigger=PartitionsAdded("demo.flights"), constraints=[SinceLastRun("5m")])
"""

USUAL = """
from airflow.sdk import DAG, task
from airflow_snowpack.assets import iceberg_asset
from airflow_snowpack.interim import TableRef
from airflow_snowpack.operators import MaintainTableOperator
from airflow_snowpack.scheduling import PartitionsAdded, Schedule, SinceLastRun
from airflow_snowpack.sensors import IcebergDataArrivalSensor

with DAG("usual", schedule=iceberg_asset("demo.flights")):
    arrived = IcebergDataArrivalSensor(task_id="arrived", trigger=PartitionsAdded("demo.flights", 5))
    maintain = MaintainTableOperator(task_id="maintain", table="demo.flights")

    @task.snowpack
    def features(flights: TableRef): ...

    arrived >> maintain >> features(None)

Schedule("s", dag_id="usual", trigger=PartitionsAdded("demo.flights"), constraints=[SinceLastRun("5m")])
"""

PARSE_IN_FORKS = """
import json, os, runpy, sys

import airflow.dag_processing.manager, airflow.dag_processing.processor

def loaded_by(file):
    here, there = os.pipe()
    if os.fork() == 0:
        try:
            before = set(sys.modules)
            runpy.run_path(file)
            os.write(there, json.dumps(sorted(set(sys.modules) - before)).encode())
        finally:
            os._exit(0)
    os.close(there)
    with open(here) as file:
        return json.load(file)

print(json.dumps({file: loaded_by(file) for file in sys.argv[1:]}))
"""

ROOMS = ("operators", "sensors")
HEAVY = {
    *("pyspark", "py4j", "pyiceberg", "pyarrow", "sqlalchemy", "alembic", "psycopg", "pandas", "numpy"),
    *("fastapi", "starlette", "pydantic", "fsspec", "docker", "kubernetes"),
}
ONLY_TO_RUN = (
    *("airflow_snowpack.store", "airflow_snowpack.jobs", "airflow_snowpack.spark", "airflow_snowpack.api"),
    *(
        "airflow_snowpack.hooks",
        "airflow_snowpack.triggers",
        "airflow_snowpack.iceberg.catalog",
        "airflow_snowpack.iceberg.metadata_reader",
    ),
    *("airflow_snowpack.iceberg.health", "airflow_snowpack.iceberg.orphans", "airflow_snowpack.iceberg.health"),
    *("airflow_snowpack.interim.model", "airflow_snowpack.interim.handover", "airflow_snowpack.scheduling.airflow_port"),
    "airflow_snowpack.settings",
)
MODULES_OF_ONE_NAME = 17
MODULES_OF_A_USUAL_FILE = 41
MODULES_OF_EVERYTHING = 77


def public_names(room: str) -> list[str]:
    from importlib import import_module

    return sorted(import_module(f"airflow_snowpack.{room}").__all__)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The modules that a fork of the DAG processor loads for each DAG file, by the file's name."""
    folder = tmp_path_factory.mktemp("parsed")
    sources = {"everything": DAG_FILE, "usual": USUAL}
    for room in ROOMS:
        sources |= {name: f"from airflow_snowpack.{room} import {name}" for name in public_names(room)}
    files = {name: folder / f"{name}.py" for name in sources}
    for name, file in files.items():
        file.write_text(sources[name])
    printed = output_of(sys.executable, "-c", PARSE_IN_FORKS, *map(str, files.values()))
    modules: dict[str, list[str]] = json.loads(printed.splitlines()[-1])
    return {name: set(modules[str(file)]) for name, file in files.items()}


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("airflow_snowpack.")}


def test_the_large_dag_file_uses_every_public_operator_and_sensor() -> None:
    assert [name for room in ROOMS for name in public_names(room) if f"{name}(" not in DAG_FILE] == []


def test_parsing_loads_no_spark_no_iceberg_no_database_and_no_web_server(loaded: dict[str, set[str]]) -> None:
    assert {name for name in loaded["everything"] if name.partition(".")[0] in HEAVY} == set()


def test_parsing_loads_nothing_that_only_a_running_task_needs(loaded: dict[str, set[str]]) -> None:
    assert {name for name in loaded["everything"] if name.startswith(ONLY_TO_RUN)} == set()


def test_a_dag_file_loads_few_modules_of_the_package(loaded: dict[str, set[str]]) -> None:
    limits = dict.fromkeys(loaded, MODULES_OF_ONE_NAME) | {
        "everything": MODULES_OF_EVERYTHING,
        "usual": MODULES_OF_A_USUAL_FILE,
    }

    counted = {name: len(ours(modules)) for name, modules in loaded.items()}
    assert min(counted.values()) > 0
    assert {name: count for name, count in counted.items() if count > limits[name]} == {}


BARE = """
from airflow.sdk import DAG, BaseOperator

with DAG("nothing", schedule=None):
    BaseOperator(task_id="a")
"""
PRINT_MODULES = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))\n"


def modules_after(source: str, folder: Path) -> set[str]:
    script = folder / "ran.py"
    script.write_text(source + PRINT_MODULES)
    printed = output_of(sys.executable, str(script))
    return set(json.loads(printed.splitlines()[-1]))


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
