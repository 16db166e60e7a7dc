"""Airflow itself answers which DAGs write to tables and which read them, in few requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from airflow_scripts import run_in_airflow
from table_dags_answers import TABLES

PAGE_LIMIT = 10
EVENTS, RAW = "iceberg://lake/db/events", "iceberg://lake/db/raw"


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_in_airflow("table_dags_answers.py", tmp_path_factory.mktemp("airflow"), page_limit=PAGE_LIMIT)


def producers(read: dict[str, Any], table: str = EVENTS) -> list[str]:
    return [each["dag_id"] for each in read["producers"].get(table, ())]


def test_a_dag_that_neither_runs_nor_is_due_soon_is_no_writer(read: dict[str, Any]) -> None:
    assert read["idle"]["producers"] == {}


def test_a_dag_that_is_due_soon_is_a_writer_of_its_outlets_with_what_its_runs_usually_take(read: dict[str, Any]) -> None:
    assert "ingest" in producers(read["due"], RAW)
    (ingest,) = read["due"]["producers"][EVENTS]
    assert (ingest["next_due"], ingest["running_since"]) == ("2026-11-23 03:20:00+00:00", None)
    assert ingest["usual_duration"] == 11 * 60
    assert ingest["usual_interval"] == pytest.approx(6.9 * 86_400 / 14)


def test_a_dag_whose_task_named_the_table_when_it_ran_is_a_writer_too(read: dict[str, Any]) -> None:
    assert producers(read["due"], RAW) == ["ingest", "via_alias"]
    assert producers(read["newest_event"], RAW) == ["ingest", "via_alias"], "newer events of other tables do not count"


def test_a_dag_that_only_maintains_the_table_is_no_writer(read: dict[str, Any]) -> None:
    assert "/dags/compact/tasks" in read["due"]["paths"]
    assert "compact" not in producers(read["due"])


def test_a_dag_that_runs_is_a_writer_but_not_for_a_task_of_the_same_run(read: dict[str, Any]) -> None:
    assert read["running"]["producers"][EVENTS][0]["running_since"] == "2026-11-23 02:56:00+00:00"
    assert read["own_run"]["producers"][EVENTS][0]["running_since"] is None


def test_failed_runs_are_those_of_dags_that_write_to_the_table_whether_or_not_they_are_due(read: dict[str, Any]) -> None:
    times = {"started_at": "2026-11-23 02:51:00+00:00", "ended_at": "2026-11-23 02:54:00+00:00"}
    assert read["due"]["failed"] == {}
    assert read["failed"]["failed"][EVENTS] == [{"dag_id": dag_id, **times} for dag_id in ("ingest", "weekly")]


def test_tables_of_another_catalog_are_others(read: dict[str, Any]) -> None:
    assert producers(read["other_catalog"]) == ["elsewhere"]
    assert read["other_catalog"]["reads"] == {}


def test_reads_are_the_runs_of_the_last_week_of_dags_that_are_scheduled_on_the_table_or_name_it_as_an_inlet(
    read: dict[str, Any],
) -> None:
    assert read["due"]["reads"] == {EVENTS: pytest.approx((14 + 7 + 21) / 7)}


def test_of_too_many_runs_the_newest_are_read_and_give_the_same_rate(read: dict[str, Any]) -> None:
    requests = Counter(read["limited"]["paths"])
    assert requests["/dags/~/dagRuns/list"] == 2 + 1
    assert read["limited"]["reads"][EVENTS] == pytest.approx(6.0, rel=0.25)


def test_the_number_of_requests_follows_the_pages_of_assets_and_dags_and_not_the_tables(read: dict[str, Any]) -> None:
    assets, dags = 4 + TABLES, 8 + TABLES
    pages = {"/assets": -(-assets // PAGE_LIMIT), "/assets/events": 1}
    pages |= {"/dags": -(-dags // PAGE_LIMIT), "/dags/~/dagRuns/list": 2}
    assert Counter(read["idle"]["paths"]) == pages
    assert Counter(read["due"]["paths"]) == pages | dict.fromkeys(
        (f"/dags/{dag_id}/tasks" for dag_id in ("compact", "ingest", "via_alias")), 1
    )


def test_where_the_tasks_of_a_dag_are_beyond_the_limit_the_dag_counts_as_a_writer(read: dict[str, Any]) -> None:
    assert [path for path in read["limited"]["paths"] if path.endswith("/tasks")] == ["/dags/compact/tasks"]
    assert producers(read["limited"]) == ["ingest"]


def test_one_table_takes_few_requests_however_many_assets_and_dags_there_are(read: dict[str, Any]) -> None:
    whole, one = read["due"], read["one_table"]
    assert one["producers"] == {EVENTS: whole["producers"][EVENTS]}
    assert one["reads"] == whole["reads"]
    writers = ["/dags/ingest", "/dags/compact", "/dags/weekly", "/dags/ingest/tasks", "/dags/compact/tasks"]
    assert Counter(one["paths"]) == {"/assets": 1, "/assets/events": 1, "/dags/~/dagRuns/list": 2, **dict.fromkeys(writers, 1)}
