"""A worker without Airflow reads connections and settings as Airflow does."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_snowpack.connections.errors import ConnectionNotFound
from airflow_snowpack.setting import InvalidSetting
from airflow_snowpack.settings import Settings
from airflow_snowpack.worker.environment import Environment, InvalidConnection, UnreadableConfig, parse_connection

FIELDS = ("conn_type", "host", "login", "password", "schema", "port", "extra_dejson")


@pytest.mark.parametrize(
    "text",
    [
        "postgres://snowpack:secret@db:5433/jobs",
        "postgresql://db/jobs?sslmode=require&application_name=worker",
        "postgres://a%40b:p%2Fss%3A@DB.example.com/jobs%20of%20today",
        "postgres://user@[2001:db8::1]:5432/jobs",
        "postgres://:only-password@db",
        "snowpack-catalog://https://catalog.example.com:8181/?warehouse=lake",
        "http://https://id:secret@catalog:8181/",
        "sqlite://%2Fvar%2Flib%2FSnowpack%2Fcatalog.db/?warehouse=file%3A%2F%2F%2Flake",
        "iceberg://?__extra__=%7B%22properties%22%3A+%7B%22a%22%3A+1%7D%7D",
        "spark://local%5B2%5D",
        "spark-connect://user:token@spark:15002/?use_ssl=true",
        "postgres://",
        '{"conn_type": "postgres", "host": "db", "port": "5433", "extra": {"sslmode": "require"}}',
        '{"conn_type": "snowpack-store", "host": "db", "port": 5433, "extra": "{\\"sslmode\\": \\"require\\"}"}',
        ' {"conn_type": "postgresql", "login": "u", "description": "the store"}',
        "{}",
    ],
)
def test_a_connection_means_what_it_means_to_airflow(text: str) -> None:
    from airflow.sdk import Connection

    airflows = Connection.from_json(text, "c") if text.strip().startswith("{") else Connection.from_uri(text, "c")

    ours = parse_connection("c", text)
    # An absent part is "" or None in Airflow, depending on the part; nothing here tells them apart.
    assert {name: getattr(ours, name) or None for name in FIELDS} == {name: getattr(airflows, name) or None for name in FIELDS}


@pytest.mark.parametrize(
    "text",
    [
        *("hunter2", "[1]", '{"hunter2"', '{"hunter2": 1}', '{"port": "hunter2"}', '{"extra": ["hunter2"]}', '{"extra": "[1]"}'),
        *("postgres://db:hunter2/x", "a://b@c://hunter2", 'postgres://db/?__extra__=["hunter2"]'),
    ],
)
def test_a_connection_that_cannot_be_read_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(InvalidConnection, match="Use a URI such as") as refused:
        Environment({"AIRFLOW_CONN_STORE": text}).connection("store", "the store")
    assert "hunter2" not in str(refused.value)


def test_a_missing_connection_is_named_with_its_variable() -> None:
    with pytest.raises(ConnectionNotFound, match=r"for the store cannot be read: it is not set\. Set AIRFLOW_CONN_STORE, add it"):
        Environment({}).connection("store", "the store")


def test_a_connection_that_needs_a_provider_of_airflow_is_refused() -> None:
    with pytest.raises(InvalidConnection, match="iam needs Airflow's Postgres provider"):
        Environment({"AIRFLOW_CONN_STORE": 'postgres://db/?__extra__={"iam": true}'}).connection("store", "the store")


def test_no_representation_of_a_connection_has_its_secrets() -> None:
    connection = parse_connection("c", "postgres://user:hunter2@db/?token=hunter3")
    assert "hunter" not in repr(connection)


def test_the_environment_overrides_the_file(tmp_path: Path) -> None:
    config = tmp_path / "airflow.cfg"
    config.write_text(
        "[core]\nexecutor = CeleryExecutor\n[snowpack]\nlease = 10m\nheartbeat = 20s\n"
        "[connections]\nstore = postgres://file/jobs?options=100%25\n"
    )
    environment = Environment({"AIRFLOW__SNOWPACK__LEASE": "5m", "AIRFLOW_HOME": str(tmp_path)}, config)
    settings = Settings.load(environment)

    assert (settings.policy.lease, settings.policy.heartbeat) == (timedelta(minutes=5), timedelta(seconds=20))
    assert settings.catalog_name == "lake"
    assert settings.store_path == tmp_path / "snowpack.db"
    assert environment.connection("store", "the store").host == "file"
    variable = {"AIRFLOW_CONN_STORE": "postgres://variable/jobs"}
    assert Environment(variable, config).connection("store", "the store").host == "variable"


@pytest.mark.parametrize("source", ["file", "environment"])
@pytest.mark.parametrize(
    "text",
    [
        *("/lake/100%%", "/lake/%(catalog_name)s", "$LAKE_HOME/x", "${LAKE_HOME}/x", "$NESTED", "$MISSING/x", "~/lake"),
        *("$ITSELF", "${LAKE_HOME", "a$", "$LAKE_HOME$LAKE_HOME", "$TILDE"),
    ],
)
def test_a_setting_means_what_it_means_to_airflow(
    text: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.configuration import AirflowConfigParser

    given = {"LAKE_HOME": "/lake", "NESTED": "${LAKE_HOME}/nested", "ITSELF": "$ITSELF", "TILDE": "~/lake"}
    config = tmp_path / "airflow.cfg"
    config.write_text(f"[snowpack]\ncatalog_name = lake\n{f'home = {text}' if source == 'file' else ''}\n")
    if source == "environment":
        given["AIRFLOW__SNOWPACK__HOME"] = text
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    airflows = AirflowConfigParser()
    airflows.read_string(config.read_text())

    assert Environment(os.environ, config).text("home") == airflows.get("snowpack", "home")


def test_a_percent_sign_with_another_meaning_is_refused_without_the_text(tmp_path: Path) -> None:
    config = tmp_path / "worker.cfg"
    config.write_text("[snowpack]\nspark_conf = hunter2%\n")

    with pytest.raises(
        UnreadableConfig, match=r"\[snowpack\] spark_conf has a percent sign .* write a percent sign as %%"
    ) as refused:
        Settings.load(Environment({}, config))
    assert "hunter2" not in str(refused.value)


def test_a_connection_in_the_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    config = tmp_path / "worker.cfg"
    config.write_text('[connections]\nstore = postgres://u:$HOME%25%25@db/jobs\nlake = {"password": "$HOME%%"}\n')
    environment = Environment(os.environ, config)

    assert environment.connection("store", "the store").password == "$HOME%%"
    assert environment.connection("lake", "the catalog").password == "$HOME%%"


def test_a_setting_that_is_not_valid_is_named_with_its_variable() -> None:
    with pytest.raises(InvalidSetting, match="AIRFLOW__SNOWPACK__LEASE"):
        Settings.load(Environment({"AIRFLOW__SNOWPACK__LEASE": "soon"}))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"password = hunter2\n", "in line 1"),
        (b"[a\n", "in line 1"),
        (b"[snowpack]\nlease = 1m\nhunter2\n", "in line 3"),
        (b"[snowpack]\nlease = 1m\nlease = hunter2\n", "DuplicateOptionError in line 3"),
        (b"\xff\xfe", "can't decode"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_without_its_text(tmp_path: Path, content: bytes, problem: str) -> None:
    config = tmp_path / "worker.cfg"
    config.write_bytes(content)
    with pytest.raises(UnreadableConfig, match=rf"worker\.cfg cannot be read: .*{problem}") as refused:
        Environment({}, config)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableConfig, match="No such file"):
        Environment({}, tmp_path / "worker.cfg")


def test_json_may_have_every_field_of_airflows_own_export() -> None:
    from airflow.sdk import Connection

    exported = Connection(conn_id="c", conn_type="postgres", description="d", host="h", extra='{"a": 1}').as_json()
    assert parse_connection("c", exported).extra_dejson == {"a": 1}
    assert json.loads(exported)["description"] == "d"
