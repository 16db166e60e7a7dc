"""Runs ``airflow snowpack …`` in the test's own process, through Airflow's own parser.

said = run("jobs", "list", "-o", "json")
said.code, said.json, said.err
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., "Said"]


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def command_line(capfd: pytest.CaptureFixture[str]) -> Run:
    """What runs a command and captures what its process writes."""
    from airflow.cli.cli_parser import get_parser

    def run(*arguments: str) -> Said:
        capfd.readouterr()
        try:
            parsed = get_parser().parse_args(["snowpack", *arguments])
            parsed.func(parsed)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return Said(code, *capfd.readouterr())

    return run


def settle(store_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up Airflow so that commands use this store, and a catalog in this folder."""
    from sqlalchemy.engine import make_url

    url = make_url(store_url)
    if url.get_backend_name() == "sqlite":
        connection: dict[str, object] = {"conn_type": "sqlite", "host": url.database}
    else:
        connection = {"conn_type": "postgres", "host": url.host, "port": url.port, "schema": url.database, "login": url.username}
        connection["password"] = url.password
    monkeypatch.setenv("AIRFLOW_CONN_TEST_STORE", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__STORE_CONN_ID", "test_store")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__HOME", str(folder / "lake"))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setenv("LOGNAME", "ann")
