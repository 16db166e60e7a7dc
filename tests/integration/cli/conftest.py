"""The command line on both databases: the store of the installation is an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_line import Run, command_line, settle

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def installation(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to an empty store with all tables on this database."""
    settle(store_url, tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def snowpack(installation: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run ``airflow snowpack …`` in this process, through Airflow's own parser."""
    return command_line(capfd)


@pytest.fixture
def jobs(installation: Path) -> Iterator[Jobs]:
    """The store's jobs, as another process would see them."""
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
