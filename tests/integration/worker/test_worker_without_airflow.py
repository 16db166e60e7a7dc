"""The wheel without Airflow, in an environment of its own, runs a job from the queue on Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from sqlalchemy.engine import make_url

from airflow_snowpack.iceberg import CatalogConfig, TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import open_store

REPOSITORY = Path(__file__).parents[3]
ROWS = 3
# A registry may keep an installation waiting, and a busy machine a JVM.
LONGEST_S = 400.0


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    names = ("HOME", "JAVA_HOME", "JDK_JAVA_OPTIONS", "PATH", "TMPDIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    text = [str(part) for part in command]
    return subprocess.run(text, env=kept | variables, capture_output=True, text=True, timeout=LONGEST_S, check=False)


def uv(*arguments: str | Path) -> None:
    """Run uv on what it has downloaded already. With the registry it may have to download and build Spark again."""
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run([*command, "--offline"], capture_output=True, text=True, timeout=LONGEST_S, check=False)
    if done.returncode != 0:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that has the wheel and the group ``worker``, and no Airflow."""
    folder = tmp_path_factory.mktemp("worker")
    uv("build", "--quiet", "--wheel", "--out-dir", folder / "dist", REPOSITORY)
    uv("venv", "--quiet", "--python", sys.executable, folder / "venv")
    install = ("pip", "install", "--quiet", "--python", folder / "venv/bin/python")
    uv(*install, "--constraint", REPOSITORY / "constraints.txt", "--group", f"{REPOSITORY}/pyproject.toml:worker")
    uv(*install, "--no-deps", *(folder / "dist").glob("*.whl"))
    return folder / "venv/bin"


def quoted(text: str) -> str:
    return quote(text, safe="")


def store_connection(postgres: str) -> str:
    url = make_url(postgres)
    given = {"host": url.host, "port": url.port, "schema": url.database, "login": url.username, "password": url.password}
    return json.dumps({"conn_type": "postgres", **given})


@pytest.mark.timeout(2 * LONGEST_S)
def test_a_worker_without_airflow_runs_a_job_on_spark(environment: Path, postgres_database: str, tmp_path: Path) -> None:
    (tmp_path / "warehouse").mkdir()
    lake = CatalogConfig.sqlite("lake", tmp_path / "catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog = lake.load()
    catalog.create_namespace("demo")
    rows = pa.table({"id": range(ROWS)})
    table = catalog.create_table("demo.flights", rows.schema)
    for _ in range(ROWS):
        table.append(rows)
    name = TableName.parse("demo.flights", catalog="lake", catalog_id=lake.catalog_id)

    with Jobs(open_store(postgres_database)) as jobs:
        job = jobs.submit(name, ["rewrite_data_files"], options={"rewrite_data_files": {"min_input_files": 2}})
        done = run(
            environment / "snowpack-worker",
            "--once",
            "--worker-id",
            "pod-7",
            AIRFLOW__SNOWPACK__STORE_CONN_ID="store",
            AIRFLOW__SNOWPACK__CATALOG_CONN_ID="lakehouse",
            AIRFLOW__SNOWPACK__SPARK_MASTER="local[2]",
            AIRFLOW__SNOWPACK__SPARK_CONF='{"spark.ui.enabled": "false"}',
            AIRFLOW_CONN_STORE=store_connection(postgres_database),
            AIRFLOW_CONN_LAKEHOUSE=f"sqlite://{quoted(f'{tmp_path}/catalog.db')}/?warehouse={quoted(lake.warehouse)}",
        )

        assert done.returncode == 0, done.stderr
        ended = jobs.get(job.job_id)
        assert ended.status is JobStatus.COMPLETED, ended.error
        assert [entry.detail["worker"] for entry in jobs.history(job.job_id) if entry.event == "claimed"] == ["pod-7"]
        assert jobs.locks.get(name) is None
    after = catalog.load_table("demo.flights").scan()
    assert len(list(after.plan_files())) == 1
    assert sorted(after.to_arrow()["id"].to_pylist()) == sorted([*range(ROWS)] * ROWS)


@pytest.mark.one_database
def test_the_environment_of_a_worker_has_no_airflow(environment: Path) -> None:
    found = run(environment / "python", "-c", "import importlib.util as u; print(u.find_spec('airflow'))")
    assert found.stdout == "None\n", found.stderr
