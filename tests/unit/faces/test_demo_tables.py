"""What `make airflow` runs before Airflow: it makes the tables of the example DAGs, in the embedded catalog only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_snowpack import hooks
from examples.demo.tables import main

pytestmark = pytest.mark.one_database


def commits_by_table() -> dict[str, list[int]]:
    """Return the ids of the snapshots of each table."""
    catalog = hooks.IcebergCatalogHook().catalog
    tables = {name: catalog.load_table(f"demo.{name}") for name in ("flights", "airports", "planes")}
    return {name: [snapshot.snapshot_id for snapshot in table.snapshots()] for name, table in tables.items()}


def test_the_tables_are_made_once_and_left_alone_then(installation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main()
    assert capsys.readouterr().out.endswith("Tables for the example DAGs: demo.flights, demo.airports, demo.planes.\n")
    made = commits_by_table()
    assert {name: len(commits) for name, commits in made.items()} == {"flights": 14, "airports": 1, "planes": 1}

    main()
    assert capsys.readouterr().out == "Tables for the example DAGs: already there.\n"
    assert commits_by_table() == made


def test_a_catalog_that_is_configured_gets_none(
    installation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "production")
    main()  # a connection that does not exist: it is not even read

    assert "[snowpack] catalog_conn_id = 'production'" in capsys.readouterr().out
    assert not (installation / "lake").exists()


def test_a_configured_catalog_that_is_named_gets_them(
    installation: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    connection = {"conn_type": "sqlite", "host": f"{tmp_path}/catalog.db", "extra": {"warehouse": f"file://{tmp_path}/warehouse"}}
    monkeypatch.setenv("AIRFLOW__SNOWPACK__CATALOG_CONN_ID", "own")
    monkeypatch.setenv("AIRFLOW_CONN_OWN", json.dumps(connection))
    main(["--catalog", "other"])
    assert "Pass --catalog own to create them in that catalog." in capsys.readouterr().out

    main(["--catalog", "own"])
    assert capsys.readouterr().out.endswith("Tables for the example DAGs: demo.flights, demo.airports, demo.planes.\n")
