"""What `make airflow` runs before Airflow: it makes the tables of the example DAGs, in the embedded catalog only."""

from __future__ import annotations

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
