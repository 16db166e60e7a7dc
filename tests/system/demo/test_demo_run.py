"""``make demo`` with the first days of the year: a real table, a real Airflow, the numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from bounded import started

DAYS = 5
LONGEST_S = 390.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """The demo as a process, in a folder where one ran before."""
    home = tmp_path_factory.mktemp("demo")
    (home / ".airflow-snowpack-demo").touch()
    (home / "spark.log").write_text("from the demo before")
    command = [sys.executable, "-m", "examples.demo", "--days", str(DAYS), "--home", str(home)]
    with started(command, patience_s=LONGEST_S, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.fixture(scope="module")
def told(finished: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert finished.returncode == 0, finished.stdout + finished.stderr
    summary: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return summary


def test_the_table_is_healthier_and_has_the_same_rows(told: dict[str, Any]) -> None:
    before, after = told["before"], told["after"]
    assert before["data_files"] == DAYS
    assert before["delete_files"] >= 1
    assert (after["data_files"], after["delete_files"], after["manifests"] < before["manifests"]) == (1, 0, True)
    assert after["snapshots"] < before["snapshots"]
    assert (before["orphan_files"] > 0, after["orphan_files"]) == (True, 0)
    assert after["bytes"] < before["bytes"]
    assert told["rows_unchanged"] is True
    assert (after["rows"], after["checksum"]) == (before["rows"], before["checksum"])


def test_the_job_ran_all_five_actions_in_one_attempt(told: dict[str, Any]) -> None:
    assert (told["job"]["status"], told["job"]["attempt"]) == ("completed", 1)
    outcomes = {name: action["outcome"] for name, action in told["job"]["actions"].items()}
    # After the rewrites of so few days, one manifest is left of each kind.
    assert outcomes.pop("rewrite_manifests") == "skipped"
    assert list(outcomes.values()) == ["succeeded"] * 4


def test_the_life_of_the_job_is_shown_as_the_store_has_it(finished: subprocess.CompletedProcess[str]) -> None:
    events = ["submitted", "claimed", "rewrite_data_files", "remove_orphan_files", "completed"]
    life = finished.stdout[finished.stdout.index("attempt id") :]
    places = [life.index(event) for event in events]
    assert places == sorted(places)


def test_nothing_but_progress_and_tables_reaches_the_screen(finished: subprocess.CompletedProcess[str]) -> None:
    assert "WARN" not in finished.stdout + finished.stderr
    assert "[info" not in finished.stdout + finished.stderr
