"""What every route has in common, served alone: who may come in, the headers, the probes, the metrics, and how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from api_process import TOKEN, build
from bounded import PATIENCE_S, started
from prometheus_client.parser import text_string_to_metric_families

from airflow_snowpack.api.middleware import CONTENT_POLICY
from examples.cluster.process import free_port

if TYPE_CHECKING:
    from fastapi import FastAPI

ONE_ACTION = {"actions": ["expire_snapshots"]}
PROGRAM = "tests/support/api_process.py"


def every_route(app: FastAPI, name: str = "x") -> list[tuple[str, str]]:
    """Method and path of each route of the API, with names filled in; the pages have tests of their own."""
    return [
        (method, re.sub(r"\{[^}]*\}", name, route.path))  # type: ignore[attr-defined]  # all of them have paths
        for route in app.routes
        for method in getattr(route, "methods", ())
        if not route.path.startswith("/ui")  # type: ignore[attr-defined]
    ]


def test_without_the_token_only_the_probes_answer(api: httpx.Client, app: FastAPI) -> None:
    routes = [*every_route(app), *every_route(app, name="%20")]
    assert len(routes) > 48
    del api.headers["Authorization"]
    for method, path in routes:
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}):
            answer = api.request(method, path, headers=given)
            if path in ("/healthz", "/readyz"):
                assert answer.status_code in (200, 503)
            else:
                assert (method, path, answer.status_code) == (method, path, 401)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["error"] == "not_authenticated"


def test_every_answer_has_the_content_policy_and_is_not_cached(api: httpx.Client) -> None:
    for answer in (api.get("/jobs"), api.get("/jobs/nothing"), api.get("/nothing"), api.put("/jobs"), api.get("/healthz")):
        assert answer.headers["content-security-policy"] == CONTENT_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_what_is_no_route_or_method_is_a_problem_too(api: httpx.Client) -> None:
    nothing, wrong = api.get("/nothing"), api.put("/jobs")
    assert (nothing.status_code, nothing.json()["error"]) == (404, "no_such_route")
    assert (wrong.status_code, wrong.json()["error"], wrong.headers["allow"]) == (405, "method_not_allowed", "GET")
    assert {answer.headers["content-type"] for answer in (nothing, wrong)} == {"application/problem+json"}


def test_metrics_are_read_from_the_store_at_each_scrape(api: httpx.Client) -> None:
    def scraped() -> dict[str, float]:
        answer = api.get("/metrics")
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
        return {sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value for sample in samples}

    api.post("/tables/refresh")
    before = scraped()
    assert (before["snowpack_queue_depth"], before["snowpack_jobs pending"], before["snowpack_drain_mode"]) == (0, 0, 0)
    assert before["snowpack_store_rows jobs"] >= 0
    assert before["snowpack_store_bytes"] > 0
    assert (before["snowpack_inventory_tables"], before["snowpack_inventory_failing"]) == (42, 0)
    api.post("/tables/plain/t00/maintenance", json=ONE_ACTION)
    api.put("/drain", json={"on": True})
    submits = "snowpack_http_requests_total 202 POST /tables/{database}/{table}/maintenance"
    scrapes = "snowpack_http_request_seconds_count 200 GET /metrics"
    after = scraped()
    assert (after["snowpack_queue_depth"], after["snowpack_queue_held"], after["snowpack_drain_mode"]) == (0, 1, 1)
    assert after["snowpack_jobs pending"] == 1
    assert (after["snowpack_table_locks"], after["snowpack_jobs_claimed"], after["snowpack_queue_delayed"]) == (1, 0, 0)
    assert (after[submits], after[scrapes]) == (before.get(submits, 0) + 1, before.get(scrapes, 0) + 1)


def test_a_process_is_ready_when_its_store_answers_and_its_tables_are_fresh(
    sqlite_url: str, lake_folder: Path, serve_app: Any
) -> None:
    api = serve_app(build(sqlite_url, lake_folder))
    give_up = time.monotonic() + PATIENCE_S
    while (answer := httpx.get(api.base_url.join("/readyz"), timeout=PATIENCE_S)).is_error and time.monotonic() < give_up:
        time.sleep(0.05)
    assert answer.json()["status"] == "ready"
    assert answer.json()["store"] == "The store answers."
    assert "s old" in answer.json()["tables"]
    assert httpx.get(api.base_url.join("/healthz"), timeout=PATIENCE_S).json() == {"status": "ok"}


def test_served_alone_it_imports_no_airflow_and_ends_on_a_signal_with_its_answers_given(
    sqlite_url: str, lake_folder: Path
) -> None:
    port = free_port()
    command = [sys.executable, PROGRAM, sqlite_url, str(lake_folder), str(port), "modules"]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {TOKEN}"},
            transport=httpx.HTTPTransport(retries=0),
            timeout=PATIENCE_S,
        ) as api:
            give_up = time.monotonic() + PATIENCE_S
            while time.monotonic() < give_up:
                try:
                    if api.get("/readyz").status_code == 200:
                        break
                except httpx.ConnectError:
                    time.sleep(0.05)
            assert api.post("/tables/plain/t00/maintenance", json=ONE_ACTION).status_code == 202
            assert api.get("/openapi.json").status_code == 200
            assert process.stdout is not None
            assert process.stdout.readline() == "airflow: []\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said
    assert "GET /jobs" not in said, "the access log is off"
    assert process.returncode in (0, -signal.SIGTERM)
