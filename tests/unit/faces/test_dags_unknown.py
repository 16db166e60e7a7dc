"""Maintenance goes on where Airflow's REST API is not there, and says that the DAGs of tables are unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count

import pytest
from http_stand_in import AnswersByPath

from airflow_snowpack.hooks.api_client import AirflowRest
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.hooks.table_dags import NO_ANSWER, NOT_CONFIGURED, TableDags, read_dags_of_tables
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, JobStatus
from airflow_snowpack.settings import Settings


@pytest.fixture
def answers() -> list[tuple[int, bytes]]:
    """What the server answers, one request after the other; the last answer repeats."""
    return [(200, b'{"assets": [], "total_entries": 0}')]


@pytest.fixture
def served(answers: list[tuple[int, bytes]], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server at the address of the installation's connection to Airflow."""

    with AnswersByPath(lambda _path, _query: answers.pop(0) if len(answers) > 1 else answers[0]) as service:
        _connect(monkeypatch, int(service.address.rpartition(":")[2]))
        yield


def _connect(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    connection = {"conn_type": "http", "host": "127.0.0.1", "port": port, "extra": {"token": "t"}}
    monkeypatch.setenv("AIRFLOW_CONN_OUR_AIRFLOW", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__AIRFLOW_CONN_ID", "our_airflow")


def test_without_a_connection_nothing_is_known() -> None:
    assert read_dags_of_tables(Settings.load()).unknown == NOT_CONFIGURED


@pytest.mark.usefixtures("served")
def test_an_airflow_without_assets_knows_of_no_dag_that_writes_or_reads() -> None:
    found = read_dags_of_tables(Settings.load())

    assert (found.unknown, found.producers, found.reads_per_day) == (None, {}, {})


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize(
    "answer",
    [
        (500, b"{}"),
        (403, b'{"detail": "not for you"}'),
        (200, b"<h1>Welcome to the proxy</h1>"),
        (200, b'{"assets": [{"uri": "iceberg://lake/db/t"}], "total_entries": 1}'),
        *((200, body) for body in (b"[]", b"{}", b'"text"', b"7")),
        (200, b'{"assets": [{"nope": 1}], "total_entries": 1}'),
        (200, b'{"assets": [null], "dags": [3], "dag_runs": [{}]}'),
    ],
)
def test_an_answer_that_is_not_airflows_is_logged_and_nothing_is_known(
    answers: list[tuple[int, bytes]], answer: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    answers[:] = [answer]

    assert read_dags_of_tables(Settings.load()).unknown == NO_ANSWER
    assert "dags_of_tables_unknown" in caplog.text


@pytest.mark.parametrize("conn", ["closed port", "missing connection"])
def test_an_airflow_that_cannot_be_reached_fails_no_pass(
    conn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _connect(monkeypatch, 1)
    if conn == "missing connection":
        monkeypatch.setenv("AIRFLOW__SNOWPACK__AIRFLOW_CONN_ID", "not_there")

    assert read_dags_of_tables(Settings.load()).unknown == NO_ANSWER
    assert "dags_of_tables_unknown" in caplog.text


@pytest.mark.usefixtures("served")
def test_an_airflow_that_answers_slowly_is_given_up_after_two_minutes(answers: list[tuple[int, bytes]]) -> None:
    page = [{"id": 1, "uri": "iceberg://lake/db/t", "producing_tasks": [], "scheduled_dags": [], "consuming_tasks": []}] * 100
    answers[:] = [(200, json.dumps({"assets": page, "total_entries": 10_000}).encode())]
    seconds = count(step=14)

    with AirflowRest.from_connection("our_airflow") as rest, pytest.raises(AirflowUnreachable, match="within 2 min"):
        TableDags(rest, clock=lambda: next(seconds)).read(datetime.now(UTC))

    assert next(seconds) <= 14 * 11


def test_an_error_while_failed_writers_are_read_fails_no_report_of_a_completed_job() -> None:
    from airflow_snowpack.operators import MaintainTableOperator

    now, table = datetime(2026, 11, 21, 12, tzinfo=UTC), TableName.parse("db.t", catalog="lake")
    done = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 9 files into 1", 3.0)
    fields = {"started_at": now, "completed_at": now, "results": (done,)}
    job = Job("f" * 32, table, ("rewrite_data_files",), {}, False, JobStatus.COMPLETED, now, **fields)  # type: ignore[arg-type]
    task = MaintainTableOperator(task_id="maintain", table="db.t", store_conn_id="nowhere")  # and no context

    assert task._failed_writers({}, job) == []  # type: ignore[typeddict-item]
