"""A package that is installed beside this one adds an engine, by an entry point: the example of ``docs/spark.md``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from other_package import code_block, install
from spark_world import SparkWorld

from airflow_snowpack.connections.errors import UnsuitableConnection, UnusableEngine
from airflow_snowpack.connections.spark import Spark, SparkOrphans, engine_of, spark_of
from airflow_snowpack.installation import Installation
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.settings import Settings
from airflow_snowpack.store import open_store
from airflow_snowpack.worker.environment import Environment
from airflow_snowpack.worker.process import run_worker

if TYPE_CHECKING:
    from airflow_snowpack.iceberg import CatalogConfig

pytestmark = pytest.mark.one_database

SECTION = (Path(__file__).parents[3] / "docs/spark.md").read_text().partition("## Engines of other packages\n")[2]
ENVIRONMENT = Environment(
    {
        "AIRFLOW_CONN_ACME": '{"conn_type": "acme_spark", "host": "local[2]", "login": "lake_team"}',
        "AIRFLOW_CONN_BROKEN": "broken://",
        "AIRFLOW_CONN_SSH": "ssh://head",
    }
)


@pytest.fixture(autouse=True)
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = re.search(r'(\w+) = "(.*)"', code_block(SECTION, "toml"))
    assert named is not None
    points = f"[airflow_snowpack.engines]\n{named[1]} = {named[2]}\nbroken = {named[2]}\n"
    install(tmp_path, "acme_engines", code_block(SECTION, "python"), points)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def installation(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Installation]:
    settings, store = Settings.load(ENVIRONMENT), shutil.copy(migrated_sqlite, tmp_path / "snowpack.db")
    with closing(Installation(open_store(f"sqlite:///{store}"), settings.policy, "lake", "interim")) as installation:
        yield installation


def test_a_worker_runs_a_job_on_an_engine_of_another_package(
    installation: Installation, lake: CatalogConfig, world: SparkWorld
) -> None:
    engine = spark_of(Settings.load(ENVIRONMENT), lake, ENVIRONMENT.connection("acme", "Spark"))
    table = replace(world.fragmented(), catalog_id=lake.catalog_id)
    rewrite: Mapping[str, Mapping[str, object]] = {"rewrite_data_files": {"min_input_files": 2}}
    job = installation.jobs.submit(table, ["rewrite_data_files"], options=rewrite)

    run_worker(installation, engine, poll=timedelta(seconds=1), until_idle=True)

    ended = installation.jobs.get(job.job_id)
    assert ended.status is JobStatus.COMPLETED, ended.error
    assert ended.results[0].message != "Nothing to do"
    assert world.spark.conf.get("spark.acme.team") == "lake_team", "its own session ran the job"


def test_an_entry_point_that_is_no_engine_of_its_name_is_an_error_that_names_it() -> None:
    with pytest.raises(UnusableEngine, match=r"'broken'.*whose conn_type is 'broken'"):
        engine_of(ENVIRONMENT.connection("broken", "Spark"))


@pytest.mark.parametrize("error", ["RuntimeError()", "SystemExit(7)"])
def test_an_engine_whose_module_ends_with_an_error_without_a_text_names_the_error(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ending").mkdir()
    install(tmp_path / "ending", "acme_ending", f"raise {error}", "[airflow_snowpack.engines]\nending = acme_ending:Engine\n")
    monkeypatch.syspath_prepend(str(tmp_path / "ending"))

    with pytest.raises(UnusableEngine, match=f"'ending'.*cannot be loaded: {re.escape(error)}"):
        engine_of(Environment({"AIRFLOW_CONN_ENDING": "ending://"}).connection("ending", "Spark"))


def test_a_type_without_an_engine_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(UnsuitableConnection, match="acme_spark, broken, hiveserver2, spark, spark_connect"):
        engine_of(ENVIRONMENT.connection("ssh", "Spark"))


def test_sessions_of_an_engine_without_a_server_leave_no_orphans_to_end() -> None:
    assert issubclass(engine_of(ENVIRONMENT.connection("acme", "Spark")), Spark)
    with pytest.raises(UnsuitableConnection, match="acme"):
        SparkOrphans(ENVIRONMENT.connection).end("acme", "a job", [1])
