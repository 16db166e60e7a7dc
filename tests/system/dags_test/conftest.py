"""``airflow dags test`` in a home of its own, with nothing of Airflow running: a scheduler would take the runs.

A command takes longer to start than most of these DAGs take to run, so one process runs all of them, before the first test that
reads what they left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from tests.system.conftest import AirflowHome, create_table, embedded_catalog, embedded_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs

BY_PART = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="part"))
PARTS = Schema(NestedField(1, "part", LongType()))
ACTIONS = ["rewrite_data_files", "rewrite_manifests"]


@dataclass(frozen=True)
class Examples:
    """What the example DAGs were run on, and what they printed."""

    maintained: TableName
    arrived: TableName
    gentle: TableName
    scheduled: TableName
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
def examples(airflow_home: AirflowHome, new_table: Callable[..., TableName]) -> Examples:
    """The example DAGs, each run to its end."""
    maintained = new_table([pa.table({"id": pa.array(range(100))})] * 6)
    parts = [pa.table({"part": pa.array([number] * 10)}) for number in range(5)]
    arrived, gentle, scheduled = (new_table(parts, schema=PARTS, partition_spec=BY_PART) for _ in range(3))
    anywhere = airflow_home.home / "anywhere.json"

    def dags_test(dag_id: str, file: str, **conf: Any) -> list[str]:
        return ["dags", "test", dag_id, "--dagfile-path", str(airflow_home.dags / file), "--conf", json.dumps(conf)]

    output = airflow_home.run_all(
        ["db", "migrate"],
        dags_test("snowpack_maintain_table", "snowpack_maintain_table.py", table=maintained.dotted, actions=ACTIONS),
        dags_test("snowpack_maintain_on_arrival", "snowpack_maintain_on_arrival.py", table=arrived.dotted),
        dags_test(
            "snowpack_maintain_gently",
            "snowpack_maintain_gently.py",
            **{"table": gentle.dotted, "from": "00:00", "until": "23:59"},
        ),
        dags_test("snowpack_maintain_scheduled", "snowpack_schedules.py", table=scheduled.dotted),
        dags_test("snowpack_new_flights", "snowpack_new_flights.py"),
        dags_test("system_anywhere", "system_anywhere.py", tell=str(anywhere)),
        dags_test("snowpack_interim_tables", "snowpack_interim_tables.py", days=2),
        dags_test("snowpack_build_shards", "snowpack_build_shards.py"),
        dags_test("snowpack_map_reduce", "snowpack_map_reduce.py", table="db.mapped_flights", fan_in=100, late=60),
    )
    return Examples(maintained, arrived, gentle, scheduled, anywhere, output)
