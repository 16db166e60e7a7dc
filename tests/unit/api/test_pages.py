"""The pages through the app itself, on a real store: what they show, to whom, and what they never do."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
import sqlalchemy as sa
from app_client import AppClient
from page_reading import HOSTILE, Browser, words
from pages_world import SPARK_ERROR, SomebodyIs, World, app_of, compacted, did, expired, open_world

from airflow_snowpack.api import build_app
from airflow_snowpack.api.pages.markup import sentence
from airflow_snowpack.iceberg import CatalogUnreachable
from airflow_snowpack.inventory import Inventory
from airflow_snowpack.jobs import ActionOutcome
from airflow_snowpack.maintenance import Action
from airflow_snowpack.store import StoreTooSlow, StoreUnreachable
from airflow_snowpack.store.tables.jobs import inventory_refreshes, job_queue, jobs

if TYPE_CHECKING:
    from fastapi import FastAPI

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds")
EVERY_PAGE = ("/ui/", "/ui/tables", "/ui/jobs", "/ui/locks", "/ui/queue", "/ui/audit")


def test_the_pages_are_at_ui_with_and_without_a_slash_and_their_files_are_served_and_kept(browser: Browser) -> None:
    answer = browser.get("/ui")
    assert answer.status_code == 307
    assert answer.headers["location"] == "/ui/"

    addresses = re.findall(r'(?:href|src)="(/ui/static/[^"]+)"', browser.text("/ui/"))
    assert {address.split("/")[-1].split("?")[0] for address in addresses} == {"page.css", "page.js", "theme.js", "icon.svg"}
    for address in addresses:
        answer = browser.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert browser.get("/ui/static/router.py").status_code == 404
    assert browser.get("/ui/static/..%2frouter.py").status_code == 404


def test_a_catalog_that_was_never_listed_is_not_taken_for_one_without_tables(tmp_path: Path, sqlite_url: str) -> None:
    def broken() -> object:
        raise CatalogUnreachable("lake", OSError("connection refused"))

    world = open_world(tmp_path, url=sqlite_url)
    world.inventory = Inventory(world.store, "lake", broken)  # type: ignore[arg-type]
    page = words(Browser(app_of(world, SomebodyIs())).text("/ui/tables"))
    world.close()
    assert "The catalog has not been listed yet" in page


def test_a_table_shows_its_last_job_what_it_did_and_what_comes_next(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views", by="anton")
    world.run(job, [compacted(1284, 93, 521), expired(362, 1190, 44)])
    page = words(browser.text("/ui/tables?search=page_views"))
    assert "completed" in page
    assert "anton" in page
    assert "Compacted 1,284 files into 93; Expired 362 snapshots" in page
    assert "No maintenance scheduled." in page
    assert "sessions" not in page


def test_tables_that_need_attention_can_be_shown_alone(world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_snowpack.api.pages.tables.PAGE", 2)
    assert "cursor=" not in browser.text("/ui/tables?database=analytics&search=")

    world.run(world.submit("analytics.sessions"), [], "it broke")
    world.start(world.submit("analytics.page_views"))
    for show, shown in [("failed", "analytics.sessions"), ("never", "payments.refunds"), ("running", "analytics.page_views")]:
        keys = re.findall(r'<tr data-key="([^"]+)"', browser.text(f"/ui/tables?show={show}"))
        assert keys == [f"lake.{shown}"]


def test_a_listing_that_failed_is_told_with_its_reason_and_the_tables_stay(world: World, browser: Browser) -> None:
    def broken() -> object:
        raise CatalogUnreachable("lake", OSError("connection refused"))

    with pytest.raises(CatalogUnreachable):
        Inventory(world.store, "lake", broken).refresh()  # type: ignore[arg-type]
    page = words(browser.text("/ui/tables"))
    assert "The catalog could not be listed" in page
    assert "connection refused" in page
    assert "page_views" in page


def test_jobs_are_filtered_by_what_stands_in_the_address_and_not_at_all_if_that_cannot_be_understood(
    world: World, browser: Browser
) -> None:
    done = world.submit("analytics.page_views", owner="nightly/run-1/compact[2]")
    world.run(done, [compacted(10, 1, 5)])
    failed = world.submit("analytics.sessions", by="jana")
    world.run(failed, [], "no such file")
    pending = world.submit("payments.refunds")

    def shown(query: str) -> set[str]:
        return set(re.findall(r'<tr data-key="([^"]+)"', browser.text(f"/ui/jobs?{query}")))

    assert shown("") == {done.job_id, failed.job_id, pending.job_id}
    assert shown("status=failed&status=pending") == {failed.job_id, pending.job_id}
    assert shown("table=analytics.page_views") == {done.job_id}
    assert shown("dag_id=nightly") == {done.job_id}
    assert shown("search=NO+SUCH+file") == {failed.job_id}
    assert shown("status=failed&search=refunds") == set()
    assert shown("dry_run=true") == set()
    assert shown("period=1h&dry_run=false") == {done.job_id, failed.job_id, pending.job_id}

    for query in ["status=lost", "table=flights", "period=2y", "dry_run=perhaps", "since=yesterday"]:
        page = browser.text(f"/ui/jobs?{query}")
        assert "Invalid filter." in page
        assert "<tr data-key" not in page
        assert 'id="batch"' not in page

    answer = browser.get("/ui/jobs?cursor=xyz")
    assert answer.status_code == 422
    assert "Omit it to start with the first page." in answer.text


def test_a_list_that_takes_too_long_says_so_and_what_to_narrow(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_slow(*_: object, **__: object) -> NoReturn:
        raise StoreTooSlow("postgresql://me@db/x")

    monkeypatch.setattr(world.jobs, "page", too_slow)
    answer = browser.get("/ui/jobs?search=a")
    assert answer.status_code == 503
    assert "The store took too long to answer" in answer.text
    assert "Narrow it: name a table" in answer.text


def test_jobs_come_in_pages_that_keep_the_filter_and_a_batch_is_pinned_to_the_jobs_that_the_page_knew(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_snowpack.api.pages.jobs.PAGE", 2)
    made = [world.submit(name).job_id for name in TABLES if not world.clock.move(seconds=1)]
    first = browser.text("/ui/jobs?status=pending")
    (older,) = re.findall(r'href="\?([^"]+)" rel="next"', first)
    assert "status=pending" in older
    second = browser.text("/ui/jobs?" + older.replace("&amp;", "&"))
    assert re.findall(r'<tr data-key="([^"]+)"', first + second) == made[::-1]

    world.clock.move(seconds=1)
    (query,) = re.findall(r'data-query="([^"]+)"', browser.text("/ui/jobs?status=pending&dag_id="))
    assert query.startswith("status=pending&amp;until=")
    assert "dag" not in query


def test_a_search_that_stopped_early_says_so_and_leads_on_to_older_jobs(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_snowpack.jobs.listing.MAX_EXAMINED", 1)
    old, new = (world.submit(name) for name in ("analytics.page_views", "payments.refunds") if not world.clock.move(seconds=1))
    first = browser.text("/ui/jobs?search=page_views")
    assert "No matching jobs so far" in first
    assert "0 jobs or more match" in words(first)
    (older,) = re.findall(r'href="\?([^"]+)" rel="next">Search older', first)
    second = browser.text("/ui/jobs?" + older.replace("&amp;", "&"))
    assert re.findall(r'<tr data-key="([^"]+)"', second) == [old.job_id]
    assert "jobs were searched, back to" in second
    assert new.job_id not in second


def test_a_running_job_shows_its_lease_and_how_far_it_is(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views", *Action, by="jana")
    world.start(job, [compacted(2210, 141, 480)], worker="worker-7")
    listed, page = words(browser.text("/ui/jobs")), words(browser.text(f"/ui/jobs/{job.job_id}"))
    assert "lease 29 min 50 s left" in listed
    assert "1 of 5" in listed
    assert "Attempt 1 is running on worker-7: 1 of 5 actions done." in page
    assert "8 heartbeats" in page
    assert "rewrite position delete files is running" in page


def test_a_finished_job_shows_its_timeline_and_its_numbers_before_and_after(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views", by="jana")
    world.clock.move(seconds=48)
    world.run(job, [compacted(1284, 93, 521, 900), expired(362, 1190, 44)], worker="worker-0")
    page = words(browser.text(f"/ui/jobs/{job.job_id}"))
    assert "waited for a worker 48 s" in page
    assert "rewrite data files 8 min 41 s" in page
    assert "Data files −93 % before 1,284 after 93" in page  # noqa: RUF001 - a real minus sign
    assert "900.0 MiB" in page
    assert "Claimed, attempt 1" in page
    assert "jana submitted it via api" in page
    assert "completed" in page


def test_an_error_is_shown_in_full(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views")
    world.run(job, [did(Action.REWRITE_DATA_FILES, "Failed", 3, {}, ActionOutcome.FAILED, SPARK_ERROR)], f"failed: {SPARK_ERROR}")
    page = browser.text(f"/ui/jobs/{job.job_id}")
    assert "java.lang.OutOfMemoryError: Java heap space" in page
    assert "ParquetWriter.java:214" in page
    assert 'data-copy="job-error"' in page


def test_a_short_id_leads_to_its_job_and_several_to_their_list(browser: Browser, world: World) -> None:
    job = world.submit("analytics.page_views")
    short = job.job_id[:8]
    found = browser.get(f"/ui/jobs/{short}")
    assert (found.status_code, found.headers["location"]) == (307, f"/ui/jobs/{job.job_id}")
    assert browser.get(f"/ui/jobs/{job.job_id[:7]}").status_code == 404

    twin = world.submit("payments.refunds").job_id
    with world.store.engine.begin() as conn:
        for table in (jobs, job_queue):
            conn.execute(sa.update(table).where(table.c.job_id == twin).values(job_id=f"{short}{twin[8:]}"))
    several = browser.get(f"/ui/jobs/{short}")
    assert several.headers["location"] == f"/ui/jobs?search={short}"
    assert len(re.findall(r"<tr data-key", browser.text(several.headers["location"]))) == 2
    unknown = browser.get("/ui/jobs/" + "".join("0" if digit == "f" else "f" for digit in short))
    assert (unknown.status_code, "List the jobs to find its id." in unknown.text) == (404, True)


@pytest.mark.parametrize("root", ["", "/airflow/snowpack"])
def test_a_page_that_takes_too_long_is_a_page_with_a_link_to_retry(auth: SomebodyIs, root: str) -> None:
    never = threading.Event()
    app = build_app(never.wait, auth, timeout=timedelta(milliseconds=100))  # type: ignore[arg-type]
    try:
        for path in (*EVERY_PAGE, "/ui/jobs?status=failed&search=a"):
            answer = Browser(app, root_path=root).get(root + path)
            assert answer.status_code == 503
            assert answer.headers["content-type"].startswith("text/html")
            assert answer.headers["retry-after"] == "5"
            assert re.search(rf'href="{re.escape(root + path.replace("&", "&amp;"))}">Retry</a>', answer.text), answer.text
            assert "No answer within 0.1 s" in words(answer.text)
            assert "may still take effect" not in answer.text
        problem = Browser(app, root_path=root).get(f"{root}/jobs")
        assert (problem.status_code, problem.json()["error"]) == (503, "too_slow")
    finally:
        never.set()


def test_commands_in_messages_are_code_without_backticks(world: World, browser: Browser) -> None:
    world.submit("analytics.page_views")
    world.clock.move(minutes=30)
    for path in ("/ui/", "/ui/queue"):
        page = browser.text(path)
        assert "<code>airflow snowpack worker</code>" in page
        assert "`" not in words(page), path
    assert sentence("run `a <b>`, not `") == "run <code>a &lt;b&gt;</code>, not `"


def test_a_store_that_is_down_is_a_page_with_its_cause(auth: SomebodyIs) -> None:
    def down() -> object:
        raise StoreUnreachable("postgresql://db.example:5432/snowpack", OSError("connection refused"))

    answer = Browser(build_app(down, auth)).get("/ui/jobs")  # type: ignore[arg-type]
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("text/html")
    assert "retry-after" in answer.headers
    assert "does not answer" in answer.text


def test_an_active_jobs_lock_is_not_released_but_its_job_cancelled(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views")
    world.jobs.locks.acquire(world.table("payments.refunds"), "etl/close", ttl=timedelta(hours=1))
    page = browser.text("/ui/locks")
    assert f'data-url="/jobs/{job.job_id}/cancel"' in page
    assert 'data-url="/locks/payments/refunds?holder=etl/close"' in page
    assert 'data-url="/locks/analytics' not in page


def test_the_queue_is_drawn_anew_once_a_minute_with_a_table_beside_it(world: World, browser: Browser) -> None:
    world.submit("analytics.page_views")
    world.clock.move(minutes=20)
    world.jobs.set_drain(True, reason="moving to Postgres 18", actor=world.actor("vera"))
    assert "Drain mode is on , switched on just now by vera: moving to Postgres 18" in words(browser.text("/ui/queue"))
    world.jobs.set_drain(False, actor=world.actor("vera"))
    page = browser.text("/ui/queue")
    assert '<path class="line-waiting"' in page
    assert page.count("<tr><td><time") == 24
    assert "Jobs are waiting and none is running." in page

    def drawn() -> list[str]:
        return re.findall(r'<path class="line-waiting" d="([^"]+)"', browser.text("/ui/queue"))

    world.clock.move(hours=1)
    first = drawn()
    assert first
    world.submit("payments.refunds")
    world.clock.move(seconds=59)
    assert drawn() == first
    world.clock.move(seconds=1)
    assert drawn() != first


def test_a_job_can_be_edited_once_it_has_ended_and_never_onto_a_table_of_another_catalog(world: World, browser: Browser) -> None:
    plain = world.submit("analytics.page_views")
    other = world.jobs.submit(replace(world.table("analytics.page_views"), catalog_id="3f2a91bc04de"), ["expire_snapshots"])
    page = browser.text(f"/ui/jobs/{plain.job_id}")
    assert ("Edit and re-run" in page, 'id="maintain"' in page) == (False, True)
    for job, can_be_edited in ((plain, True), (other, False)):
        world.jobs.cancel(job.job_id)
        page = browser.text(f"/ui/jobs/{job.job_id}")
        assert ("Edit and re-run" in page, "Re-run…" in page, 'id="maintain"' in page) == (can_be_edited, True, can_be_edited)
    tried = world.jobs.record_dry_run(world.table("analytics.page_views"), ["expire_snapshots"], [], actor=world.actor())
    assert re.search(r'data-maintain="analytics.page_views"[^>]* data-dry="yes"', browser.text(f"/ui/jobs/{tried.job_id}"))


def test_the_queue_shows_how_many_jobs_ended_in_each_hour_and_how_long_they_waited(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views")
    world.clock.move(minutes=30)
    world.run(job, [did(Action.REWRITE_DATA_FILES, "Failed", 3, {}, ActionOutcome.FAILED, "no space")], "no space")
    world.clock.move(hours=2)
    page = browser.text("/ui/queue")
    assert re.findall(r'data-what="(0 completed, 1 failed)"', page) == ["0 completed, 1 failed"]
    assert re.findall(r'data-what="(median wait [^"]*)"', page) == ["median wait 30 min, longest 30 min"]
    assert page.count('class="bar-failed"') == 1


def test_the_audit_trail_is_filtered_by_subject_and_actor_and_comes_in_pages(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.submit("analytics.page_views", by="anton")
    world.jobs.cancel(job.job_id, actor=world.actor("jana"))
    world.jobs.set_drain(True, reason="upgrade", actor=world.actor("jana"))

    def rows(query: str) -> list[str]:
        return re.findall(r"<tr data-key", browser.text(f"/ui/audit?{query}"))

    assert len(rows("")) == 3
    assert len(rows("actor=jana")) == 2
    assert len(rows(f"subject={job.job_id}")) == 2
    assert len(rows("subject=page_views&actor=anton")) == 1
    assert len(rows("subject=drain")) == 1
    assert "upgrade" in browser.text("/ui/audit?subject=drain")

    monkeypatch.setattr("airflow_snowpack.api.pages.operations.PAGE", 2)
    for on in (False, True, False):
        world.jobs.set_drain(on, actor=world.actor())
    first = browser.text("/ui/audit?actor=vera")
    (older,) = re.findall(r'href="\?([^"]+)" rel="next"', first)
    second = browser.text("/ui/audit?" + older.replace("&amp;", "&"))
    assert len(re.findall(r"<tr data-key", first)) == 2
    assert len(re.findall(r"<tr data-key", second)) == 1


def test_head_answers_as_get_does_without_the_body_and_changes_nothing(app: FastAPI, world: World) -> None:
    for path, status in [
        *((path, 200) for path in EVERY_PAGE),
        ("/ui/jobs/nope", 404),
        ("/healthz", 200),
        ("/nowhere", 404),
        ("/metrics", 200),
    ]:
        ask = AppClient(app)
        got, head = ask("GET", path, Accept="text/html"), ask("HEAD", path, Accept="text/html")

        assert (got.status_code, head.status_code, head.content) == (status, status, b"")
        assert got.content
        for answer in (got, head):
            answer.headers.pop("content-length" if path == "/metrics" else "", None)  # its numbers change from answer to answer
        assert head.headers == got.headers
        assert "default-src 'self'" in head.headers["content-security-policy"]

    job = world.submit("analytics.sessions")

    assert AppClient(app)("HEAD", f"/jobs/{job.job_id}/cancel").status_code == 405
    assert world.jobs.get(job.job_id).status.value == "pending"


def test_what_no_database_takes_is_left_out_of_what_is_searched_for(browser: Browser) -> None:
    for path in [
        "/ui/tables?search={}&database={}&cursor={}",
        "/ui/jobs?search={}&dag_id={}",
        "/ui/locks?search={}",
        "/ui/audit?actor={}",
    ]:
        assert browser.get(path.replace("{}", "%00%ff%ed%a0%80")).status_code == 200
        assert browser.get("/ui/jobs/%00").status_code == 404


def test_a_job_leads_to_its_task_instance_only_inside_of_airflow(world: World, app: FastAPI, auth: SomebodyIs) -> None:
    job = world.submit("analytics.page_views", owner="nightly/manual__2026-11-21T06:00:00+00:00/group.compact[3]")
    address = "/airflow/dags/nightly/runs/manual__2026-11-21T06%3A00%3A00%2B00%3A00/tasks/group.compact/mapped/3"
    assert "/dags/" not in Browser(app, "/airflow/snowpack").text(f"/airflow/snowpack/ui/jobs/{job.job_id}")
    auth.probes_are_open = False
    inside = Browser(app, "/airflow/snowpack").text(f"/airflow/snowpack/ui/jobs/{job.job_id}")
    assert f'href="{address}" target="_top"' in inside
    assert "/dags/" not in Browser(app).text(f"/ui/jobs/{job.job_id}")


def test_a_list_of_ten_thousand_jobs_is_made_with_as_few_statements_and_rows_as_one_of_sixty(
    world: World, browser: Browser
) -> None:
    def statements() -> int:
        seen: list[str] = []

        def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
            if re.search(r"\bjobs\b", statement):  # the tables are listed anew by a thread of its own
                seen.append(statement)

        sa.event.listen(world.store.engine, "before_cursor_execute", note)
        page = browser.text("/ui/jobs?status=completed&status=failed&search=page")
        sa.event.remove(world.store.engine, "before_cursor_execute", note)
        assert page.count("<tr data-key") == 50
        assert len(page) < 200_000
        return len(seen)

    _copy_jobs(world, 60)
    few = statements()
    _copy_jobs(world, 9_940)
    assert statements() == few
    assert few <= 20
    assert "10,000 jobs or more" in words(browser.text("/ui/jobs"))


def _copy_jobs(world: World, many: int) -> None:
    """Finished jobs like the first one, straight into the table: each by its own submit would take minutes."""
    first = world.submit("analytics.page_views")
    world.run(first, [compacted(10, 1, 2)])
    world.clock.move(seconds=1)
    with world.store.engine.begin() as conn:
        row = dict(conn.execute(sa.select(jobs).where(jobs.c.job_id == first.job_id)).mappings().one())
        copies = [
            row | {"job_id": f"{first.job_id[:20]}{n:012x}", "submitted_at": row["submitted_at"] - timedelta(seconds=n)}
            for n in range(many)
        ]
        conn.execute(sa.insert(jobs), copies)


def test_tables_with_names_that_cannot_be_handled_are_counted_and_named(world: World, browser: Browser, app: FastAPI) -> None:
    assert "not listed" not in browser.text("/ui/tables")
    left_out = {"count": 52, "first": [["sales.2024 totals", "Each part must start with a letter"], [HOSTILE, "No"]]}
    world.store.transact(lambda conn: conn.execute(sa.update(inventory_refreshes).values(left_out=left_out)))
    page = browser.text("/ui/tables")

    assert "52 entries of the catalog are not listed" in words(page)
    assert "sales.2024 totals Each part must start with a letter." in words(page)
    assert HOSTILE not in page
    body = AppClient(app)("GET", "/tables").json()
    assert (body["left_out_count"], body["left_out"][0]["name"]) == (52, "sales.2024 totals")
