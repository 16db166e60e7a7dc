"""The OpenAPI document, and that what is sent has the shapes that it shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from api_contract import STORED, contract_of

from airflow_snowpack.api import Services, TokenAuth, build_app
from airflow_snowpack.api.openapi import document_of
from airflow_snowpack.api.parameters import read_moment
from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import ActionOutcome, ActionResult, HistoryEntry, Job, JobStatus, QueuePlace, QueueState
from airflow_snowpack.store import AuditEntry
from airflow_snowpack.wire.job import JobShape, PlaceShape, TimelineShape
from airflow_snowpack.wire.operations import QueueShape
from airflow_snowpack.wire.shape import seconds_since

NOW = datetime(2026, 4, 25, 14, 35, tzinfo=UTC)
DONE = ActionResult(
    "rewrite_data_files", ActionOutcome.PARTIAL, "Compacted 87 files into 12", 142.3, "one group", {"a": float("inf")}
)
JOB = Job("a" * 32, TableName("lake", "db", "t"), ("rewrite_data_files",), {}, False, JobStatus.FAILED, NOW, results=(DONE,))


def not_open() -> Services:
    raise AssertionError("nothing is opened for the document")


@pytest.fixture
def document() -> dict[str, Any]:
    return document_of(build_app(not_open, TokenAuth("x")), "/snowpack")


def test_every_operation_names_its_problems_and_its_id(document: dict[str, Any]) -> None:
    ids = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            ids.add(operation["operationId"])
            assert operation["summary"]
            expected = (
                {"500"} if path == "/healthz" else {"500", "503"} if path == "/readyz" else {"401", "403", "422", "500", "503"}
            )
            assert expected <= operation["responses"].keys()
            for code, response in operation["responses"].items():
                if int(code) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]
    assert len(ids) == sum(len(operations) for operations in document["paths"].values()) == 74


def test_names_that_clients_depend_on_change_only_on_purpose(document: dict[str, Any]) -> None:
    stored = json.loads(STORED.read_text())
    assert contract_of(document) == stored, "if this is intended, run: python tests/support/api_contract.py"


def test_only_the_probes_need_no_token_and_only_when_they_are_open(document: dict[str, Any]) -> None:
    unguarded = [
        path for path, operations in document["paths"].items() for each in operations.values() if each.get("security") == []
    ]
    assert (sorted(unguarded), document["security"]) == (["/healthz", "/readyz"], [{"token": []}])
    auth = TokenAuth("x")
    auth.probes_are_open = False
    closed = document_of(build_app(not_open, auth), "")
    assert "security" not in closed["paths"]["/healthz"]["get"]
    assert "401" in closed["paths"]["/healthz"]["get"]["responses"]


def test_the_document_names_the_place_where_the_app_is_mounted(document: dict[str, Any]) -> None:
    assert document["servers"] == [{"url": "/snowpack"}]


def test_a_submission_documents_its_headers_and_the_options_of_each_action(document: dict[str, Any]) -> None:
    submit = document["paths"]["/tables/{database}/{table}/maintenance"]["post"]
    assert set(submit["responses"]["202"]["headers"]) == {"Location", "Retry-After", "Idempotency-Replayed"}
    assert "Retry-After" in submit["responses"]["409"]["headers"]
    options = document["components"]["schemas"]["SubmitBody"]["properties"]["options"]["properties"]
    assert options["expire_snapshots"]["properties"]["retain_last"] == {"default": 3}


def timeline(place: QueuePlace | None, history: list[HistoryEntry], audit: list[AuditEntry]) -> dict[str, Any]:
    return TimelineShape.encode(JOB, job=JOB, queue=place, history=history, audit=audit, explanation="It failed.")


def test_bodies_have_the_shapes_of_the_document() -> None:
    place = QueuePlace("a" * 32, NOW, NOW + timedelta(minutes=30), NOW, "worker-1", attempt=1)
    audit = [AuditEntry(1, NOW, "vera", "api", "submit", "a" * 32, {})]
    history = [HistoryEntry("a" * 32, NOW, "claimed", "b", {})]
    JobShape.model_validate(JobShape.encode(JOB), strict=False)
    PlaceShape.model_validate(PlaceShape.encode(place), strict=False)
    queue = QueueState(1, NOW, 0, 2)
    QueueShape.model_validate(QueueShape.encode(queue, oldest_seconds=seconds_since(queue.oldest, NOW)), strict=False)
    TimelineShape.model_validate(timeline(place, history, audit), strict=False)


def test_a_number_that_json_does_not_have_is_left_out() -> None:
    assert timeline(None, [], [])["results"][0]["metrics"] == {}


def test_a_moment_is_read_with_its_offset_and_refused_without() -> None:
    assert read_moment("since", "2026-04-25T16:35:00+02:00") == NOW
    assert read_moment("since", "2026-04-25T14:35Z") == NOW
    assert read_moment("since", "2026-04-25T16:35:00 02:00") == NOW, "a plus sign that nobody encoded"
    for wrong in ("2026-04-25T14:35:00", "2026-04-25", "1777127700", "2026-02-30T00:00:00Z", "0001-01-01T00:00:00+01:00", ""):
        with pytest.raises(InvalidRequest):
            read_moment("since", wrong)
