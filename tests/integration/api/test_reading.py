"""Look at jobs, tables, locks, the queue and the audit trail over HTTP, on both databases, and change what stands there."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from bounded import Beside
from starlette.applications import Starlette
from starlette.routing import Mount

from airflow_snowpack.api import Services
from airflow_snowpack.iceberg import CatalogConfig
from airflow_snowpack.jobs import ActionOutcome, ActionResult, JobStatus

if TYPE_CHECKING:
    from fastapi import FastAPI

ONE_ACTION = {"actions": ["expire_snapshots"]}
DONE = ActionResult("expire_snapshots", ActionOutcome.SUCCEEDED, "Expired 28 snapshots", 5.1, metrics={"snapshots": 28})


def submit(api: httpx.Client, table: int = 0) -> str:
    answer = api.post(f"/tables/plain/t{table:02}/maintenance", json=ONE_ACTION)
    assert answer.status_code == 202
    job_id: str = answer.json()["job_id"]
    return job_id


@pytest.fixture
def services(api: httpx.Client, app: FastAPI) -> Services:
    """What stands behind the running app, to do what a worker does."""
    opened: Services = app.state.services.get()
    return opened


def pages(api: httpx.Client, path: str) -> list[dict[str, Any]]:
    """All jobs of a list, page by page, as its links lead."""
    found: list[dict[str, Any]] = []
    link: str | None = path
    while link is not None:
        answer = api.get(link)
        assert answer.status_code == 200
        found += answer.json()
        link = answer.links["next"]["url"] if "next" in answer.links else None
    return found


def test_a_finished_job_has_the_results_of_the_specification(api: httpx.Client, services: Services) -> None:
    job_id = submit(api)
    claim = services.jobs.claim("worker-1")
    assert claim is not None
    running = api.get(f"/jobs/{job_id}")
    assert (running.json()["status"], running.headers["retry-after"]) == ("running", "30")
    services.jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    done = api.get(f"/jobs/{job_id}")
    assert done.json()["results"] == [
        {
            "action": "expire_snapshots",
            "success": True,
            "message": "Expired 28 snapshots",
            "error": None,
            "elapsed_seconds": 5.1,
            "gb_hours": None,
        }
    ]
    assert (done.json()["status"], done.json()["error"]) == ("completed", None)
    assert "retry-after" not in done.headers


def test_a_pending_job_is_cancelled_for_good_and_frees_its_table(api: httpx.Client) -> None:
    job_id = submit(api)
    answer = api.post(f"/jobs/{job_id}/cancel")
    assert (answer.status_code, answer.json()["status"], answer.json()["error"]) == (200, "cancelled", "Cancelled by user")
    assert api.get(f"/jobs/{job_id}/timeline").json()["cancelled_by"] == "token"
    assert answer.json()["completed_at"] is not None
    again = api.post(f"/jobs/{job_id}/cancel")
    assert (again.status_code, again.json()["error"], again.json()["job_status"]) == (409, "job_already_finished", "cancelled")
    submit(api)


def test_only_a_finished_job_is_deleted_and_then_it_is_gone(api: httpx.Client) -> None:
    job_id = submit(api)
    refused = api.delete(f"/jobs/{job_id}")
    assert (refused.status_code, refused.json()["error"], refused.json()["job_status"]) == (409, "job_still_active", "pending")
    api.post(f"/jobs/{job_id}/cancel")
    gone = api.delete(f"/jobs/{job_id}")
    assert (gone.status_code, gone.content) == (204, b"")
    for answer in (
        api.get(f"/jobs/{job_id}"),
        api.get(f"/jobs/{job_id}/timeline"),
        api.delete(f"/jobs/{job_id}"),
        api.post(f"/jobs/{job_id}/cancel"),
        api.post(f"/jobs/{job_id}/rerun"),
    ):
        assert (answer.status_code, answer.json()["error"]) == (404, "job_not_found")
    assert api.get("/jobs").json() == []
    for job_id in ("nothing", "%00", "..%2F..", "a" * 300, "%ED%A0%80", "%F0%9F%8C%B2"):
        assert (job_id, api.get(f"/jobs/{job_id}").status_code, api.delete(f"/jobs/{job_id}").status_code) == (job_id, 404, 404)


def test_a_rerun_asks_for_the_same_again_and_a_dry_run_stays_one(api: httpx.Client) -> None:
    body = {"actions": ["expire_snapshots"], "options": {"expire_snapshots": {"retain_last": 7}}}
    first = api.post("/tables/plain/t00/maintenance", json=body).json()["job_id"]
    locked = api.post(f"/jobs/{first}/rerun")
    assert (locked.status_code, locked.json()["error"]) == (409, "table_locked")
    api.post(f"/jobs/{first}/cancel")
    again = api.post(f"/jobs/{first}/rerun")
    assert (again.status_code, again.json()["status"], again.headers["retry-after"]) == (202, "pending", "30")
    assert again.headers["location"] == f"/jobs/{again.json()['job_id']}"
    assert api.get(f"/jobs/{again.json()['job_id']}/timeline").json()["options"] == {"expire_snapshots": {"retain_last": 7}}
    dry = api.post("/tables/plain/t01/maintenance", json={**body, "dry_run": True}).json()["job_id"]
    dry_again = api.post(f"/jobs/{dry}/rerun").json()
    assert (dry_again["dry_run"], dry_again["status"]) == (True, "completed")


def test_the_timeline_tells_all_that_is_known(api: httpx.Client, services: Services) -> None:
    job_id = submit(api)
    waiting = api.get(f"/jobs/{job_id}/timeline").json()
    assert waiting["queue"]["claimed_by"] is None
    assert waiting["explanation"].startswith("Waiting for a worker")
    claim = services.jobs.claim("worker-1")
    assert claim is not None
    running = api.get(f"/jobs/{job_id}/timeline").json()
    assert (running["attempt"], running["queue"]["claimed_by"]) == (1, "worker-1")
    assert running["queue"]["lease_until"] > running["queue"]["claimed_at"]
    services.jobs.finish(claim, JobStatus.COMPLETED, [DONE])
    done = api.get(f"/jobs/{job_id}/timeline").json()
    assert (done["submitted_by"], done["owner"], done["queue"]) == ("token", None, None)
    assert done["results"][0]["metrics"] == {"snapshots": 28}
    assert [entry["event"] for entry in done["history"]][:2] == ["submitted", "claimed"]
    assert [(entry["actor"], entry["via"], entry["change"]) for entry in done["audit"]] == [("token", "api", "submit")]


def test_jobs_are_listed_newest_first_and_narrowed_by_any_filter(api: httpx.Client) -> None:
    ids = [submit(api, table) for table in range(4)]
    api.post(f"/jobs/{ids[1]}/cancel")
    moments = [job["submitted_at"] for job in reversed(api.get("/jobs").json())]

    def listed(**query: Any) -> list[int]:
        answer = api.get("/jobs", params=query)
        assert answer.status_code == 200
        return [ids.index(job["job_id"]) for job in answer.json()]

    assert listed() == [3, 2, 1, 0]
    assert listed(table="plain.t02") == [2]
    assert listed(status="pending") == [3, 2, 0]
    assert listed(status=["cancelled", "running"]) == [1]
    assert listed(status="cancelled", table="plain.t00") == []
    assert listed(search="T03") == [3]
    assert listed(search=ids[0][:20]) == [0]
    assert listed(dag="etl") == []
    assert listed(dry_run="true") == []
    assert listed(since=moments[2]) == [3, 2]
    assert listed(until=moments[1]) == [0]
    assert api.get(f"/jobs?since={moments[2]}").status_code == 200, "a plus sign that nobody encoded is understood"


UNUSABLE = (
    {"status": "done"},
    {"table": "page_views"},
    {"table": "a;b.c"},
    {"search": "\x00"},
    {"search": ""},  # it would narrow nothing
    {"dag": "a\x00"},
    {"dry_run": "perhaps"},
    {"since": "yesterday"},
    {"since": "2026-01-01T00:00:00"},
    {"since": "0001-01-01T00:00:00+14:00"},
    {"until": "2026-13-01T00:00:00Z"},
    {"limit": "0"},
    {"limit": "1001"},
    {"limit": "many"},
    {"cursor": "nonsense"},
    {"cursor": "\x00"},
    {"cursor": "WzEsMl0"},
    {"statsu": "failed"},
)


def test_a_filter_that_cannot_be_used_is_refused(api: httpx.Client) -> None:
    for query in (*UNUSABLE, {"dag": ["a", "b"]}):
        for answer in (api.get("/jobs", params=query), api.post("/jobs/batch/cancel", params=query)):
            assert (query, answer.status_code) == (query, 422)
            assert answer.headers["content-type"] == "application/problem+json"


def test_pages_neither_repeat_nor_miss_a_job_while_others_come(api: httpx.Client) -> None:
    before = {submit(api, table) for table in range(12)}
    stop = threading.Event()

    def keep_submitting() -> None:
        with httpx.Client(base_url=api.base_url, headers=api.headers) as other:
            table = 12
            while not stop.is_set():
                job_id = submit(other, table)
                other.post(f"/jobs/{job_id}/cancel")
                table = 12 + (table + 1) % 20

    submitter = Beside(keep_submitting)
    try:
        for _ in range(3):
            seen = [job["job_id"] for job in pages(api, "/jobs?limit=3")]
            assert len(seen) == len(set(seen))
            assert before <= set(seen)
            waiting = [job["job_id"] for job in pages(api, "/jobs?limit=2&status=pending&search=plain")]
            assert len(waiting) == len(set(waiting))
            assert before <= set(waiting)
    finally:
        stop.set()
        submitter.join()


def test_a_link_leads_on_with_the_same_filter(api: httpx.Client) -> None:
    for table in range(3):
        submit(api, table)
    answer = api.get("/jobs?limit=2&status=pending&search=plain")
    assert answer.links["next"]["rel"] == "next"
    link = answer.links["next"]["url"]
    assert link.startswith("/jobs?limit=2&status=pending&search=plain&cursor=")
    last = api.get(link)
    assert len(last.json()) == 1
    assert "link" not in last.headers


def test_a_batch_works_through_its_filter_and_tells_what_it_could_not_do(api: httpx.Client) -> None:
    ids = [submit(api, table) for table in range(5)]
    refused = api.post("/jobs/batch/delete", params={"search": "plain"}).json()
    assert refused["done"] == 0
    assert {each["job_id"] for each in refused["refused"]} == set(ids)
    assert "Cancel it first" in refused["refused"][0]["detail"]
    some = api.post("/jobs/batch/cancel", params={"table": "plain.t01"})
    assert some.json() == {"done": 1, "refused": [], "next": None}
    rest = api.post("/jobs/batch/cancel", params={"status": "pending"}).json()
    assert (rest["done"], rest["next"]) == (4, None)
    again = api.post("/jobs/batch/rerun", params={"status": "cancelled", "search": "t0"}).json()
    assert again["done"] == 5
    assert len(api.get("/jobs?status=pending").json()) == 5
    assert api.post("/jobs/batch/delete", params={"status": "cancelled"}).json()["done"] == 5


def test_a_batch_goes_on_at_its_cursor(api: httpx.Client, services: Services) -> None:
    for _ in range(130):
        services.jobs.cancel(services.jobs.submit(services.inventory.table("plain", "t00"), ["expire_snapshots"]).job_id)
    done, cursor, calls = 0, None, 0
    while calls == 0 or cursor is not None:
        answer = api.post("/jobs/batch/delete", params={"status": "cancelled"} | ({"cursor": cursor} if cursor else {})).json()
        done, cursor, calls = done + answer["done"], answer["next"], calls + 1
    assert (done, api.get("/jobs").json()) == (130, [])
    assert calls >= 2


def test_one_job_that_can_never_be_done_again_does_not_keep_a_batch_from_the_others(
    api: httpx.Client, services: Services, lake_folder: Path
) -> None:
    import pyarrow as pa

    catalog = CatalogConfig.embedded(lake_folder).load()
    catalog.create_namespace_if_not_exists("broken")
    table = catalog.create_table("broken.t", pa.schema([("n", pa.int32())]))
    for name in ("plain.t01", "broken.t", "plain.t02"):
        asked = api.post(f"/tables/{name.replace('.', '/')}/maintenance", json={"actions": ["expire_snapshots"], "dry_run": True})
        assert asked.status_code == 202
    Path(table.metadata_location.removeprefix("file://")).unlink()
    try:
        answer = api.post("/jobs/batch/rerun", params={"dry_run": True}).json()
    finally:
        catalog.drop_table("broken.t")
    assert (answer["done"], len(answer["refused"]), answer["next"]) == (2, 1, None)


def test_a_batch_in_drain_mode_says_so(api: httpx.Client) -> None:
    job_id = submit(api)
    api.post(f"/jobs/{job_id}/cancel")
    api.put("/drain", json={"on": True})
    answer = api.post("/jobs/batch/rerun")
    assert (answer.status_code, answer.json()["error"]) == (503, "drain_mode")


def test_tables_come_from_the_last_listing_with_its_age(api: httpx.Client) -> None:
    listed = api.post("/tables/refresh")
    assert (listed.status_code, listed.json()["tables"], listed.json()["problem"]) == (200, 42, None)
    job_id = submit(api, 0)
    first = api.get("/tables", params={"search": "p", "limit": 2}).json()
    assert [f"{each['database']}.{each['table_name']}" for each in first["tables"]] == ["analytics.page_views", "plain.t00"]
    assert first["next"] == "plain.t00"
    assert 0 <= first["age_seconds"] < 60
    assert datetime.fromisoformat(first["refreshed_at"]).utcoffset() == timedelta(0)
    assert first["tables"][0]["last_job"] is None
    assert first["tables"][0]["next_step"] == "No maintenance yet. Start with a dry run."
    assert first["tables"][1]["last_job"]["job_id"] == first["tables"][1]["locked_by"] == job_id
    second = api.get("/tables", params={"search": "p", "limit": 2, "cursor": first["next"]}).json()
    assert second["tables"][0]["table_name"] == "t01"
    everything = api.get("/tables", params={"database": "plain", "search": "T3", "limit": 10}).json()
    assert (len(everything["tables"]), everything["next"]) == (10, None)
    needy = api.get("/tables", params={"order": "need", "limit": 30}).json()
    others = api.get("/tables", params={"order": "need", "limit": 30, "cursor": needy["next"]}).json()
    assert len({(each["database"], each["table_name"]) for each in needy["tables"] + others["tables"]}) == 42
    assert api.get("/tables", params={"show": "running"}).json()["tables"][0]["last_job"]["job_id"] == job_id


def test_a_table_is_told_with_its_health(api: httpx.Client) -> None:
    table = api.get("/tables/analytics/page_views").json()
    assert (table["health"]["data_files"], table["health"]["small_files"], table["health"]["snapshots"]) == (3, 3, 3)
    assert table["problem"] is None
    assert api.get("/tables/analytics/nothing").status_code == 404


def test_a_table_is_told_with_its_columns_and_its_snapshots_page_by_page(api: httpx.Client) -> None:
    path = "/tables/analytics/page_views/metadata"
    first = api.get(path, params={"limit": 2}).json()
    assert (first["problem"], first["partition_spec"], first["sort_order"]) == (None, [], None)
    assert [(each["name"], each["kind"], each["snapshot_id"]) for each in first["refs"]] == [
        ("main", "branch", first["snapshots"][0]["snapshot_id"])
    ]
    second = api.get(path, params={"limit": 2, "cursor": first["next"]}).json()
    snapshots = first["snapshots"] + second["snapshots"]
    assert (len(snapshots), second["next"]) == (3, None)
    assert [each["parent_id"] for each in snapshots] == [*(each["snapshot_id"] for each in snapshots[1:]), None]
    assert {(each["operation"], each["files_added"], each["rows_removed"]) for each in snapshots} == {("append", 1, 0)}
    assert api.get(path, params={"cursor": 7}).status_code == 422
    assert api.get("/tables/analytics/nothing/metadata").status_code == 404


def test_a_lock_is_released_only_for_its_holder_and_not_under_an_active_job(api: httpx.Client, services: Services) -> None:
    job_id = submit(api)
    (lock,) = api.get("/locks").json()
    assert (lock["database"], lock["table_name"], lock["holder"]) == ("plain", "t00", job_id)
    other = api.delete("/locks/plain/t00", params={"holder": "somebody"})
    assert (other.status_code, other.json()) == (200, {"released": False, "lock": None})
    in_use = api.delete("/locks/plain/t00", params={"holder": job_id, "force": "true"})
    assert (in_use.status_code, in_use.json()["error"], in_use.json()["holder"]) == (409, "lock_in_use", job_id)
    services.jobs.locks.acquire(services.inventory.table("plain", "t05"), "etl/1", ttl=timedelta(hours=1))
    released = api.delete("/locks/plain/t05", params={"holder": "etl/1"})
    assert (released.json()["released"], released.json()["lock"]["holder"]) == (True, "etl/1")
    assert api.delete("/locks/plain/t05").status_code == 422, "nobody releases a lock without naming its holder"


def test_the_queue_tells_its_depth_and_how_it_went(api: httpx.Client, services: Services) -> None:
    empty = {"depth": 0, "held": 0, "oldest": None, "oldest_seconds": None, "delayed": 0, "running": 0}
    assert api.get("/queue").json() == empty
    submit(api, 0), submit(api, 1)
    services.jobs.claim("worker-1")
    queue = api.get("/queue").json()
    assert (queue["depth"], queue["running"], queue["delayed"]) == (1, 1, 0)
    assert queue["oldest_seconds"] >= 0
    samples = api.get("/queue/history", params={"hours": 2}).json()
    assert (len(samples), samples[-1]["waiting"] + samples[-1]["running"]) == (96, 2)


def test_a_sweep_tells_what_it_did(api: httpx.Client) -> None:
    nothing = {"requeued": [], "failed": [], "unlocked": [], "cancelled": [], "paused": False}
    assert api.post("/sweep").json() == nothing
    api.put("/drain", json={"on": True})
    assert api.post("/sweep").json() == nothing | {"paused": True}


def test_every_change_is_in_the_audit_trail_with_its_door(api: httpx.Client) -> None:
    job_id = submit(api)
    api.post(f"/jobs/{job_id}/cancel", headers={"X-Snowpack-Page": "1"})
    api.delete(f"/jobs/{job_id}")
    api.put("/drain", json={"on": True, "reason": "move"})
    trail = api.get("/audit").json()
    assert [(each["change"], each["via"]) for each in trail["entries"]] == [
        ("drain_on", "api"),
        ("delete", "api"),
        ("cancel", "page"),
        ("submit", "api"),
    ]
    assert {each["actor"] for each in trail["entries"]} == {"token"}
    first = api.get("/audit", params={"limit": 2}).json()
    assert first["next"] == first["entries"][-1]["id"]
    rest = api.get("/audit", params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["change"] for each in rest["entries"]] == ["cancel", "submit"]
    assert rest["next"] is None
    of_job = api.get("/audit", params={"subject": job_id, "limit": 2}).json()
    assert [each["change"] for each in of_job["entries"]] == ["delete", "cancel"]


def test_links_begin_with_the_path_under_which_the_app_is_mounted(app: FastAPI, serve_app: Any) -> None:
    api: httpx.Client = serve_app(Starlette(routes=[Mount("/snowpack", app)]))
    ids = []
    for table in ("t00", "t01"):
        answer = api.post(f"/snowpack/tables/plain/{table}/maintenance", json=ONE_ACTION)
        ids.append(answer.json()["job_id"])
        assert answer.headers["location"] == f"/snowpack/jobs/{ids[-1]}"
    page = api.get("/snowpack/jobs?limit=1")
    assert page.links["next"]["url"].startswith("/snowpack/jobs?")
    assert api.get(page.links["next"]["url"]).json()[0]["job_id"] == ids[0]
    assert api.get("/snowpack/openapi.json").json()["servers"] == [{"url": "/snowpack"}]
    for name in ("..%2Fx", "%2F", ""):
        answer = api.post(f"/snowpack/tables/{name}/x/maintenance", json=ONE_ACTION)
        assert (answer.status_code, answer.json()["error"]) == (422, "invalid_table_name")
