"""What a run of the tests reports at its end, and when it counts as failed: shown by runs of pytest with tests of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bounded import PATIENCE_S
from compat.run import table as versions_table
from matrix import BEGIN, END, PAGE, RESULTS, results_of, table, with_table
from promises import PROMISES
from soak_report import measured_lines, soak_lines
from unstable_tests import run_again

TESTS = Path(__file__).parents[2]


def run(folder: Path, code: str, *arguments: str) -> tuple[int, str]:
    """Run pytest on a file of its own beside our conftest; returns the exit code and the output."""
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_it.py").write_text(code)
    options = ("-p", "no:cacheprovider", "-o", f"pythonpath={TESTS / 'support'}", "-c", "/dev/null", "--rootdir", folder)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments, folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


SKIPPED = "import pytest\n\n@pytest.mark.skip(reason='no browser')\ndef test_skipped() -> None: ...\n"


def test_a_run_reports_at_its_end_what_it_skipped_and_why(tmp_path: Path) -> None:
    code, output = run(tmp_path, SKIPPED + "\ndef test_passed() -> None: ...\n")

    assert code == pytest.ExitCode.OK
    assert "1 skipped: no browser (test_it.py)" in output


def test_a_run_that_skipped_every_test_fails(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPPED, "--numprocesses", "1")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_run_without_tests_fails(tmp_path: Path) -> None:
    code, output = run(tmp_path, "")

    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "No test was skipped." in output


ONCE = """
from pathlib import Path

import pytest

@pytest.mark.parametrize("place", {places})
def test_that_fails_{times}(place: Path) -> None:
    file = Path({folder!r}, place)
    tries = int(file.read_text()) if file.exists() else 0
    file.write_text(str(tries + 1))
    assert tries >= {times}
"""


def run_twice(folder: Path, code: str) -> tuple[int, str]:
    """Run tests, and what failed again; returns the exit code and the output of the second run."""
    failed = folder / "failed.json"
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS / 'support'}\n")
    first = {**os.environ, "SNOWPACK_FAILED_TESTS": str(failed)}
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_it.py").write_text(code)
    pytest_of_folder = [sys.executable, "-m", "pytest", "--numprocesses", "1"]
    subprocess.run(pytest_of_folder, cwd=folder, env=first, capture_output=True, timeout=PATIENCE_S, check=False)
    again = [sys.executable, TESTS / "support" / "unstable_tests.py", failed]
    done = subprocess.run(again, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("places", "times", "code", "unstable"),
    [(["a [1]", "b"], 1, 0, ["a [1]", "b"]), (["a"], 2, 1, [])],
    ids=["passes alone", "fails again"],
)
def test_what_passes_when_it_runs_again_is_named_and_counted(
    tmp_path: Path, places: list[str], times: int, code: int, unstable: list[str]
) -> None:
    passed = "\ndef test_passed() -> None: ...\n"

    exit_code, output = run_twice(tmp_path, ONCE.format(places=places, times=times, folder=str(tmp_path)) + passed)

    assert exit_code == code, output
    named = [line for line in output.splitlines() if line.startswith("unstable: ")]
    assert named == [f"unstable: test_it.py::test_that_fails_{times}[{place}]" for place in unstable]


def test_more_failures_than_unstable_tests_can_explain_are_not_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run_again(["test_it.py::test_a", "test_it.py::test_b", "test_it.py::test_c"])
    assert capsys.readouterr().out == "3 tests failed: too many to be unstable. None is run again.\n"


def test_a_run_that_was_not_finished_is_not_completed_by_a_second_one(tmp_path: Path) -> None:
    exit_code, output = run_twice(tmp_path, "import pytest\n\ndef test_it() -> None:\n    pytest.exit('stopped')\n")

    assert exit_code == 1
    assert "not run to their end" in output


def test_every_file_behind_a_promise_is_there_and_stands_behind_one_promise() -> None:
    files = [file for promise in PROMISES for file in promise.tests]

    assert [file for file in files if not (TESTS / file).is_file()] == []
    assert len(files) == len(set(files))


def test_every_test_that_runs_longer_in_a_soak_stands_behind_a_promise() -> None:
    takes_rounds = re.compile(r"^from effort import .*\brounds\b", re.MULTILINE)
    with_rounds = {str(file.relative_to(TESTS)) for file in TESTS.rglob("test_*.py") if takes_rounds.search(file.read_text())}

    assert with_rounds - {file for promise in PROMISES for file in promise.tests} == set()


def test_a_soak_report_adds_up_faults_steps_and_violations_for_each_promise() -> None:
    def report(file: str, when: str, outcome: str, **counted: int) -> pytest.TestReport:
        return pytest.TestReport(
            f"tests/{file}::test", ("", None, ""), {}, outcome, None, when, user_properties=[*counted.items()]
        )  # type: ignore[arg-type]

    kills = PROMISES[0].tests[0]
    reports = [
        report(kills, "setup", "passed"),
        report(kills, "call", "passed", faults=1100),
        report(kills, "teardown", "passed", faults=1200, steps=3, runs=9),
        report(kills, "call", "failed", faults=4),
        report(kills, "teardown", "failed", faults=4),
        report(PROMISES[1].tests[0], "setup", "failed"),
        report("unit/setup/test_run_reports.py", "call", "failed", faults=7),
    ]
    lines = soak_lines(reports)
    assert lines[0] == "1. One attempt counts: 2 tests, 1,204 faults injected, 3 random steps, 1 violation"
    assert lines[1] == "2. Nothing is lost: 0 tests, 0 faults injected, 0 random steps, 1 violation"
    assert lines[2] == "3. Data never changes silently: not run"
    assert len(lines) == 7


def test_a_soak_report_has_what_the_tests_of_a_promise_have_measured() -> None:
    def report(file: str, when: str) -> pytest.TestReport:
        measured = [("faults", 3), ("measured", f"{when}: 5 tasks wait"), ("measured", {"lakes": 10})]
        return pytest.TestReport(f"tests/{file}::test", ("", None, ""), {}, "passed", None, when, user_properties=measured)  # type: ignore[arg-type]

    of_a_promise, other = PROMISES[5].tests[0], "unit/setup/test_run_reports.py"
    reports = [report(of_a_promise, "call"), report(of_a_promise, "teardown"), report(other, "teardown")]
    wait = "- teardown: 5 tasks wait"
    assert measured_lines(reports) == [wait, "- test: 10 lakes"]
    assert measured_lines([*reports, *reports]) == [wait, wait, "- test: 20 lakes"]


def test_only_a_soak_run_has_the_tests_that_are_too_long_for_any_other() -> None:
    def chosen(soak: str) -> bool:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/system/test_many_waiting.py"]
        env = os.environ | {"SNOWPACK_SOAK": soak, "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return "test_many_waiting.py::" in done.stdout

    assert (chosen("0"), chosen("1")) == (False, True)


def test_a_cell_of_the_matrix_is_run_only_if_all_of_its_tests_passed() -> None:
    def report(cell: str, outcome: str, *, when: str = "call", asserted: bool = False) -> pytest.TestReport:
        properties = [("cell", [cell, asserted])]
        return pytest.TestReport("test", ("", None, ""), {}, outcome, None, when, user_properties=properties)  # type: ignore[arg-type]

    results = results_of(
        [
            report("Local Spark | REST | S3", "passed", when="setup"),
            report("Local Spark | REST | S3", "passed"),
            report("Local Spark | SQL | S3", "passed"),
            report("Local Spark | SQL | S3", "failed"),
            report("Spark Connect | Glue | S3", "skipped", when="setup"),
            report("Local Spark | REST | GCS", "passed", asserted=True),
        ]
    )

    assert results["cells"] == {
        "Local Spark | REST | GCS": "configuration asserted",
        "Local Spark | REST | S3": "run",
        "Local Spark | SQL | S3": "failed",
        "Spark Connect | Glue | S3": "skipped",
    }
    assert "| Local Spark | REST | not run | run | configuration asserted | not run |" in table(results)
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nz", results) == f"a\n{BEGIN}\n{table(results)}\n{END}\nz"


def test_the_page_has_the_table_of_the_kept_results() -> None:
    page = PAGE.read_text()

    assert with_table(page, json.loads(RESULTS.read_text())) == page


def test_the_table_of_versions_counts_tests_and_names_the_steps_that_differ() -> None:
    def cell(passed: int, failed: int, scenario: str) -> dict[str, Any]:
        versions = {"apache-airflow": "3.1.8", "pyspark": "4.1.3"}
        tests = {"passed": passed, "failed": failed, "skipped": 2}
        return {"date": "2026-11-27", "versions": versions, "tests": tests, "scenario": scenario}

    lines = versions_table({"a": cell(9, 0, "the same"), "b": cell(8, 1, "`rows` differs")}).splitlines()
    assert lines[2:] == [
        "| a | 3.1.8 | 4.1.3 | 2026-11-27 | 9 passed, 2 skipped | the same |",
        "| b | 3.1.8 | 4.1.3 | 2026-11-27 | 8 passed, 1 failed, 2 skipped | `rows` differs |",
    ]
