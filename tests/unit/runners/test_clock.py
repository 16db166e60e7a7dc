"""No decision about a process depends on the clock of the day, which may jump: waits count monotonic time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import airflow_snowpack.runners.supervisor as supervisor

ROOM = Path(supervisor.__file__).parent
OF_THE_DAY = {"time", "now", "utcnow", "today", "gmtime", "localtime"}


@pytest.mark.parametrize("module", ["supervisor", "subprocess_runner", "output_lines", "entry_process", "exchange", "exchanges"])
def test_the_time_of_day_is_not_read(module: str) -> None:
    tree = ast.parse((ROOM / f"{module}.py").read_text())
    called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    assert called & OF_THE_DAY == set()


def test_the_supervisor_waits_in_monotonic_time() -> None:
    assert "time.monotonic()" in (ROOM / "supervisor.py").read_text()
