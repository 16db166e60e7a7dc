"""Airflow itself answers, to a task and by REST: both receive the same, and nothing unfinished counts as finished."""

from __future__ import annotations

from typing import Any

import pytest
from airflow_answers import MAPPED, PAGE_LIMIT
from airflow_scripts import run_in_airflow

from airflow_snowpack.interim.collection.model import RunPhase


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_in_airflow("airflow_answers.py", tmp_path_factory.mktemp("airflow"), page_limit=PAGE_LIMIT)


def test_a_task_and_the_rest_api_receive_the_same(received: dict[str, Any]) -> None:
    assert received["task"] == received["rest"]


def test_a_run_that_has_just_begun_has_finished_nothing_not_even_a_mapped_task(
    received: dict[str, Any],
) -> None:
    begun = received["task"]["begun"]
    assert (begun["phase"], begun["finished"]) == (RunPhase.ACTIVE, [])
    assert begun["tasks"] == {name: [[-1, None]] for name in ("clean", "clean_1", "report")}


def test_a_mapped_task_is_finished_when_all_of_it_is_however_many_pages_that_takes(received: dict[str, Any]) -> None:
    half_way = received["rest"]["half_way"]
    assert half_way["tasks"]["clean"] == [*([index, "success"] for index in range(MAPPED - 1)), [MAPPED - 1, "up_for_retry"]]
    assert half_way["finished"] == ["clean_1"]


def test_a_run_that_is_over_needs_nothing_and_one_that_was_deleted_is_gone(received: dict[str, Any]) -> None:
    over, deleted = received["rest"]["over"], received["rest"]["deleted"]
    assert (over["phase"], over["finished"]) == (RunPhase.OVER, ["clean", "clean_1", "report", "gone"])
    assert over["tasks"]["clean"] == [[0, "success"], [1, "success"], [2, "removed"]]
    assert (deleted["phase"], deleted["tasks"]) == (RunPhase.GONE, {})


def test_the_api_server_knows_which_dags_are_paused_and_which_are_not_there(received: dict[str, Any]) -> None:
    assert [turn["flights"] for turn in received["dags"]] == ["active", "paused", "missing"]
    assert {turn["never_there"] for turn in received["dags"]} == {"missing"}
