"""The command line on both databases: the store of the installation is an Airflow connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_line import command_line
from sqlalchemy.engine import make_url

from airflow_snowpack.hooks.store import SnowpackHook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from command_line import Run
    from pyspark.sql import SparkSession

    from airflow_snowpack.iceberg import CatalogConfig, TableName
    from airflow_snowpack.jobs import Jobs


@pytest.fixture
def installation(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to an empty store on this database."""
    url = make_url(store_url)
    if url.get_backend_name() == "sqlite":
        connection: dict[str, object] = {"conn_type": "sqlite", "host": url.database}
    else:
        connection = {"conn_type": "postgres", "host": url.host, "port": url.port, "schema": url.database, "login": url.username}
        connection["password"] = url.password
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path


@pytest.fixture
def snowpack(installation: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run ``airflow snowpack …`` in this process, through Airflow's own parser."""
    return command_line(capfd)


@pytest.fixture
def jobs(snowpack: Run) -> Iterator[Jobs]:
    """The store's jobs, as another process would see them."""
    assert snowpack("db", "upgrade").code == 0
    with hooks.SnowpackHook() as hook:
        yield hook.jobs()


@pytest.fixture
def small_files(
    installation: Path,
    spark: SparkSession,
    lake: CatalogConfig,
    new_table: Callable[..., TableName],
    monkeypatch: pytest.MonkeyPatch,
) -> TableName:
    """A table of six small files in the catalog of the test run's Spark session, which is then the installation's."""
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(Path(lake.address).parent))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__SPARK_MASTER", "local[2]")
    name = new_table("id BIGINT")
    for number in range(6):
        spark.sql(f"INSERT INTO {name.quoted} VALUES ({number})")
    return name
