"""A store in a real Postgres, through an Airflow connection and the commands of ``airflow snowpack db``."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace

import pytest
from command_line import command_line
from getting_started import GETTING_STARTED, shell_lines
from sqlalchemy.engine import make_url

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.store import SchemaOutOfDate

ARGUMENTS = Namespace(store_conn_id="production")


@pytest.fixture
def production(empty_postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to an empty database."""
    url = make_url(empty_postgres_database)
    given = {
        "conn_type": "postgres",
        "host": url.host,
        "port": url.port,
        "login": url.username,
        "password": url.password,
        "schema": url.database,
        "extra": {"application_name": "snowpack"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_PRODUCTION", json.dumps(given))


def test_an_empty_database_names_the_command(production: None) -> None:
    with hooks.SnowpackHook("production") as hook, pytest.raises(SchemaOutOfDate, match="airflow snowpack db upgrade"):
        hook.store()


def test_the_check_of_an_empty_database_ends_with_6(production: None, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli.commands import db

    with pytest.raises(SystemExit) as ended:
        db.check(ARGUMENTS)

    assert ended.value.code == 6
    assert "airflow snowpack db upgrade" in capsys.readouterr().err


def test_the_commands_of_getting_started_set_up_a_postgres_store(
    empty_postgres_database: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    url = make_url(empty_postgres_database)
    address = url.set(drivername="postgres").render_as_string(hide_password=False)
    run, upgraded = command_line(capfd), False
    for line in shell_lines(GETTING_STARTED):
        word, *given = shlex.split(line)
        if word == "export" and "SNOWPACK" in line:
            name, _, value = given[0].partition("=")
            monkeypatch.setenv(name, value.replace("postgres://snowpack:password@store-db/snowpack", address))
        elif given[:2] == ["snowpack", "db"]:
            assert run(*given[1:]).code == 0
            upgraded = True
    assert upgraded

    checked = run("db", "check")
    assert (checked.code, checked.out) == (0, f"The store at postgresql://{url.host}:{url.port}/{url.database} is up to date.\n")
    with hooks.SnowpackHook() as hook:
        job = hook.jobs().submit(TableName("lake", "db", "t"), ["expire_snapshots"])
        assert hook.jobs().get(job.job_id).status == "pending"
