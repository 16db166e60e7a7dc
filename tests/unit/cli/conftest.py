"""The command line as Airflow parses it, on a real SQLite store and a real catalog with one small table."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING

import pytest
from command_line import command_line

from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook
from airflow_snowpack.hooks.store import SnowpackHook
from airflow_snowpack.iceberg import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from command_line import Said

    from airflow_snowpack.jobs import Jobs

TABLE = TableName("lake", "demo", "flights")


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that point at a fresh folder; returns it."""
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps({"conn_type": "sqlite", "host": str(tmp_path / "snowpack.db")}))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(tmp_path / "lake"))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("LOGNAME", "ann")
    return tmp_path


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier test in this process made of Airflow's logging is not part of what a command says."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


@pytest.fixture
def snowpack(installation: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run ``airflow snowpack …`` in this process, through Airflow's own parser."""
    return command_line(capfd)


@pytest.fixture
def jobs(installation: Path) -> Iterator[Jobs]:
    """The store's jobs, as another process would see them."""
    with SnowpackHook() as hook:
        yield hook.jobs()


@pytest.fixture
def flights(installation: Path) -> TableName:
    """A real Iceberg table of six small files."""
    import pyarrow as pa

    catalog = IcebergCatalogHook().catalog
    catalog.create_namespace("demo")
    rows = pa.table({"month": pa.array([1, 2], pa.int32()), "delay": pa.array([3, 4], pa.int32())})
    table = catalog.create_table(TABLE.identifier, schema=rows.schema)
    for _ in range(6):
        table.append(rows)
    return TABLE


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Make standard input a real terminal, on which somebody types what the test gives."""
    mine, theirs = os.openpty()
    with os.fdopen(theirs, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield lambda text: os.write(mine, text.encode()) and None
    os.close(mine)
