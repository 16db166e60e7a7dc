"""A worker that spark-submit starts: a store and a catalog in a folder, its configuration file, and its command.

world = SubmittedWorld(tmp_path, store_url)
with started(world.command("local[2]", "--once"), env=spark_environment()) as process:
    ...
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from bounded import PATIENCE_S
from sqlalchemy.engine import make_url

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.iceberg.catalog import SQLITE_JDBC
from airflow_snowpack.jobs import Job, Jobs
from airflow_snowpack.spark.runtimes import installed_runtime
from examples.cluster.spark import PATIENCE, SPARK_HOME

APPLICATION = Path(__file__).parents[2] / "docker/spark/snowpack_worker.py"
FILES = 3
REWRITE = {"rewrite_data_files": {"min_input_files": 2}}
HARD = {"write.parquet.compression-codec": "zstd", "write.parquet.compression-level": "19"}
"""Properties of a table whose rewrite takes seconds."""


def eventually(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


class SubmittedWorld:
    """A catalog, a store and the configuration file of the worker.

    :param store_url: SQLAlchemy's URL of a migrated store.
    """

    def __init__(self, folder: Path, store_url: str) -> None:
        self._folder, warehouse = folder, folder / "warehouse"
        warehouse.mkdir()
        self.lake = CatalogConfig.sqlite("lake", folder / "catalog.db", warehouse=f"file://{warehouse}")
        self.configuration = folder / "worker.cfg"
        connections = {"store": _connection(store_url), "lakehouse": {"conn_type": "sqlite", "host": self.lake.address}}
        connections["lakehouse"]["extra"] = {"warehouse": self.lake.warehouse}
        lines = ["[snowpack]", "store_conn_id = store", "catalog_conn_id = lakehouse", "spark_master = local[7]"]
        lines += [
            "fence_check = PT0.05S",
            "[connections]",
            *(f"{name} = {json.dumps(each)}" for name, each in connections.items()),
        ]
        self.configuration.write_text("\n".join(lines))

    def table(self, name: str, rows: int, **properties: str) -> TableName:
        """Create a table of three files that cannot be compressed well."""
        digits = random.Random(13)
        with closing(self.lake.load()) as catalog:
            catalog.create_namespace_if_not_exists("demo")
            notes = [f"{digits.getrandbits(432):0108x}" for _ in range(rows)]
            data = pa.table({"id": range(rows), "note": notes})
            table = catalog.create_table(f"demo.{name}", data.schema)
            for _ in range(FILES):
                table.append(data)
            with table.transaction() as change:
                change.set_properties(properties)
        return TableName(self.lake.name, "demo", name, self.lake.catalog_id)

    def content(self, name: TableName) -> tuple[int, list[int]]:
        """Return the number of data files and the sorted ids."""
        with closing(self.lake.load()) as catalog:
            scan = catalog.load_table(name.identifier).scan()
            return len(list(scan.plan_files())), sorted(scan.to_arrow()["id"].to_pylist())

    def written(self, name: TableName) -> set[Path]:
        """Return the data files in the folder of a table, also those that no snapshot has."""
        return set((self._folder / "warehouse").rglob(f"{name.table}/data/*.parquet"))

    def running(self, jobs: Jobs, name: TableName) -> Job:
        """Submit a rewrite and wait until Spark writes."""
        before = self.written(name)
        job = jobs.submit(name, ["rewrite_data_files"], options=REWRITE)
        eventually(lambda: self.written(name) - before)
        return job

    def command(self, master: str, *options: str) -> list[str]:
        """Return the command of spark-submit, in client mode; the options are those of the worker."""
        patience = [argument for key, value in PATIENCE.items() for argument in ("--conf", f"{key}={value}")]
        submit = [
            str(SPARK_HOME / "bin/spark-submit"),
            "--master",
            master,
            "--packages",
            f"{installed_runtime().coordinates},{SQLITE_JDBC}",
        ]
        return [*submit, *patience, str(APPLICATION), "--config", str(self.configuration), *options]


def _connection(store_url: str) -> dict[str, Any]:
    url = make_url(store_url)
    if url.drivername.startswith("sqlite"):
        return {"conn_type": "sqlite", "host": url.database}
    place = {"host": url.host, "port": url.port, "schema": url.database, "login": url.username, "password": url.password}
    return {"conn_type": "postgres", **place}
