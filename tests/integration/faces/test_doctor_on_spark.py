"""The check of Spark by ``airflow snowpack doctor``, with a real session."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_spark_sees_the_catalog_and_the_warehouse_of_the_installation(installation: Path) -> None:
    from airflow_snowpack.cli.commands.doctor import CheckVerdict, Examined, spark_sees_catalog

    finding = spark_sees_catalog(Examined())

    assert finding.verdict is CheckVerdict.OK
    assert "Spark and PyIceberg see the same databases: " in finding.message


def test_a_spark_with_another_catalog_is_wrong(installation: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_snowpack.cli.commands.doctor import CheckVerdict, Examined, diagnose

    monkeypatch.setenv(
        "AIRFLOW_CONN_OTHER",
        f'{{"conn_type": "sqlite", "host": "{tmp_path}/c.db", "extra": {{"warehouse": "file://{tmp_path}"}}}}',
    )
    examined = Examined(catalog_conn_id="other")
    examined.__dict__["spark"] = Examined().spark  # a Connect server has a configuration of its own
    found = {finding.check: finding for finding in diagnose(examined)}["spark sees catalog"]

    assert found.verdict is CheckVerdict.WRONG
    assert "and PyIceberg sees none." in found.message
    assert "spark.sql.catalog.*" in found.to_do
