"""The right jar for the installed pyspark, and what is said when it cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from bounded import PATIENCE_S
from packaging.requirements import Requirement

from airflow_snowpack.spark import SparkConfig, SparkUnavailable
from airflow_snowpack.spark.config import check_jars, explain_download
from airflow_snowpack.spark.runtimes import NEWEST, RUNTIMES, check_pyspark, installed_runtime


def test_the_installed_pyspark_fits() -> None:
    assert installed_runtime() is RUNTIMES[".".join(check_pyspark().split(".")[:2])]


@pytest.mark.parametrize("installed", ["4.2.0", "3.4.4", "5.0.0.dev1"])
def test_a_version_without_a_runtime_is_refused_with_those_that_have_one(installed: str) -> None:
    with pytest.raises(
        SparkUnavailable, match=rf"pyspark {installed} is installed.*Spark 3\.5, 4\.0, 4\.1\. .*'pyspark==4\.1\.3'"
    ):
        check_pyspark(installed)


@pytest.mark.parametrize(("installed", "client", "both"), [("4.1.4", "4.2.0", "4.1.3"), ("4.0.1", "4.1.3", "4.0.1")])
def test_a_client_of_another_version_is_refused_before_its_files_break_the_import(installed: str, client: str, both: str) -> None:
    with pytest.raises(
        SparkUnavailable, match=f"{installed} and pyspark-client {client} .*'pyspark=={both}' 'pyspark-client=={both}'"
    ):
        check_pyspark(installed, client)


def test_the_pyspark_of_a_spark_installation_counts_and_not_the_package_that_it_hides(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text('__version__ = "3.5.2"')
    code = "from airflow_snowpack.spark.runtimes import *; print(check_pyspark(), installed_runtime().spark)"
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ran.stdout.split() == ["3.5.2", "3.5"], ran.stderr


def test_the_package_requires_the_versions_that_it_has_runtimes_for() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    required = next(each for each in map(Requirement, project["dependencies"]) if each.name == "pyspark")
    assert [minor for minor in ("3.4", "3.5", "4.0", "4.1", "4.2") if required.specifier.contains(f"{minor}.9")] == list(RUNTIMES)
    assert {f"pyspark=={NEWEST.tested}", f"pyspark-client=={NEWEST.tested}"} <= set(
        project["optional-dependencies"]["spark-provider"]
    )


def test_iceberg_s_packages_get_the_version_of_its_runtime() -> None:
    conf = SparkConfig(
        packages=("org.apache.iceberg:iceberg-aws-bundle", "org.apache.iceberg:iceberg-gcp-bundle:1.0.0")
    ).launch_conf()
    bundle = f"org.apache.iceberg:iceberg-aws-bundle:{installed_runtime().iceberg}"
    assert conf["spark.jars.packages"].split(",")[1:] == [bundle, "org.apache.iceberg:iceberg-gcp-bundle:1.0.0"]


def test_local_jars_replace_every_download(tmp_path: Path) -> None:
    jar = tmp_path / f"{installed_runtime().artifact}-1.12.0.jar"
    jar.touch()
    check_jars((jar,))
    conf = SparkConfig(jars=(jar,), packages=("org.xerial:sqlite-jdbc:3.54.1.0",)).launch_conf()
    assert conf["spark.jars"] == str(jar)
    assert "spark.jars.packages" not in conf


def test_local_jars_must_exist_and_hold_the_runtime(tmp_path: Path) -> None:
    other = tmp_path / "iceberg-spark-runtime-3.4_2.12-1.12.0.jar"
    with pytest.raises(SparkUnavailable, match="does not exist"):
        check_jars((other,))
    other.touch()
    with pytest.raises(SparkUnavailable, match=r"None of the jars .* is Iceberg's runtime for Spark"):
        check_jars((other,))


def test_packages_are_beside_the_runtime_once_each() -> None:
    conf = SparkConfig(packages=("a:b:1", installed_runtime().coordinates, "a:b:1")).launch_conf()
    assert conf["spark.jars.packages"] == f"{installed_runtime().coordinates},a:b:1"


def test_what_could_not_be_downloaded_is_named() -> None:
    log = [
        "\t\t::          UNRESOLVED DEPENDENCIES         ::",
        "\t\t:: org.apache.iceberg#iceberg-spark-runtime-4.1_2.13;1.12.0: not found",
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.apache.iceberg#x;1: not found]',
    ]
    said = explain_download(log, "ignored")
    assert said is not None
    assert "could not download org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0" in said
    assert "repo1.maven.org" in said


def test_another_reason_is_not_blamed_on_the_download() -> None:
    assert explain_download(["Error: Could not find or load main class"], "a:b:1") is None


def test_the_callers_settings_win_and_catalogs_stay_out_of_the_launch() -> None:
    config = SparkConfig(
        catalogs={"spark.sql.catalog.lake": "x"},
        conf={"spark.sql.shuffle.partitions": "3", "spark.sql.catalog.lake.io-impl": "y"},
    )
    assert config.launch_conf()["spark.sql.shuffle.partitions"] == "3"
    assert not any(key.startswith("spark.sql.catalog.") for key in config.launch_conf())
    assert config.session_conf() == {"spark.sql.catalog.lake": "x", "spark.sql.catalog.lake.io-impl": "y"}


def test_a_cluster_keeps_its_own_defaults() -> None:
    conf = SparkConfig(master="spark://cluster:7077").launch_conf()
    assert "spark.sql.shuffle.partitions" not in conf
    assert "spark.driver.host" not in conf
