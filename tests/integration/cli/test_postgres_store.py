"""A store in a real Postgres, through an Airflow connection and the commands of ``airflow snowpack db``."""

from __future__ import annotations

import shlex

import pytest
from command_line import command_line
from getting_started import GETTING_STARTED, shell_lines
from sqlalchemy.engine import make_url

from airflow_snowpack import hooks
from airflow_snowpack.iceberg import TableName


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
