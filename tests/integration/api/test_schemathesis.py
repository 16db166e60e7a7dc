"""The running app against its own OpenAPI document: whatever is sent, right or wrong, the answer is one that the document names.

Every check of Schemathesis is on but one: that what fits the schema is accepted. What an option may be, that a predicate needs an
action that it can narrow, and when a cron expression is one, no schema tells, and neither which cursor a list gave. The
cases are not the same in each run: what Hypothesis draws depends on what else the process has imported.

Schemathesis takes a second of CPU to import, so the functions that use it import it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from api_process import TOKEN
from effort import rounds
from hypothesis import HealthCheck, Phase, assume, given, settings
from interim_world import handed_on, holder
from made_images import ImageMaker
from planned_removals import plan_removal
from published_builds import publish_build

from airflow_snowpack.builds.registry.runs import BuildRegistry
from airflow_snowpack.builds.storage import Storage
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.interim.registry import InterimRegistry
from airflow_snowpack.preservation import Preservation

if TYPE_CHECKING:
    from fastapi import FastAPI
    from schemathesis import APIOperation, Case

pytestmark = pytest.mark.both_in_soak

EXAMPLES = rounds(2, soak=40)
"""Requests per operation, mode and source of path parameters, where so many differ."""
BEYOND_SCHEMAS = {
    "POST /tables/{database}/{table}/maintenance",
    "POST /schedules",
    "PUT /drain",  # a reason may hold no NUL
    "PUT /schedules/{name}",
    "POST /runs",
    "PUT /runs/{run}",
    "POST /runs/{run}/run",  # a conf may hold no NUL, and no key of Snowpack's own
    "POST /events",
    "GET /operations",  # `after` is what a page gave
    "GET /tables",
    "POST /builds/{dataset}/cleanup",  # an age is a duration
    "POST /builds/{dataset}/rollback",  # what is gone back to may hold no NUL
}
SCHEDULE = {"name": "nightly", "dag_id": "maintain", "trigger": {"every": "4h"}}
REGISTERED = {"name": "features", "dag_id": "make_features", "cron": "0 8 * * *"}
REAL_TABLE = {"database": "analytics", "table": "page_views"}


@pytest.fixture
def operations(api: httpx.Client) -> list[APIOperation[Any, Any, Any, Any]]:
    """Every operation of the document that the running app gives."""
    import schemathesis

    logging.getLogger("httpx").setLevel(logging.WARNING)
    document = schemathesis.openapi.from_dict(api.get("/openapi.json").json())
    document.config.update(base_url=str(api.base_url))
    return [found.ok() for found in document.get_all_operations()]


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_answer_is_one_that_the_document_does_not_name(
    operations: list[APIOperation[Any, Any, Any, Any]],
    api: httpx.Client,
    app: FastAPI,
    tmp_path: Path,
    mode: str,
    record_property: Callable[[str, object], None],
) -> None:
    from schemathesis import GenerationMode

    sent = 0
    job = api.post("/tables/analytics/page_views/maintenance", json={"actions": ["rewrite_data_files"]}).json()["job_id"]
    api.post("/schedules", json=SCHEDULE)
    api.post("/runs", json=REGISTERED)
    registry, storage = BuildRegistry(app.state.services.get().jobs.store), Storage(tmp_path / "flights")
    built = publish_build(registry, storage, "flights", as_of=datetime(2026, 4, 25, tzinfo=UTC), rows={"N14228": 1})
    interim = handed_on(InterimRegistry(registry.store), holder("clean"), rows=1, preservation=Preservation.FULL)
    image = ImageMaker(registry.store).request()
    names = {"name": SCHEDULE["name"], "run": REGISTERED["name"], "table_id": interim.table_id, "key": image}
    removal = plan_removal(registry.store, TableName("lake", "analytics", "leftovers")).removal_id
    known = {**REAL_TABLE, **names, "job_id": job, "dataset": "flights", "run_id": built.run_id, "removal_id": removal}
    assert len(operations) == 74
    for operation in operations:
        named = {name: known[name] for name in _path_parameters(operation)}
        if mode == "NEGATIVE" and not {"parameters", "requestBody"} & operation.definition.raw.keys():
            continue  # there is nothing in it that could be wrong
        sent += _check(operation.as_strategy(GenerationMode[mode]))
        if named:
            sent += _check(operation.as_strategy(GenerationMode[mode], path_parameters=named))
    record_property("steps", sent)
    assert sent >= rounds(100, soak=2_500), "in each mode"


def _check(cases: Any) -> int:
    """Send these cases, and return how many requests that were."""
    import schemathesis.specs.openapi.checks as openapi_checks

    sent = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: Case) -> None:
        nonlocal sent
        assume(case.query.keys() <= _sent_parameters(case))  # an empty list, or one of nothing, is not sent at all
        beyond_schemas = case.operation.label in BEYOND_SCHEMAS or "cursor" in case.query
        excluded = [openapi_checks.positive_data_acceptance] if beyond_schemas else []
        sent += 1
        case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, excluded_checks=excluded)

    check()
    return sent


def _sent_parameters(case: Case) -> set[str]:
    """Return the names of the query parameters that are in the address of the request."""
    import requests

    address = requests.Request("GET", "http://snowpack.test/", params=case.query).prepare().url
    return {name for name, _ in parse_qsl(urlsplit(address or "").query, keep_blank_values=True)}


def _path_parameters(operation: APIOperation[Any, Any, Any, Any]) -> list[str]:
    return [parameter.name for parameter in operation.path_parameters]
