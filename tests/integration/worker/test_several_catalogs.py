"""One worker serves two catalogs of one name: each job rewrites the table of its own catalog, in one JVM."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_snowpack.connections.errors import UnusableExtra
from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.settings import Settings
from airflow_snowpack.spark import SparkConfig
from airflow_snowpack.store import open_store
from airflow_snowpack.store.signs_of_life import read_signs
from airflow_snowpack.worker.__main__ import open_sparks
from airflow_snowpack.worker.environment import Environment
from airflow_snowpack.worker.process import run_worker

pytestmark = pytest.mark.one_database

FILES = 3
REWRITE = {"rewrite_data_files": {"min_input_files": 2}}


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Installation]:
    settings, store = Settings.load(Environment({})), shutil.copy(migrated_sqlite, tmp_path / "snowpack.db")
    with closing(Installation(open_store(f"sqlite:///{store}"), settings.policy, "lake", "interim")) as installation:
        yield installation


def catalog(folder: Path, first: int) -> CatalogConfig:
    """Create a catalog with the table ``demo.flights``, in whose files the ids start with ``first``."""
    folder.mkdir()
    config = CatalogConfig.sqlite("lake", folder / "catalog.db", warehouse=f"file://{folder}")
    with closing(config.load()) as loaded:
        loaded.create_namespace("demo")
        rows = pa.table({"id": range(first, first + FILES)})
        table = loaded.create_table("demo.flights", rows.schema)
        for number in range(FILES):
            table.append(rows.slice(number, 1))
    return config


def variables(catalogs: dict[str, CatalogConfig], **more: str) -> dict[str, str]:
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps(
            {"conn_type": "sqlite", "host": each.address, "extra": {"warehouse": each.warehouse}}
        )
        for name, each in catalogs.items()
    }
    return {"AIRFLOW__SNOWPACK__CATALOG_CONN_ID": ", ".join(catalogs), **connections, **more}


@pytest.mark.usefixtures("spark")
def test_each_job_of_a_worker_runs_on_the_table_of_its_own_catalog(
    installation: Installation, spark_config: SparkConfig, tmp_path: Path
) -> None:
    catalogs = {"east": catalog(tmp_path / "east", 0), "west": catalog(tmp_path / "west", 100)}
    as_the_tests = {
        "AIRFLOW__SNOWPACK__SPARK_MASTER": spark_config.master,
        "AIRFLOW__SNOWPACK__SPARK_PACKAGES": ",".join(spark_config.packages),
    }
    environment = Environment(variables(catalogs, **as_the_tests))
    table = TableName.parse("demo.flights", catalog="lake")
    jobs = [
        installation.jobs.submit(
            TableName(table.catalog, "demo", "flights", each.catalog_id), ["rewrite_data_files"], options=REWRITE
        )
        for each in catalogs.values()
    ]
    sparks = open_sparks(Settings.load(environment), environment)
    assert len({tuple(spark.config.launch_conf().items()) for spark in sparks}) == 1, "one JVM has the jars of all"

    run_worker(installation, *sparks, name="both", poll=timedelta(seconds=1), until_idle=True)

    ended = [installation.jobs.get(job.job_id) for job in jobs]
    assert [job.status for job in ended] == [JobStatus.COMPLETED] * 2, [job.error for job in ended]
    for first, each in zip((0, 100), catalogs.values(), strict=True):
        with closing(each.load()) as loaded:
            scan = loaded.load_table("demo.flights").scan()
            assert len(list(scan.plan_files())) == 1
            assert sorted(scan.to_arrow()["id"].to_pylist()) == list(range(first, first + FILES))
    (sign,) = installation.store.read(read_signs)
    assert sign.detail["catalog_id"].split() == [each.catalog_id for each in catalogs.values()]


def test_a_catalog_that_does_not_answer_keeps_no_worker_of_others_from_its_start(
    installation: Installation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    down = {"AIRFLOW_CONN_WEST": f"http://127.0.0.1:{port}"}
    environment = Environment(variables({"west": catalog(tmp_path / "west", 0), "east": catalog(tmp_path / "east", 0)}) | down)

    run_worker(installation, *open_sparks(Settings.load(environment), environment), poll=timedelta(seconds=1), until_idle=True)

    assert (
        f"catalog_skipped: jobs of the catalog {CatalogConfig.rest('lake', f'http://127.0.0.1:{port}').catalog_id}" in caplog.text
    )


def test_two_connections_to_one_catalog_count_once(tmp_path: Path) -> None:
    same = CatalogConfig.sqlite("lake", tmp_path / "catalog.db", warehouse=f"file://{tmp_path}")
    environment = Environment(variables({"east": same, "again": same}))

    assert [spark.catalog.catalog_id for spark in open_sparks(Settings.load(environment), environment)] == [same.catalog_id]


def test_a_spark_connect_server_cannot_have_two_catalogs_of_one_name(installation: Installation, tmp_path: Path) -> None:
    catalogs = {
        name: CatalogConfig.sqlite("lake", tmp_path / f"{name}.db", warehouse=f"file://{tmp_path}") for name in ("east", "west")
    }
    server = {"AIRFLOW__SNOWPACK__SPARK_CONN_ID": "server", "AIRFLOW_CONN_SERVER": "spark_connect://127.0.0.1:9"}
    environment = Environment(variables(catalogs, **server))
    sparks = open_sparks(Settings.load(environment), environment)

    with pytest.raises(UnusableExtra, match="'send_catalog'"):
        run_worker(installation, *sparks, poll=timedelta(seconds=1), until_idle=True)
