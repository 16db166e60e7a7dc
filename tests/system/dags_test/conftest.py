"""``airflow dags test`` in a home of its own, with nothing of Airflow running: a scheduler would take the runs.

A command takes longer to start than most of these DAGs take to run, so one process runs all of them, before the first test that
reads what they left.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from getting_started import GETTING_STARTED, README, python_blocks, shell_lines
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.scheduling import PartitionsAdded
from airflow_snowpack.scheduling.sources.consumer import Consumer
from examples.demo.tables import make_tables
from tests.system.conftest import AirflowHome, create_table, embedded_catalog, embedded_config, embedded_jobs

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

QUEUED = ("demo.airports", "demo.planes")
BY_PART = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
PARTS = Schema(NestedField(1, "part", LongType()))
FIRST_DAGS = {README: "first_of_readme.py", GETTING_STARTED: "first_of_getting_started.py"}

ONLY_FLEET = """
rules:
  - {{tables: "**", exclude: {table}, skip: other tests look at it}}
  - tables: {table}
    actions:
      rewrite_data_files: {{thresholds: {{small_files: 5}}}}
      remove_orphan_files: {{enabled: false}}
"""


@dataclass(frozen=True)
class Examples:
    """What the example DAGs were run on, and what they printed."""

    flights: TableName
    arrived: TableName
    fleet: TableName
    anywhere: Path
    output: str


@pytest.fixture(scope="session")
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> AirflowHome:
    """An Airflow on its embedded database, set up by the process that runs the examples."""
    home = tmp_path_factory.mktemp("dags_test")
    return AirflowHome(home, f"sqlite:///{home / 'airflow.db'}")


@pytest.fixture(scope="session")
def jobs(airflow_home: AirflowHome) -> Iterator[Jobs]:
    """The store that the tasks use."""
    with embedded_jobs(airflow_home) as jobs:
        yield jobs


@pytest.fixture(scope="session")
def catalog(airflow_home: AirflowHome) -> Catalog:
    """The catalog that the tasks use."""
    return embedded_catalog(airflow_home)


@pytest.fixture(scope="session")
def new_table(catalog: Catalog) -> Callable[..., TableName]:
    """Make a table of small files, one commit for each."""
    return partial(create_table, catalog)


@pytest.fixture(scope="session")
def load(catalog: Catalog) -> Callable[[TableName], Table]:
    """The table as it is now."""
    return lambda name: catalog.load_table(name.identifier)


@pytest.fixture(scope="session")
def examples(airflow_home: AirflowHome, jobs: Jobs, catalog: Catalog, new_table: Callable[..., TableName]) -> Examples:
    """A newcomer's first DAGs and the example DAGs, each run to its end on the tables that `make airflow` makes."""
    assert make_tables(catalog, "lake") == ["demo.flights", "demo.airports", "demo.planes"]
    assert make_tables(catalog, "lake") == []
    parts = [pa.table({"part": pa.array([number] * 10)}) for number in range(5)]
    arrived = new_table([], schema=PARTS, partition_spec=BY_PART)
    wait = PartitionsAdded(arrived.dotted, 5)
    consumer = Consumer(jobs.store, f"snowpack_maintain_on_arrival {arrived.dotted}", wait, catalog_name=arrived.catalog)
    consumer.look("an earlier run", lambda name: catalog.load_table(name.identifier))
    for part in parts:
        catalog.load_table(arrived.identifier).append(part)
    fleet = new_table(parts)
    (airflow_home.dags / "policies.yaml").write_text(ONLY_FLEET.format(table=fleet.dotted))
    anywhere = airflow_home.home / "anywhere.json"
    for page, file in FIRST_DAGS.items():
        (block,) = python_blocks(page)
        (airflow_home.dags / file).write_text(block)
    reports = [shlex.split(line)[1:] for line in shell_lines(GETTING_STARTED) if line.startswith("airflow snowpack")]
    assert ["snowpack", "jobs", "list"] in reports
    previews = [command for command in reports if "--dry-run" in command]

    def dags_test(dag_id: str, file: str, **conf: Any) -> list[str]:
        return ["dags", "test", dag_id, "--dagfile-path", str(airflow_home.dags / file), "--conf", json.dumps(conf)]

    output = airflow_home.run_all(
        ["db", "migrate"],
        *previews,
        *(dags_test("maintain_flights", file) for file in FIRST_DAGS.values()),
        *(command for command in reports if command[1] != "db" and command not in previews),
        dags_test("snowpack_maintain_table", "snowpack_maintain_table.py"),
        dags_test("snowpack_maintain_partitions", "snowpack_maintain_partitions.py"),
        dags_test("snowpack_maintain_on_arrival", "snowpack_maintain_on_arrival.py", table=arrived.dotted),
        dags_test("snowpack_maintain_gently", "snowpack_maintain_gently.py", **{"from": "00:00", "until": "23:59"}),
        dags_test("snowpack_maintain_scheduled", "snowpack_schedules.py"),
        dags_test("snowpack_new_flights", "snowpack_new_flights.py"),
        *(["snowpack", "jobs", "submit", table, "--action", "rewrite_data_files"] for table in QUEUED),
        dags_test("snowpack_workers", "snowpack_operations.py"),
        dags_test("system_anywhere", "system_anywhere.py", tell=str(anywhere)),
        dags_test("snowpack_interim_tables", "snowpack_interim_tables.py", days=2),
        dags_test("snowpack_build_shards", "snowpack_build_shards.py"),
        dags_test("snowpack_map_reduce", "snowpack_map_reduce.py", fan_in=100),
        dags_test("snowpack_entries", "snowpack_entries.py", days=2, limit=2),
        dags_test("snowpack_maintain_fleet", "snowpack_operations.py"),
    )
    config = embedded_config(airflow_home)
    flights = TableName("lake", "demo", "flights", config.catalog_id)
    return Examples(flights, arrived, fleet, anywhere, output)
