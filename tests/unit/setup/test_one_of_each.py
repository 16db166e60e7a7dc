"""The suite's own way to hand out tests: whichever process dies in the middle of one, every other test runs, and the run ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bounded import PATIENCE_S
from one_of_each import scope_of

if TYPE_CHECKING:
    from collections.abc import Callable

SUPPORT = Path(__file__).parents[2] / "support"
TESTS = """
import os, pytest

@pytest.mark.parametrize("number", range(24))
def test_of(number):
    if number in {deadly}:
        os.abort()
"""


@pytest.fixture
def summary(tmp_path: Path) -> Callable[[set[int]], str]:
    """Runs 24 tests in two processes, some of which end their process; gives the last line that is said."""

    def run(deadly: set[int]) -> str:
        (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {SUPPORT}\n")
        (tmp_path / "conftest.py").write_text("from one_of_each import one_of_each as pytest_xdist_make_scheduler\n")
        (tmp_path / "test_deadly.py").write_text(TESTS.replace("{deadly}", repr(deadly)))
        command = [sys.executable, "-m", "pytest", "-p", "xdist", "--numprocesses", "2", str(tmp_path)]
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path, env=environment
        )
        return said.stdout.splitlines()[-1]

    return run


def test_a_run_ends_whichever_of_its_processes_die(summary: Callable[[set[int]], str]) -> None:
    assert re.search(r"3 failed, 21 passed", summary({4, 15, 23}))


def test_what_shares_an_airflow_or_a_spark_is_handed_out_together() -> None:
    assert scope_of("tests/system/test_kills.py::test_a") == scope_of("tests/system/demo/test_demo_run.py::test_b") == "airflow"
    assert scope_of("tests/integration/spark/test_work.py::test_a") == "spark"
    assert scope_of("tests/unit/spark/test_java.py::test_a") == "tests/unit/spark/test_java.py::test_a"
