"""The REST API and the pages of removals, through the app itself on a real store."""

from __future__ import annotations

import csv
import io
import json
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from app_client import AppClient, ok, refused
from page_reading import words
from pages_world import World
from planned_removals import STRANGE, plan_removal, quarantine_removal

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.maintenance.removals.model import Removal
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.removal import RemovalItemsShape, RemovalsShape

pytestmark = pytest.mark.one_database
ORDERS = TableName("lake", "db", "orders")


@pytest.fixture
def planned(world: World) -> Removal:
    return plan_removal(world.store, ORDERS)


def test_removals_are_listed_with_their_items_page_by_page(api: AppClient, planned: Removal, world: World) -> None:
    other = plan_removal(world.store, TableName("lake", "db", "other"), files=1)
    first = ok(api("GET", "/removals?limit=1"))
    rest = ok(api("GET", f"/removals?cursor={first['next']}"))
    listed = [each["removal_id"] for page in (first, rest) for each in page["removals"]]
    assert sorted(listed) == sorted([other.removal_id, planned.removal_id])
    RemovalsShape.model_validate_json(json.dumps(first))
    assert ok(api("GET", "/removals?state=approved"))["removals"] == []
    assert ok(api("GET", f"/removals/{planned.removal_id}"))["items"] == 3

    path = f"/removals/{planned.removal_id}/items"
    page = ok(api("GET", f"{path}?limit=2"))
    RemovalItemsShape.model_validate_json(json.dumps(page))
    assert (page["items"][0]["name"], page["next"]) == (STRANGE, 2)
    assert ok(api("GET", f"{path}?cursor=2"))["next"] is None
    downloaded = api("GET", f"{path}.csv")
    assert downloaded.headers["content-disposition"] == f'attachment; filename="removal-{planned.removal_id}.csv"'
    rows = list(csv.reader(io.StringIO(downloaded.text, newline="")))
    assert [row[0] for row in rows] == ["name", STRANGE, "s3://lake/orders/data/1.parquet", "s3://lake/orders/data/2.parquet"]


def test_an_approved_removal_is_run_by_a_job_and_each_change_is_audited(api: AppClient, planned: Removal, world: World) -> None:
    path = f"/removals/{planned.removal_id}"
    assert "awaits approval" in refused(api("POST", f"{path}/run"), 409, "removal_not_possible")["detail"]
    approved = ok(api("POST", f"{path}/approve?comment=fine"))
    assert (approved["state"], approved["comment"]) == ("approved", "fine")
    assert ok(api("POST", f"{path}/approve"))["comment"] == "fine", "the same user may repeat it"

    answer = api("POST", f"{path}/run")
    job = ok(answer, 202)
    assert answer.headers["location"] == f"/jobs/{job['job_id']}"
    assert Jobs(world.store).get(job["job_id"]).options == {"remove_orphan_files": {"removal_id": planned.removal_id}}
    refused(api("POST", f"{path}/run"), 409, "table_locked")
    assert [entry.change for entry in AuditTrail(world.store).of(f"removal:{planned.removal_id}")] == ["approve_removal"]
    assert f'href="/ui/removals/{planned.removal_id}">removal:' in api("GET", "/ui/audit").text
    assert ok(api("POST", f"{path}/reject"))["state"] == "rejected"
    assert "was rejected" in refused(api("POST", f"{path}/approve"), 409, "removal_not_possible")["detail"]


@pytest.mark.usefixtures("planned")
def test_a_missing_removal_is_a_404(api: AppClient) -> None:
    for removal_id in ["0" * 32, "0" * 31, "A" * 32, "no%00id", ""]:
        for path in (f"/removals/{removal_id}", f"/removals/{removal_id}/items", f"/removals/{removal_id}/items.csv"):
            refused(api("GET", path), 404, "removal_not_found")
        refused(api("POST", f"/removals/{removal_id}/approve"), 404, "removal_not_found")


def test_the_pages_show_what_would_be_deleted_and_what_a_person_may_do(api: AppClient, world: World) -> None:
    removal = plan_removal(world.store, ORDERS, files=450)
    listed = words(api("GET", "/ui/removals", accept="text/html"))
    assert f"{removal.removal_id[:12]} db. orders awaiting approval 450 orphan files, 450.0 KiB" in listed

    short = api("GET", f"/ui/removals/{removal.removal_id[:12]}", accept="text/html")
    assert short.headers["location"] == f"/ui/removals/{removal.removal_id}"
    page = api("GET", f"/ui/removals/{removal.removal_id}", accept="text/html")
    assert f'data-url="/removals/{removal.removal_id}/approve"' in page.text
    assert 'href="?cursor=200"' in page.text
    last = api("GET", f"/ui/removals/{removal.removal_id}?cursor=400", accept="text/html").text
    assert (last.count("data-key="), 'href="?cursor=200"' in last, 'rel="next"' in last) == (50, True, False)

    ok(api("POST", f"/removals/{removal.removal_id}/approve"))
    page = api("GET", f"/ui/removals/{removal.removal_id}", accept="text/html")
    assert f'data-url="/removals/{removal.removal_id}/run"' in page.text
    assert "approved it" in words(page)


def test_files_in_quarantine_are_listed_with_their_expiry_and_restored_by_a_job(api: AppClient, world: World) -> None:
    removal = quarantine_removal(world.store, ORDERS)
    path = f"/removals/{removal.removal_id}"
    assert removal.quarantined_until is not None
    (listed,) = ok(api("GET", "/removals?state=quarantined"))["removals"]
    assert (listed["quarantined"], listed["quarantined_until"][:19]) == (3, removal.quarantined_until.isoformat()[:19])
    page = api("GET", f"/ui{path}", accept="text/html")
    assert f'data-url="{path}/restore"' in page.text
    assert page.text.count(f'data-url="{path}/restore?file=') == 3
    for shown in (page, api("GET", "/ui/removals?state=quarantined", accept="text/html")):
        assert "3 in quarantine (deleted for good in 7 d" in words(shown)

    def asked_for(answer: httpx.Response) -> Any:
        job = ok(answer, 202)
        assert answer.headers["location"] == f"/jobs/{job['job_id']}"
        jobs = Jobs(world.store)
        options = jobs.get(job["job_id"]).options["remove_orphan_files"]
        refused(api("POST", f"{path}/restore"), 409, "table_locked")
        jobs.cancel(job["job_id"])
        return options

    assert asked_for(api("POST", f"{path}/restore")) == {"restore": removal.removal_id}
    one = api("POST", f"{path}/restore?{urlencode({'file': STRANGE})}")
    assert asked_for(one) == {"restore": removal.removal_id, "restore_files": [STRANGE]}
    assert asked_for(api("POST", "/tables/db/orders/restore")) == {"restore": "all"}
    refused(api("POST", "/tables/db/other/restore"), 409, "nothing_in_quarantine")
    refused(api("POST", f"/removals/{plan_removal(world.store, ORDERS).removal_id}/restore"), 409, "nothing_in_quarantine")
    refused(api("POST", f"{path}/restore?file=%00"), 400, "invalid_option")
    refused(api("POST", f"/removals/{'0' * 32}/restore"), 404, "removal_not_found")
