"""Answers that are not Airflow's own, and those that it refuses: nothing is taken for gone, and nobody else waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from http_stand_in import AnswersByPath

from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.dag_runs import RestDagRuns
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.scheduling.airflow_port import DagRuns, Unavailable

NOBODY: frozenset[str] = frozenset()


class Answers:
    """A server that gives these answers, by the beginning of the path; the longest that fits."""

    def __init__(self) -> None:
        self.by_path: dict[str, tuple[int, Any]] = {}

    def to(self, path: str, _query: object) -> tuple[int, Any]:
        fitting = [known for known in self.by_path if path.startswith(f"/api/v2{known}")]
        return self.by_path[max(fitting, key=len)] if fitting else (404, b"<h1>nothing here</h1>")


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def runs(answers: Answers) -> Iterator[RestDagRuns]:
    with AnswersByPath(answers.to) as service, AirflowRest(f"http://{service.address}", token="t") as rest:
        yield RestDagRuns(rest)


def test_a_404_that_is_not_airflows_own_says_nothing_about_runs_dags_and_pools(runs: RestDagRuns) -> None:
    for ask in (
        lambda: runs.is_paused("d"),
        lambda: runs.find("d", "r1"),
        lambda: runs.count_active("d", NOBODY),
    ):
        with pytest.raises(AirflowUnreachable, match=r"GET .* was refused: HTTP 404"):
            ask()
    assert isinstance(runs.free_slots(["p"])["p"], Unavailable)


def test_airflows_own_404_says_that_there_is_nothing_of_the_name(runs: RestDagRuns, answers: Answers) -> None:
    answers.by_path = {
        "/dags/d": (404, {"detail": "Dag with id: d was not found"}),
        "/dags/d/dagRuns/r1": (404, {"detail": "The DagRun with dag_id: `d` and run_id: `r1` was not found"}),
        "/dags/~": (200, {"task_instances": []}),
        "/pools/p": (404, {"detail": "The Pool with name: `p` was not found"}),
    }
    assert runs.is_paused("d") is None
    assert runs.find("d", "r1") is None
    assert runs.count_active("d", NOBODY) == (0, 0)
    assert runs.free_slots(["p"]) == {"p": None}


def test_a_dag_whose_runs_airflow_refuses_keeps_no_other_dag_from_being_told(runs: RestDagRuns, answers: Answers) -> None:
    for status in (403, 500):
        answers.by_path = {
            "/dags/secret/dagRuns": (status, {"detail": "not for you"}),
            "/dags/open/dagRuns": (200, {"dag_runs": [{"dag_run_id": "r1"}], "total_entries": 1}),
        }
        told = runs.dag_runs({"secret": frozenset({"r9"}), "open": NOBODY})
        assert told["open"] == DagRuns(others=1)
        assert isinstance(told["secret"], Unavailable)
        assert "not for you" in told["secret"].why


def test_a_dag_is_missing_if_airflow_has_none_or_knows_its_file_to_be_gone(runs: RestDagRuns, answers: Answers) -> None:
    there = {"is_stale": False, "has_import_errors": False}
    answers.by_path = {
        "/dags/there": (200, there),
        "/dags/gone": (200, there | {"is_stale": True}),
        "/dags/broken": (200, {"is_stale": True, "has_import_errors": True}),
        "/dags/never": (404, {"detail": "The Dag with ID: `never` was not found"}),
        "/dags/secret": (403, {"detail": "not for you"}),
    }
    asked = ["there", "gone", "broken", "never", "secret", "nothing_of_airflow"]
    assert runs.missing_dags(asked) == {"there": False, "gone": True, "broken": False, "never": True}
