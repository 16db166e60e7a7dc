"""``snowpack``: the commands of ``airflow snowpack`` without Airflow's command line, and ``snowpack assess`` without Airflow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_catalog import FakeRestCatalog, rest_catalog

from airflow_snowpack.cli.console import main
from airflow_snowpack.exit_code import ExitCode

ALONE = """
import json, sys
from airflow_snowpack.cli.console import main
try:
    main(sys.argv[1:])
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""
HEAVY = {"airflow", "alembic", "fastapi", "psycopg", "py4j", "pyspark", "sqlalchemy"}


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRestCatalog]:
    monkeypatch.chdir(tmp_path)
    with rest_catalog() as running:
        running.tables = {("sales",): ["orders", "visits"]}
        yield running


def alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ALONE, *arguments], capture_output=True, text=True)


def test_a_rest_catalog_is_assessed_without_airflow_sqlalchemy_and_spark(catalog: FakeRestCatalog) -> None:
    said = alone("assess", "--catalog", catalog.url, "--output", "json", "--html", "report.html")

    assert said.returncode == 0, said.stderr
    assert [each["table"] for each in json.loads(said.stdout)["tables"]] == ["sales.orders", "sales.visits"]
    assert not HEAVY & set(json.loads(said.stderr.splitlines()[-1]))


def test_a_catalog_of_the_environment_is_assessed(catalog: FakeRestCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "lakehouse")
    monkeypatch.setenv("AIRFLOW_CONN_LAKEHOUSE", json.dumps({"conn_type": "iceberg", "host": catalog.url}))

    said = alone("assess", "sales.visits", "--output", "json")

    assert [each["table"] for each in json.loads(said.stdout)["tables"]] == ["sales.visits"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "No catalog is named. Pass --catalog with the address of a REST catalog."),
        (["--catalog", "http://localhost", "--property", "s3.endpoint"], "--property 's3.endpoint' is not KEY=VALUE."),
        (["--catalog", "http://localhost", "--token-file", "missing"], "The token file missing cannot be read"),
    ],
)
def test_a_missing_or_invalid_argument_is_explained(
    arguments: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["assess", *arguments])
    assert (ended.value.code, problem in capsys.readouterr().err) == (ExitCode.USAGE, True)


def test_a_token_file_with_more_than_the_token_is_refused_without_showing_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "token").write_text("s3cr3t-1\ns3cr3t-2\n")
    with pytest.raises(SystemExit):
        main(["assess", "--catalog", "http://127.0.0.1:9", "--token-file", str(file)])
    shown = "".join(capsys.readouterr())
    assert f"The token file {file} has 2 words." in shown
    assert "s3cr3t" not in shown


def test_the_commands_of_airflow_snowpack_run_alone(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["jobs", "list"])
    assert "No jobs yet." in capsys.readouterr().out


def test_the_help_of_a_group_names_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["tables", "--help"])
    assert "forget-catalog" in capsys.readouterr().out
