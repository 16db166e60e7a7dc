"""What a run of the tests reports at its end, and when it counts as failed: shown by runs of pytest with tests of their own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from bounded import PATIENCE_S
from promises import PROMISES
from soak_report import measured_lines, soak_lines

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
    code, output = run(tmp_path, SKIPPED + "\ndef test_passed() -> None: ...\n", "--numprocesses", "1")

    assert code == pytest.ExitCode.OK
    assert "1 skipped: no browser (test_it.py)" in output


def test_a_run_that_skipped_every_test_fails(tmp_path: Path) -> None:
    assert run(tmp_path, SKIPPED, "--numprocesses", "1")[0] == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_run_without_tests_fails(tmp_path: Path) -> None:
    code, output = run(tmp_path, "", "--numprocesses", "1")

    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "No test was skipped." in output


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
        measured = [("faults", 3), ("measured", f"{when}: 5 tasks wait")]
        return pytest.TestReport(f"tests/{file}::test", ("", None, ""), {}, "passed", None, when, user_properties=measured)  # type: ignore[arg-type]

    of_a_promise, other = PROMISES[5].tests[0], "unit/setup/test_run_reports.py"
    reports = [report(of_a_promise, "call"), report(of_a_promise, "teardown"), report(other, "teardown")]
    assert measured_lines(reports) == ["- teardown: 5 tasks wait"]


def test_only_a_soak_run_has_the_tests_that_are_too_long_for_any_other() -> None:
    def chosen(soak: str) -> bool:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/system/test_many_waiting.py"]
        env = os.environ | {"SNOWPACK_SOAK": soak, "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        return "test_many_waiting.py::" in done.stdout

    assert (chosen("0"), chosen("1")) == (False, True)
