"""``tables assess`` and ``policies replay`` on a REST catalog that is silent, or that refuses a namespace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Run
from rest_catalog import FakeRestCatalog, rest_catalog

from airflow_snowpack.exit_code import ExitCode

COMMANDS = pytest.mark.parametrize("command", [("tables", "assess"), ("policies", "replay")], ids=" ".join)


@pytest.fixture
def rest(installation: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRestCatalog]:
    monkeypatch.chdir(installation)
    for command in ("assess", "replay"):
        monkeypatch.setattr(f"airflow_snowpack.cli.commands.{command}.ANSWER_WITHIN", timedelta(milliseconds=300))
    with rest_catalog() as running:
        running.tables = {("open",): [], ("closed",): []}
        connection = {"conn_type": "iceberg", "host": running.url}
        monkeypatch.setenv("AIRFLOW_CONN_REST_CATALOG", json.dumps(connection))
        yield running


@COMMANDS
@pytest.mark.parametrize("tables", [(), ("open.clicks",)], ids=["listed", "named"])
def test_a_silent_catalog_ends_the_command(
    snowpack: Run, rest: FakeRestCatalog, command: tuple[str, ...], tables: tuple[str, ...]
) -> None:
    rest.answer = "silence"

    said = snowpack(*command, *tables, "--catalog-conn-id", "rest_catalog")

    assert said.code == ExitCode.UNREACHABLE


@COMMANDS
def test_a_namespace_that_is_refused_is_named(snowpack: Run, rest: FakeRestCatalog, command: tuple[str, ...]) -> None:
    rest.forbidden = {("closed",)}

    said = snowpack(*command, "--catalog-conn-id", "rest_catalog", "-o", "json")

    [left_out] = said.json.get("left_out") or said.json["problems"]
    assert "closed.*" in left_out.values()
    assert left_out["reason"] == "The catalog refuses to list this namespace"
    assert re.search(r"closed\.\* was not (assessed|replayed): The catalog refuses to list this namespace", said.err)
