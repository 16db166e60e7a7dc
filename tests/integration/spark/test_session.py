"""One JVM for a process, and for each caller a session with exactly its catalogs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.spark import SparkConfig, SparkUnavailable, SubstitutionRequested, local_session
from airflow_snowpack.spark.config import SUBSTITUTION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_same_configuration_gets_the_same_session(spark: SparkSession, spark_config: SparkConfig) -> None:
    assert local_session(replace(spark_config, app_name="another name")) is spark


def test_other_catalogs_get_a_session_of_their_own_in_the_same_jvm(
    spark: SparkSession, spark_config: SparkConfig, tmp_path: Path
) -> None:
    side = CatalogConfig.embedded(tmp_path, name="side")
    other = local_session(replace(spark_config, catalogs=side.spark_conf()))
    other.sql("CREATE NAMESPACE side.there")
    assert other.sparkContext is spark.sparkContext
    assert [row[0] for row in other.sql("SHOW NAMESPACES IN side").collect()] == ["there"]
    assert spark.conf.get("spark.sql.catalog.side", "") == ""
    assert other.conf.get("spark.sql.catalog.lake", "") == ""


def test_a_catalog_that_the_callers_own_code_uses_in_the_session_of_the_process_is_not_used_under_its_name(
    spark: SparkSession, spark_config: SparkConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark.sql("SHOW NAMESPACES IN lake").collect()
    monkeypatch.setattr("airflow_snowpack.spark.session._running", None)  # as if that code had started it
    endpoint, started_with = "spark.sql.catalog.lake.s3.endpoint", spark.sparkContext._jsc.sc().conf()
    secret = "spark.sql.catalog.lake.s3.secret-access-key"
    started_with.set(endpoint, "http://127.0.0.1:9")
    started_with.set(secret, "of the caller")

    ours = CatalogConfig.embedded(tmp_path).spark_conf() | {secret: "ours"}
    other = local_session(replace(spark_config, catalogs=ours))

    assert other.conf.get(secret) == "ours"
    assert spark.newSession().conf.get(secret) == "of the caller"
    started_with.remove(endpoint)
    started_with.remove(secret)
    assert not other.sql("SHOW NAMESPACES IN lake").collect()
    assert other.conf.get(endpoint, None) is None
    assert spark.sql("SHOW NAMESPACES IN lake").collect()


def test_settings_that_a_running_jvm_cannot_change_are_refused(spark: SparkSession, spark_config: SparkConfig) -> None:
    with pytest.raises(SparkUnavailable, match=r"spark\.driver\.memory='1g' \(requested: '3g'\)"):
        local_session(replace(spark_config, driver_memory="3g"))


def test_a_catalogs_password_is_not_on_the_jvms_command_line(spark: SparkSession, spark_config: SparkConfig) -> None:
    jvm_arguments = spark.sparkContext._jvm.java.lang.System.getProperty("sun.java.command")
    assert "spark.sql.extensions" in jvm_arguments
    assert "spark.sql.catalog" not in jvm_arguments
    catalogs = {"spark.sql.catalog.lake.jdbc.password": "hunter2"}
    assert "hunter2" not in repr(replace(spark_config, catalogs=catalogs))
    assert "hunter2" not in str(replace(spark_config, catalogs=catalogs).launch_conf())


def test_no_session_substitutes_variables_whatever_has_been_set_in_it(
    spark: SparkSession, spark_config: SparkConfig, tmp_path: Path
) -> None:
    spark.conf.set(SUBSTITUTION, "true")  # as a user's own code may do in the session of the process
    side = replace(spark_config, catalogs=CatalogConfig.embedded(tmp_path, name="side").spark_conf() | {SUBSTITUTION: "true"})

    for session in (local_session(spark_config), local_session(side)):
        row = session.sql("SELECT '${env:HOME}' AS variable, '${system:user.home}' AS property, '${spark.app.name}' AS setting")
        assert row.collect()[0] == ("${env:HOME}", "${system:user.home}", "${spark.app.name}")


@pytest.mark.parametrize("value", ["true", "TRUE", "", "1"])
def test_a_setting_that_turns_substitution_on_is_refused(spark_config: SparkConfig, value: str) -> None:
    with pytest.raises(SubstitutionRequested, match="must be 'false' or absent"):
        replace(spark_config, conf={SUBSTITUTION: value})
    assert replace(spark_config, conf={SUBSTITUTION: "false"}).launch_conf()[SUBSTITUTION] == "false"
