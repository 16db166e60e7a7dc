"""The suite's own way to hand out tests: whichever process dies in the middle of one, every other test runs, and the run ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bounded import PATIENCE_S
from one_of_each import SYSTEM_FOLDERS, scope_of

SUPPORT = Path(__file__).parents[2] / "support"
TESTS = """
import os, pytest

@pytest.mark.parametrize("number", range({first}, {first} + 12))
def test_of(number):
    if number in {deadly}:
        os.abort()
"""


@pytest.fixture
def run_tests(tmp_path: Path) -> Callable[..., list[str]]:
    """Run the tests below a folder, handed out as the suite's own are; gives the lines that are printed."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {SUPPORT}\n")
    (tmp_path / "conftest.py").write_text("from one_of_each import one_of_each as pytest_xdist_make_scheduler\n")

    def run(*arguments: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "xdist", *arguments, str(tmp_path)]
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        said = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=tmp_path, env=environment
        )
        return said.stdout.splitlines()

    return run


def test_a_run_ends_whichever_of_its_processes_die(tmp_path: Path, run_tests: Callable[..., list[str]]) -> None:
    for first in (0, 12):
        tests = TESTS.replace("{deadly}", repr({4, 15, 23})).replace("{first}", str(first))
        (tmp_path / f"test_deadly_{first}.py").write_text(tests)

    assert re.search(r"3 failed, 21 passed", run_tests("--numprocesses", "2")[-1])


def test_what_shares_an_airflow_or_a_spark_is_handed_out_together() -> None:
    assert scope_of("tests/system/test_kills.py::test_a") == scope_of("tests/system/test_builds.py::test_b") == "airflow"
    assert scope_of("tests/system/dags_test/test_examples.py::test_a") == "dags_test"
    assert scope_of("tests/system/demo/test_demo_run.py::test_a") == "demo"
    assert scope_of("tests/integration/spark/test_work.py::test_a") == "spark"
    assert scope_of("tests/integration/cli/test_cli_stores.py::test_a_table_on_spark") == "spark"
    assert scope_of("tests/integration/maintenance/test_actions.py::test_a") == "maintenance"
    assert scope_of("tests/integration/maintenance/planning/test_where_on_spark.py::test_a") == "maintenance"


@pytest.mark.parametrize(
    "path",
    [
        "tests/unit/spark/test_java.py",
        "tests/integration/maintenance/fleet/test_planner.py",
        "tests/integration/spark/test_start.py",
        "tests/integration/builds/test_cluster_builds_on_spark.py",
        "tests/integration/worker/test_worker_without_airflow.py",
    ],
)
def test_a_file_without_the_shared_session_is_handed_out_by_itself(path: str) -> None:
    assert scope_of(f"{path}::test_a") == path


def test_a_face_waits_for_spark_only_if_it_uses_spark() -> None:
    files = list((SUPPORT.parent / "integration" / "faces").glob("test_*.py"))
    on_spark = {file.name for file in files if scope_of(f"tests/integration/faces/{file.name}::test_a") == "spark"}

    assert on_spark == {file.name for file in files if "spark" in file.read_text().lower()}
    assert 0 < len(on_spark) < len(files)


def test_what_takes_longest_is_handed_out_first(tmp_path: Path, run_tests: Callable[..., list[str]]) -> None:
    """One process runs everything in the order in which it is handed out; the longest groups have the fewest tests here."""
    folders = ["integration/spark", "integration/maintenance", "system", "system/dags_test", "system/demo", "integration", "unit"]
    for count, folder in enumerate(folders, start=1):
        file = tmp_path / folder / f"test_{folder.rpartition('/')[2]}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(f"def test_{number}(): ..." for number in range(count)))
    printed = run_tests("--numprocesses", "1", "-v")
    ran = re.findall(r"PASSED \S*test_(\w+)\.py", "\n".join(printed))

    assert list(dict.fromkeys(ran)) == ["system", "maintenance", "spark", "dags_test", "demo", "integration", "unit"]
    assert len(ran) == 28


def test_every_folder_below_the_system_tests_is_a_group_of_its_own() -> None:
    """A folder that is not one runs on the running Airflow, and its fixtures had better be those of that Airflow."""
    system = SUPPORT.parent / "system"
    folders = {path.parent.name for path in system.rglob("test_*.py")} - {"system"}

    assert folders == SYSTEM_FOLDERS
