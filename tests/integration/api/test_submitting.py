"""Ask for maintenance over HTTP, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from airflow_snowpack.iceberg import CatalogConfig

if TYPE_CHECKING:
    pass

SUBMIT = "/tables/analytics/page_views/maintenance"
ONE_ACTION = {"actions": ["expire_snapshots"]}


def test_a_job_is_accepted_with_the_specifications_body_and_its_location_leads_to_it(api: httpx.Client) -> None:
    answer = api.post(SUBMIT, json={"actions": ["expire_snapshots", "rewrite_data_files"]})
    assert answer.status_code == 202
    job = answer.json()
    expected = {
        "job_id": job["job_id"],
        "database": "analytics",
        "table_name": "page_views",
        "actions": ["rewrite_data_files", "expire_snapshots"],
        "dry_run": False,
        "status": "pending",
        "submitted_at": job["submitted_at"],
        "started_at": None,
        "completed_at": None,
        "results": None,
        "error": None,
        "plan": None,  # ours, after what the specification names
    }
    assert [*job.items()] == [*expected.items()]
    assert len(job["job_id"]) == 32
    assert job["submitted_at"].endswith("+00:00")
    assert len(job["submitted_at"]) == len("2026-04-25T14:35:00.000000+00:00")
    assert answer.headers["location"] == f"/jobs/{job['job_id']}"
    found = api.get(answer.headers["location"])
    assert (found.status_code, found.json()) == (200, job)
    assert answer.headers["retry-after"] == found.headers["retry-after"] == "30"


def test_a_job_has_the_priority_of_its_request(api: httpx.Client) -> None:
    accepted = api.post(SUBMIT, json={**ONE_ACTION, "priority": 12}, headers={"Idempotency-Key": "k"})
    timeline = api.get(f"{accepted.headers['location']}/timeline").json()
    assert (timeline["priority"], timeline["explanation"][:41]) == (12, "Waiting with priority 12 for a worker: ne")

    used = api.post(SUBMIT, json={**ONE_ACTION, "priority": 11}, headers={"Idempotency-Key": "k"})
    assert (used.status_code, used.json()["error"]) == (422, "key_used_before")
    refused = api.post(SUBMIT, json={**ONE_ACTION, "priority": 1001})
    assert (refused.status_code, "priority" in refused.text) == (422, True)


def test_a_dry_run_is_done_at_once_and_locks_nothing(api: httpx.Client) -> None:
    answer = api.post(
        SUBMIT,
        json={"actions": ["rewrite_data_files"], "dry_run": True, "options": {"rewrite_data_files": {"min_input_files": 2}}},
    )
    job = answer.json()
    assert (answer.status_code, job["status"], job["dry_run"]) == (202, "completed", True)
    assert "retry-after" not in answer.headers
    (result,) = job["results"]
    assert list(result) == ["action", "success", "message", "error", "elapsed_seconds", "gb_hours"]  # the last one is ours
    assert result["message"].startswith("Would compact 3 files into 1")
    assert api.get("/locks").json() == []
    assert api.get("/queue").json()["depth"] == 0
    assert "retry-after" not in api.get(answer.headers["location"]).headers


def test_a_request_with_auto_runs_the_plan_of_the_table(api: httpx.Client) -> None:
    plan = api.get(SUBMIT.replace("/maintenance", "/plan"))
    assert (plan.status_code, plan.json()["table_name"]) == (200, "page_views")
    first = plan.json()["decisions"][0]
    assert (first["action"], first["verdict"], first["cause"]) == ("rewrite_data_files", "skip", "healthy")

    dry = api.post(SUBMIT, json={"actions": ["auto"], "dry_run": True}, headers={"Idempotency-Key": "d"})
    again = api.post(SUBMIT, json={"actions": ["auto"], "dry_run": True}, headers={"Idempotency-Key": "d"})
    assert dry.json()["results"][0]["message"] == f"Skipped by the plan: {first['evidence']}"
    assert again.json()["job_id"] == dry.json()["job_id"]
    submitted = api.post(SUBMIT, json={"actions": ["auto"]})
    assert (submitted.status_code, submitted.json()["status"]) == (202, "pending")
    refused = api.post(SUBMIT, json={"actions": ["auto"], "where": "month = 3"})
    assert (refused.status_code, refused.json()["error"]) == (422, "plan_takes_no_options")


@contextmanager
def compaction(folder: Path, **properties: str) -> Iterator[None]:
    """Give the table these properties of its compaction, and a plan that runs it for two small files."""
    table = CatalogConfig.embedded(folder).load().load_table("analytics.page_views")
    wanted = {f"snowpack.rewrite_data_files.{name}": value for name, value in properties.items()}
    wanted["snowpack.rewrite_data_files.thresholds.small_files"] = "2"
    with table.transaction() as transaction:
        transaction.set_properties(wanted)
    try:
        yield
    finally:
        with table.transaction() as transaction:
            transaction.remove_properties(*wanted)


def test_a_plan_with_a_predicate_that_the_table_does_not_allow_is_refused(api: httpx.Client, lake_folder: Path) -> None:
    with compaction(lake_folder, **{"options.min_input_files": "2", "where": "nope = 1"}):
        refused = api.post(SUBMIT, json={"actions": ["auto"]})
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_predicate")
    assert api.get("/locks").json() == []


@pytest.mark.parametrize("variable", ["env:AIRFLOW_CONN_CRM", "system:user.home"])
def test_a_table_property_with_a_variable_disables_its_action_and_is_not_shown_to_spark(
    api: httpx.Client, lake_folder: Path, variable: str
) -> None:
    with compaction(lake_folder, where=f"length(country) = '${{{variable}}}'"):
        plan = api.get(SUBMIT.replace("/maintenance", "/plan")).json()
        dry = api.post(SUBMIT, json={"actions": ["auto"], "dry_run": True}).json()

    first = plan["decisions"][0]
    assert (first["action"], first["verdict"], first["cause"]) == ("rewrite_data_files", "skip", "disabled")
    assert first["evidence"] == "disabled by table property snowpack.rewrite_data_files.where"
    assert [result["action"] for result in dry["results"] if result["message"].startswith("Would")] == []


def test_a_request_says_that_actions_run_in_any_case(api: httpx.Client) -> None:
    own = {"expire_snapshots": {"only_if_needed": True}}
    body = {"actions": ["rewrite_manifests", "expire_snapshots"], "only_if_needed": False, "options": own}
    job = api.post(SUBMIT, json=body).json()

    timeline = api.get(f"/jobs/{job['job_id']}/timeline").json()
    assert timeline["options"] == {"rewrite_manifests": {"only_if_needed": False}, **own}


STEALING = "length(country) = '${env:AIRFLOW_CONN_CRM}'"
REFUSALS: list[tuple[Any, int, str]] = [
    ({"actions": []}, 400, "no_actions"),
    ({"actions": ["vacuum"]}, 400, "unknown_action"),
    ({"actions": ["expire_snapshots"], "options": {"vacuum": {}}}, 400, "unknown_action"),
    ({"actions": ["expire_snapshots"], "options": {"expire_snapshots": {"retain_last": 0}}}, 400, "invalid_option"),
    ({"actions": ["expire_snapshots"], "options": {"expire_snapshots": {"keep": 1}}}, 400, "invalid_option"),
    ({"actions": ["expire_snapshots"], "where": "id = 1"}, 400, "invalid_option"),
    ({"actions": ["rewrite_data_files"], "where": "a\x00"}, 400, "invalid_option"),
    ({"actions": ["rewrite_data_files"], "where": "nope = 1"}, 400, "invalid_predicate"),
    ({"actions": ["rewrite_data_files"], "where": STEALING}, 400, "invalid_option"),
    ({"actions": ["rewrite_data_files"], "where": STEALING, "dry_run": True}, 400, "invalid_option"),
    ({"actions": ["rewrite_data_files"], "options": {"rewrite_data_files": {"where": STEALING}}}, 400, "invalid_option"),
    ({"actions": ["rewrite_data_files"], "where": "length(repeat('x', 2000000000)) > 5"}, 400, "invalid_predicate"),
    ({"actions": ["rewrite_data_files"], "where": "(" * 3_000 + "true" + ")" * 3_000, "dry_run": True}, 400, "invalid_predicate"),
    ({"actions": ["rewrite_data_files"], "where": "nope = 1", "dry_run": True}, 400, "invalid_predicate"),
    ({"actions": ["rewrite_data_files"], "options": {"rewrite_data_files": {"strategy": "sort"}}}, 400, "invalid_option"),
    ({}, 422, "invalid_request"),
    ({"actions": "expire_snapshots"}, 422, "invalid_request"),
    ({"actions": ["expire_snapshots"], "dry_run": "yes"}, 422, "invalid_request"),
    ({"actions": ["expire_snapshots"], "force": True}, 422, "invalid_request"),
    ([], 422, "invalid_request"),
]


def test_a_request_that_cannot_be_used_is_refused_with_its_reason(api: httpx.Client) -> None:
    for body, status, error in REFUSALS:
        answer = api.post(SUBMIT, json=body)
        problem = answer.json()
        assert (answer.status_code, problem["error"], problem["status"]) == (status, error, status)
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["type"] == f"urn:snowpack:problem:{error}"
        assert problem["title"]
        assert problem["detail"].endswith(".")
        assert "rewrite_data_files" in problem.get("allowed", ()) or error not in ("no_actions", "unknown_action")
    assert api.get("/jobs").json() == []


def test_a_body_that_is_no_json_or_beyond_all_reason_is_refused(api: httpx.Client) -> None:
    for sent in (b"", b"{", b"\xff", b'"\\ud800"', b"[" * 5000, b" " * 300_000):
        answer = api.post(SUBMIT, content=sent, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid_request")


NAMES = ("a; DROP TABLE x", "../x", "..", "a" * 300, "größe", "表", "\x00", "a\nb", "a b", "'", "%2F", "1a", "-a", "")


def test_a_bad_name_is_refused_and_nothing_is_stored(api: httpx.Client) -> None:
    for name in NAMES:
        encoded = quote(name, safe="") if name != ".." else "%2E%2E"
        for path in (f"/tables/{encoded}/page_views", f"/tables/analytics/{encoded}"):
            answer = api.post(f"{path}/maintenance", json=ONE_ACTION)
            assert (name, answer.status_code, answer.json()["error"]) == (name, 422, "invalid_table_name")
            assert api.get(path).status_code == 422
            assert api.delete(path.replace("/tables/", "/locks/"), params={"holder": "x"}).status_code == 422
    assert api.get("/jobs").json() == []
    assert api.get("/locks").json() == []


def test_a_table_that_the_catalog_does_not_have_is_not_found(api: httpx.Client) -> None:
    answer = api.post("/tables/analytics/nothing/maintenance", json=ONE_ACTION)
    assert (answer.status_code, answer.json()["error"]) == (404, "table_not_found")
    assert "analytics.page_views" in answer.json()["detail"]
    assert api.get("/jobs").json() == []


def test_a_table_with_a_job_is_refused_and_its_holder_is_named(api: httpx.Client) -> None:
    first = api.post(SUBMIT, json=ONE_ACTION).json()
    answer = api.post(SUBMIT, json=ONE_ACTION)
    assert (answer.status_code, answer.json()["error"]) == (409, "table_locked")
    assert answer.json()["holder"] == first["job_id"]
    assert answer.headers["retry-after"] == "30"


def test_of_twenty_at_once_for_one_table_one_is_accepted(api: httpx.Client) -> None:
    api.get("/queue")
    with ThreadPoolExecutor(20) as pool:
        codes = [*pool.map(lambda _: api.post(SUBMIT, json=ONE_ACTION).status_code, range(20))]
    assert sorted(codes) == [202] + [409] * 19
    assert len(api.get("/jobs").json()) == len(api.get("/locks").json()) == api.get("/queue").json()["depth"] == 1


def test_drain_mode_refuses_before_anything_else_is_looked_at(api: httpx.Client) -> None:
    on = api.put("/drain", json={"on": True, "reason": "the store moves"})
    assert (on.status_code, on.json()["on"], on.json()["by"], on.json()["reason"]) == (200, True, "token", "the store moves")
    for path, body in [
        (SUBMIT, ONE_ACTION),
        (SUBMIT, {"actions": []}),
        (SUBMIT, {"nonsense": 1}),
        ("/tables/a;b/c/maintenance", ONE_ACTION),
        ("/tables/analytics/nothing/maintenance", ONE_ACTION),
        (SUBMIT, ONE_ACTION | {"dry_run": True}),
    ]:
        answer = api.post(path, json=body)
        assert (answer.status_code, answer.json()["error"], answer.json()["reason"]) == (503, "drain_mode", "the store moves")
        assert answer.headers["retry-after"] == "30"
    assert api.put("/drain", json={"on": False}).json()["on"] is False
    assert api.post(SUBMIT, json=ONE_ACTION).status_code == 202


def test_the_same_key_and_request_is_the_same_job_and_a_refused_request_leaves_its_key_free(api: httpx.Client) -> None:
    key = {"Idempotency-Key": "order-66"}
    first = api.post(SUBMIT, json=ONE_ACTION, headers=key)
    again = api.post(SUBMIT, json=ONE_ACTION, headers=key)
    assert (first.status_code, again.status_code, again.json()) == (202, 202, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    other = api.post(SUBMIT, json={"actions": ["rewrite_data_files"]}, headers=key)
    assert (other.status_code, other.json()["error"], other.json()["job_id"]) == (422, "key_used_before", first.json()["job_id"])

    key = {"Idempotency-Key": "order-67"}
    assert api.post(SUBMIT, json=ONE_ACTION, headers=key).status_code == 409
    api.post(f"/jobs/{first.json()['job_id']}/cancel")
    accepted = api.post(SUBMIT, json=ONE_ACTION, headers=key)
    assert (accepted.status_code, accepted.headers.get("idempotency-replayed")) == (202, None)


def test_a_key_that_cannot_be_one_is_refused(api: httpx.Client) -> None:
    for key in ("", "k" * 256, "ключ".encode()):
        answer = api.post(SUBMIT, json=ONE_ACTION, headers={"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid_key")
