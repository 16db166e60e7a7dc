"""The DAG that ``test_examples.py`` runs with nothing configured, on Postgres and a cluster by configuration only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from bounded import started
from postgres_server import new_database

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.spark import SparkConfig
from airflow_snowpack.spark.java import find_java
from airflow_snowpack.store import Store, open_store, upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.tables.interim import interim_tables
from tests.system.conftest import AirflowHome

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

DAG = "system_anywhere"
SERVER = Path(__file__).parents[2] / "support" / "connect_server.py"
PATIENCE_S = 1200.0  # four JVMs start
SUMS = [sum(range(third, 1000, 3)) for third in range(3)]


@pytest.fixture
def database(postgres_url: str) -> Iterator[URL]:
    """For the store and the catalog."""
    with new_database(postgres_url) as url:
        store = Store(open_engine(url))
        upgrade_schema(store)
        store.close()
        yield url


@pytest.fixture
def lake(database: URL, tmp_path: Path) -> CatalogConfig:
    """The catalog in Postgres, and its warehouse in a folder that the whole cluster sees."""
    assert database.host
    assert database.database
    return CatalogConfig.postgres(
        "lake",
        host=database.host,
        port=database.port or 5432,
        database=database.database,
        user=database.username,
        password=database.password,
        warehouse=f"file://{tmp_path / 'warehouse'}",
    )


@pytest.fixture
def cluster(lake: CatalogConfig, tmp_path: Path) -> Iterator[int]:
    """A Spark Connect server that knows the catalog, before a cluster of two executors; gives its port."""
    from examples.cluster.process import free_port

    port = free_port()
    config = SparkConfig(catalogs=lake.spark_conf(), packages=lake.spark_packages(), driver_memory="700m")
    conf = {**config.launch_conf(), **config.session_conf(), "spark.connect.grpc.binding.port": str(port)}
    conf = {key: value for key, value in conf.items() if key != "spark.master"}
    environment = {**os.environ, "JAVA_HOME": str(find_java().home)}
    command = [sys.executable, str(SERVER), str(tmp_path)]
    with started(command, patience_s=PATIENCE_S, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(conf) + "\n")
        server.stdin.flush()
        assert server.stdout.readline() == "ready\n"
        yield port


def run(home: AirflowHome, told: Path, environment: Mapping[str, str]) -> Any:
    """What the last task of the DAG tells, and where it was."""
    file = str(home.dags / f"{DAG}.py")
    command = [sys.executable, "-m", "airflow", "dags", "test", DAG, "-f", file, "-c", json.dumps({"tell": str(told)})]
    done = subprocess.run(
        command, env={**home.environment, **environment}, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert told.exists(), f"{done.stdout[-20000:]}{done.stderr[-5000:]}"
    return json.loads(told.read_text())


def connection(database: URL, **more: Any) -> str:
    said = {"host": database.host, "port": database.port, "login": database.username, "password": database.password}
    return json.dumps({"conn_type": "postgres", **said, "schema": database.database, **more})


@pytest.mark.usefixtures("examples")  # their process has set the home up
@pytest.mark.timeout(1500)
def test_the_same_dag_hands_a_table_on_through_postgres_and_a_cluster(
    airflow_home: AirflowHome, database: URL, lake: CatalogConfig, cluster: int, tmp_path: Path
) -> None:
    settings = {
        "AIRFLOW__SNOWPACK__STORE_CONN_ID": "anywhere_store",
        "AIRFLOW__SNOWPACK__CATALOG_CONN_ID": "anywhere_catalog",
        "AIRFLOW__SNOWPACK__SPARK_CONN_ID": "anywhere_spark",
        "AIRFLOW_CONN_ANYWHERE_STORE": connection(database),
        "AIRFLOW_CONN_ANYWHERE_CATALOG": connection(database, extra={"warehouse": lake.warehouse}),
        "AIRFLOW_CONN_ANYWHERE_SPARK": json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "port": cluster}),
    }
    told = run(airflow_home, tmp_path / "told.json", settings)

    assert told == {"sums": SUMS, "master": "local-cluster[2,1,600]", "session": "pyspark.sql.connect.session"}
    with open_store(database.render_as_string(hide_password=False)) as store:
        (state,) = store.read(lambda conn: conn.execute(sa.select(interim_tables.c.state)).scalars().all())
    assert state == "ready"
    catalog = lake.load()
    (table,) = catalog.list_tables("snowpack_interim")
    assert catalog.load_table(table).scan().to_arrow().num_rows == 1000
