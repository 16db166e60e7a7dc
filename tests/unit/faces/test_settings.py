"""What the section [snowpack] gives, and what it says about values that it cannot use."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_snowpack.jobs.model import LifecyclePolicy
from airflow_snowpack.maintenance.action import DEFAULT_ORDER, Action
from airflow_snowpack.provider_info import CONFIG
from airflow_snowpack.settings import InvalidSetting, Settings


def test_with_nothing_configured_everything_is_embedded_under_airflow_home() -> None:
    from airflow.configuration import AIRFLOW_HOME

    settings = Settings.load()

    assert settings.store_conn_id is None
    assert settings.store_path == Path(AIRFLOW_HOME) / "snowpack.db"
    assert settings.catalog_conn_id is None
    assert settings.home == Path(AIRFLOW_HOME) / "snowpack"
    assert settings.catalog_name == "lake"
    assert settings.spark_conn_id is None


def test_the_documented_defaults_are_those_of_the_domain() -> None:
    settings = Settings.load()

    assert settings.policy == LifecyclePolicy()
    assert settings.action_order == DEFAULT_ORDER
    assert settings.continue_on_error is False
    assert settings.execution == "inline"


def test_an_environment_variable_of_airflow_sets_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__LEASE", "PT5M")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__SPARK_CONF", '{"spark.sql.shuffle.partitions": 8}')
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CONTINUE_ON_ERROR", "true")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__EXECUTION", "queued")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__LOAD_PROBES", "yarn = acme.load:yarn, warehouse=acme:warehouse")
    settings = Settings.load()

    assert settings.policy.lease == timedelta(minutes=5)
    assert settings.spark_conf == {"spark.sql.shuffle.partitions": "8"}
    assert settings.continue_on_error is True
    assert settings.execution == "queued"
    assert settings.load_probes == {"yarn": "acme.load:yarn", "warehouse": "acme:warehouse"}


def test_another_action_order_is_taken_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    order = "expire_snapshots,remove_orphan_files,rewrite_data_files,rewrite_position_delete_files,rewrite_manifests"
    monkeypatch.setenv("AIRFLOW__SNOWPACK__ACTION_ORDER", order)

    assert Settings.load().action_order[0] == Action.EXPIRE_SNAPSHOTS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lease", "soon"),
        ("lease", "0s"),
        ("heartbeat", "2h"),
        ("request_timeout", "4s"),
        ("max_attempts", "none"),
        ("max_attempts", "0"),
        ("catalog_name", "my lake"),
        ("interim_namespace", "db.interim"),
        ("interim_sweep_after", "0h"),
        ("spark_conf", "[1]"),
        ("spark_conf", "{"),
        ("spark_master", ""),
        ("continue_on_error", "perhaps"),
        ("execution", "later"),
        ("load_probes", "os:abort"),
        ("load_probes", "a.b=os:abort"),
        ("load_probes", "yarn=os"),
        ("load_probes", "yarn=acme:load, yarn=acme:other"),
        ("action_order", "expire_snapshots"),
    ],
)
def test_a_value_that_cannot_be_used_names_its_section_key_and_variable(
    key: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__SNOWPACK__{key.upper()}", value)

    with pytest.raises(InvalidSetting) as refused:
        Settings.load()

    message = str(refused.value)
    assert f"[snowpack] {key} = " in message
    assert key != "execution" or "'later' is not valid: it must be inline or queued." in message
    assert f"AIRFLOW__SNOWPACK__{key.upper()}" in message


def test_every_option_has_a_description_and_a_default() -> None:
    for key, option in CONFIG["snowpack"]["options"].items():
        assert option["description"], key
        assert isinstance(option["default"], str), key


def test_spark_settings_that_cannot_be_read_are_not_repeated_since_they_may_hold_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__SPARK_CONF", '{"spark.hadoop.fs.s3a.secret.key": "hush"')
    with pytest.raises(InvalidSetting, match="spark_conf") as caught:
        Settings.load()

    assert "hush" not in str(caught.value)
