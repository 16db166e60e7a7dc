"""``airflow snowpack db check`` on the embedded store."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from airflow_snowpack.exit_code import ExitCode
from airflow_snowpack.store import StoreFolderMissing

ARGUMENTS = Namespace(store_conn_id=None)


@pytest.fixture
def store_file(installation: Path) -> Path:
    """Where the store will be made."""
    file = installation / "snowpack.db"
    file.unlink()
    return file


def test_a_store_that_was_never_used_is_no_error_and_is_not_made_by_looking(
    store_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow_snowpack.cli.commands import db

    db.check(ARGUMENTS)

    assert "The store does not exist yet. Its first use creates" in capsys.readouterr().out
    assert not store_file.exists()


def test_after_an_upgrade_the_check_is_content(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from airflow_snowpack.cli.commands import db

    db.upgrade(ARGUMENTS)
    db.check(ARGUMENTS)

    assert capsys.readouterr().out.count("is up to date.") == 2
    assert store_file.exists()


def test_a_path_in_a_missing_folder_is_refused_by_the_check_and_by_every_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped path would be a second, empty store with locks of its own."""
    from airflow_snowpack.cli.commands import db
    from airflow_snowpack.hooks import SnowpackHook

    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", json.dumps({"conn_type": "sqlite", "host": f"{tmp_path}/mistyped/snowpack.db"}))
    elsewhere = Namespace(store_conn_id="elsewhere")
    for command in (db.check, db.upgrade):
        with pytest.raises(SystemExit) as ended:
            command(elsewhere)
        assert ended.value.code == ExitCode.UNREACHABLE
        assert f"The folder '{tmp_path}/mistyped' of the Snowpack store's SQLite file 'snowpack.db'" in capsys.readouterr().err
    with pytest.raises(StoreFolderMissing, match="Create the folder, or correct the path"):
        SnowpackHook("elsewhere").store()

    assert not (tmp_path / "mistyped").exists()


def test_the_check_prints_of_a_postgres_its_host_port_and_database_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow_snowpack.cli.commands import db
    from airflow_snowpack.hooks import SnowpackHook

    extra = "sslmode=disable&sslpassword=tok-en&application_name=n3xt"
    monkeypatch.setenv("AIRFLOW_CONN_FAR", f"postgres://someone:hunter22@127.0.0.1:1/jobs?{extra}")
    with pytest.raises(SystemExit):
        db.check(Namespace(store_conn_id="far"))
    _, tested = SnowpackHook("far").test_connection()

    for said in (capsys.readouterr().err, tested):
        assert "The Snowpack store at postgresql://127.0.0.1:1/jobs cannot be reached" in said
        assert not any(secret in said for secret in ("someone", "hunter22", "tok-en", "n3xt"))
