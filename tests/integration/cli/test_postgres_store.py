"""A store in a real Postgres, through an Airflow connection and the commands of ``airflow snowpack db``."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest
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


def test_the_check_of_an_empty_database_ends_with_1(production: None, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli import db

    with pytest.raises(SystemExit) as ended:
        db.check(ARGUMENTS)

    assert ended.value.code == 1
    assert "airflow snowpack db upgrade" in capsys.readouterr().err


def test_after_the_upgrade_the_check_is_content_and_jobs_can_be_submitted(
    production: None, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow_snowpack.cli import db

    db.upgrade(ARGUMENTS)
    db.check(ARGUMENTS)

    assert capsys.readouterr().out.count("is up to date") == 2
    with hooks.SnowpackHook("production") as hook:
        job = hook.jobs().submit(TableName("lake", "db", "t"), ["expire_snapshots"])
        assert hook.jobs().get(job.job_id).status == "pending"
