"""An answer of Airflow that has another shape than its own fails neither a plan nor the report of a job that has ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from http_stand_in import StandIn, StandInHandler

from airflow_snowpack.hooks.table_dags import NO_ANSWER, read_dags_of_tables
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job, JobStatus
from airflow_snowpack.settings import Settings


class _Handler(StandInHandler):
    def answer(self) -> None:
        self.send_json(200, self.service.body)


class Malformed(StandIn):
    """Answers everything with one body."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.body: Any = {}


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Malformed]:
    with Malformed() as service:
        host, _, port = service.address.partition(":")
        conn = {"conn_type": "http", "host": host, "port": int(port), "extra": {"token": "t"}}
        monkeypatch.setenv("AIRFLOW_CONN_MALFORMED", json.dumps(conn))
        yield service


@pytest.mark.parametrize(
    "body",
    [{}, [], "text", 7, {"assets": [{"nope": 1}], "total_entries": 1}, {"assets": [None], "dags": [3], "dag_runs": [{}]}],
)
def test_an_answer_of_another_shape_leaves_the_dags_of_tables_unknown(airflow: Malformed, body: Any) -> None:
    airflow.body = body
    settings = replace(Settings.load(), airflow_conn_id="malformed")
    assert read_dags_of_tables(settings).unknown == NO_ANSWER


def test_an_error_while_failed_writers_are_read_fails_no_report_of_a_completed_job() -> None:
    from airflow_snowpack.operators import MaintainTableOperator

    now, table = datetime(2026, 11, 21, 12, tzinfo=UTC), TableName.parse("db.t", catalog="lake")
    done = ActionResult("rewrite_data_files", ActionOutcome.SUCCEEDED, "Compacted 9 files into 1", 3.0)
    fields = {"started_at": now, "completed_at": now, "results": (done,)}
    job = Job("f" * 32, table, ("rewrite_data_files",), {}, False, JobStatus.COMPLETED, now, **fields)  # type: ignore[arg-type]
    task = MaintainTableOperator(task_id="maintain", table="db.t", store_conn_id="nowhere")  # and no context

    assert task._failed_writers({}, job) == []  # type: ignore[typeddict-item]
