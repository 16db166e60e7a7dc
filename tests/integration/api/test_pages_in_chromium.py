"""The pages in a real browser: headless Chromium against the app under uvicorn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from contrast import CONTRAST
from health_pages_world import keep
from made_health import sick_health
from pages_world import SomebodyIs, World, app_of, compacted, did, expired, open_world
from schedules_world import build_schedules
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from airflow_snowpack.api import TokenAuth
from airflow_snowpack.jobs import ActionOutcome, JobFilter, JobStatus
from airflow_snowpack.maintenance import Action
from airflow_snowpack.store import AuditTrail

if TYPE_CHECKING:
    from playwright.sync_api import Page

REFUSED = "Failed to load resource"
"""What the console says of each answer that is not a success."""
MANY_KEYS = 100
UNREADABLE_LABELS = """() => [...document.querySelectorAll('.chart')].flatMap((chart) => {
  const labels = [...chart.querySelectorAll('.axis')].filter((each) => each.textContent);
  const boxes = labels.map((each) => each.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  return labels.filter((each, i) => boxes[i].height < 9 || boxes.some((box, j) => j < i && meet(box, boxes[i])))
    .map((each) => each.textContent);
})"""
"""The labels of charts that are too small, or that overlap others."""
TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds")
HOSTILE = "<script>window.hacked = 1</script>\"'><img src=x onerror='window.hacked = 2'>"
# What Airflow 3.3 puts around a plugin's page: no navigation of the top, no windows, no alerts.
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, tables=TABLES, url=sqlite_url)
    opened.clock.move(minutes=-30)
    yield opened
    opened.close()


@pytest.fixture
def auth() -> SomebodyIs:
    return SomebodyIs("vera")


@pytest.fixture
def page(world: World, auth: SomebodyIs, open_page: Callable[..., Page]) -> Page:
    return open_page(app_of(world, auth), allowed=REFUSED, viewport={"width": 1280, "height": 800})


def refresh(page: Page) -> None:
    """What happens every few seconds, now."""
    with page.expect_response(lambda answer: "/ui/" in answer.url):
        page.evaluate("dispatchEvent(new Event('online'))")
    page.wait_for_timeout(50)


def shows(page: Page, many: int) -> None:
    """Wait until the list has so many rows."""
    from playwright.sync_api import expect

    expect(page.locator("tr[data-key]")).to_have_count(many)


def rows(page: Page) -> list[str]:
    keys: list[str] = page.eval_on_selector_all("tr[data-key]", "rows => rows.map(row => row.dataset.key)")
    return keys


def many_jobs(world: World, many: int, status: JobStatus = JobStatus.PENDING) -> None:
    """Jobs of as many tables, straight into the store: each by its own submit would take minutes."""
    import sqlalchemy as sa

    from airflow_snowpack.store.tables.jobs import job_queue, jobs

    first = world.submit("analytics.page_views")
    with world.store.engine.begin() as conn:
        row = dict(conn.execute(sa.select(jobs).where(jobs.c.job_id == first.job_id)).mappings().one())
        place = dict(conn.execute(sa.select(job_queue).where(job_queue.c.job_id == first.job_id)).mappings().one())
        copies = [
            row | {"job_id": f"{n:032x}", "table_key": f"lake.many.t{n}", "database_name": "many", "table_name": f"t{n}"}
            for n in range(1, many)
        ]
        failed = {"error": "no space"} if status is JobStatus.FAILED else {}
        conn.execute(sa.insert(jobs), [copy | {"status": status.value} | failed for copy in copies])
        if status is JobStatus.PENDING:
            conn.execute(sa.insert(job_queue), [place | {"job_id": copy["job_id"]} for copy in copies])


def test_from_the_list_of_tables_to_a_job(world: World, page: Page) -> None:
    job = world.submit("analytics.page_views", by="jana")
    world.run(job, [compacted(1284, 93, 521), expired(362, 1190, 44)])
    page.goto("/ui/tables")
    page.get_by_role("link", name="completed").click()
    page.wait_for_url(f"**/ui/jobs/{job.job_id}")
    assert page.locator("figure").count() == 4
    assert page.locator(".gantt-row").count() == 3
    page.get_by_role("link", name="analytics.page_views").first.click()
    page.wait_for_url("**/ui/jobs?table=analytics.page_views")
    assert rows(page) == [job.job_id]


def test_a_group_of_failures_is_run_again_by_one_click_and_a_locked_table_is_named(world: World, page: Page) -> None:
    error = "Disk full on 10.0.0.{}"
    broken = did(Action.REWRITE_DATA_FILES, "Failed", 4, {}, ActionOutcome.FAILED, "Disk full")
    for place, dotted in enumerate(TABLES):
        world.run(world.submit(dotted), [broken], error.format(place))
    world.jobs.locks.acquire(world.table("payments.refunds"), "etl/close", ttl=timedelta(hours=1))
    page.goto("/ui/")
    page.get_by_role("button", name="Re-run 3 jobs").click()
    page.locator("#confirm-report").wait_for()
    report = page.locator("#confirm-report").inner_text()
    assert "2 jobs re-run, 1 refused:" in report
    assert "payments.refunds" in report
    pending = world.jobs.page(JobFilter(statuses=frozenset({JobStatus.PENDING}))).items
    assert {job.table.dotted for job in pending} == set(TABLES[:2])
    changes = [entry for entry in AuditTrail(world.store).latest() if entry.change == "rerun"]
    assert {(entry.actor, entry.via) for entry in changes} == {("vera", "page")}
    page.get_by_role("button", name="Close").first.click()
    refresh(page)
    assert page.locator("[data-rerun]").get_attribute("data-rerun").count(" ") == 0  # type: ignore[union-attr]


def test_a_dry_run_is_asked_for_its_plan_is_shown_and_the_metadata_of_a_table_is_read_on_request(page: Page) -> None:
    page.goto("/ui/tables")
    page.get_by_role("button", name="Dry run of analytics.page_views").click()
    page.wait_for_url("**/ui/jobs/*")
    assert page.get_by_role("heading", name="Preview").is_visible()
    assert "Would compact no files" in page.locator("main").inner_text()

    page.goto("/ui/tables/analytics/sessions")
    assert "No health is stored yet" in page.locator("main").inner_text()
    page.get_by_role("button", name="Read again").click()
    page.get_by_text("File sizes").wait_for(timeout=60_000)
    assert page.locator("h1 .score").inner_text() == "100"


def test_typing_filters_the_list_and_the_address_and_the_address_filters_the_list(world: World, page: Page) -> None:
    wanted = world.submit("payments.refunds").job_id
    world.submit("analytics.page_views")
    page.goto("/ui/jobs")
    assert len(rows(page)) == 2
    page.get_by_role("searchbox", name="Search jobs").press_sequentially("REFUNDS")
    shows(page, 1)
    assert page.url.endswith("/ui/jobs?search=REFUNDS")
    page.get_by_role("checkbox", name=re.compile("Pending")).check()
    page.wait_for_url("**status=pending**")
    page.reload()
    assert rows(page) == [wanted]
    assert page.get_by_role("checkbox", name=re.compile("Pending")).is_checked()
    assert page.get_by_role("searchbox", name="Search jobs").input_value() == "REFUNDS"
    page.get_by_role("link", name="Clear").click()
    shows(page, 2)


def test_a_job_is_cancelled_after_a_question_the_trail_says_by_whom_and_a_refusal_is_told_where_it_was_asked_for(
    world: World, page: Page
) -> None:
    job = world.submit("analytics.page_views")
    page.goto(f"/ui/jobs/{job.job_id}")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Keep as it is").click()
    assert world.jobs.get(job.job_id).status is JobStatus.PENDING
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_role("button", name="Re-run…", exact=True).wait_for()
    assert world.jobs.get(job.job_id).status is JobStatus.CANCELLED
    (cancelled,) = [entry for entry in AuditTrail(world.store).of(job.job_id) if entry.change == "cancel"]
    assert (cancelled.actor, cancelled.via) == ("vera", "page")

    other = world.submit("analytics.sessions")
    page.goto(f"/ui/jobs/{other.job_id}")
    page.get_by_role("button", name="Cancel…").click()
    world.jobs.cancel(other.job_id, actor=world.actor("jana"))
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_role("alert").filter(has_text="has already been cancelled").wait_for()


def test_all_250_jobs_of_a_filter_are_cancelled_and_the_others_are_not(world: World, page: Page) -> None:
    many_jobs(world, 250)
    done = world.submit("analytics.sessions")
    world.run(done, [compacted(2, 1, 1)])
    page.goto("/ui/jobs?status=pending")
    assert page.get_by_role("button", name="Cancel…").is_disabled()
    page.get_by_role("checkbox", name="Select all on this page").check()
    page.get_by_text("50 selected").wait_for()
    page.get_by_role("button", name="Select all 250 that match the filter").click()
    page.get_by_role("button", name="Cancel…").click()
    assert page.get_by_role("heading", name="Cancel all 250 jobs that match the filter?").is_visible()
    page.get_by_role("button", name="Cancel all 250").click()
    page.get_by_text("250 jobs cancelled.").wait_for()
    assert world.jobs.count().by_status[JobStatus.CANCELLED] == 250
    assert world.jobs.get(done.job_id).status is JobStatus.COMPLETED


def test_a_batch_reports_what_was_refused(world: World, page: Page) -> None:
    many_jobs(world, 120)
    ended = world.submit("analytics.sessions")
    world.run(ended, [compacted(2, 1, 1)])
    page.goto("/ui/jobs")
    page.get_by_role("button", name="Select all 121 in total").click()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel all 121").click()
    report = page.locator("#confirm-report")
    report.filter(has_text="120 jobs cancelled, 1 refused").wait_for()
    assert f"Job {ended.job_id} has already completed" in report.inner_text()
    page.get_by_role("button", name="Close").click()


def test_selected_jobs_are_deleted_and_others_are_not(world: World, page: Page) -> None:
    many_jobs(world, 5, JobStatus.FAILED)
    page.goto("/ui/jobs?status=failed")
    ids = rows(page)
    for job_id in ids[:2]:
        page.locator(f"[data-pick='{job_id}']").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete 2 jobs").click()
    page.get_by_text("2 jobs deleted.").wait_for()
    shows(page, 2)
    assert rows(page) == ids[2:]


def test_only_what_is_possible_is_offered_for_selected_jobs_and_done_to_those(world: World, page: Page) -> None:
    ended, waiting = world.submit("analytics.sessions"), world.submit("analytics.page_views")
    world.run(ended, [compacted(2, 1, 1)])
    page.goto("/ui/jobs")
    cancel, delete = page.get_by_role("button", name="Cancel…"), page.get_by_role("button", name="Delete…")
    page.locator(f"[data-pick='{ended.job_id}']").check()
    assert (cancel.is_disabled(), delete.is_disabled()) == (True, False)
    assert cancel.get_attribute("title") == "Only pending and running jobs can be cancelled."
    page.locator(f"[data-pick='{waiting.job_id}']").check()
    assert (cancel.is_disabled(), delete.is_disabled()) == (False, False)
    cancel.click()
    assert page.evaluate("document.activeElement.textContent") == "Keep as it is"
    page.get_by_role("button", name="Cancel 1 job", exact=True).click()
    page.get_by_text("1 job cancelled.").wait_for()
    assert [world.jobs.get(job.job_id).status.value for job in (ended, waiting)] == ["completed", "cancelled"]

    page.goto("/ui/jobs?status=completed&status=cancelled")
    page.get_by_role("checkbox", name="Select all on this page").check()
    assert (cancel.is_disabled(), delete.is_disabled()) == (True, False)


STICKS_OUT = """() => [...document.querySelectorAll('body *')].filter((each) => {
  if (!each.checkVisibility() || each.closest('.sr, .skip, svg, .lineage-scroll')) return false;
  const cut = each.matches('.scroll, pre') && each.scrollWidth > each.clientWidth;
  return cut || each.getBoundingClientRect().right > innerWidth + 1;
}).map((each) => `${each.tagName}.${each.className}`)"""
"""What is beyond the right edge, or behind the edge of what scrolls."""
NO_LINE = """() => [...document.querySelectorAll('main a:not(.tabs a), .banner a, .link')].filter((each) => {
  const style = getComputedStyle(each);
  const isBox = style.borderTopStyle === 'solid' && style.borderTopWidth !== '0px';
  return each.checkVisibility() && !each.closest('svg') && !isBox && style.textDecorationLine !== 'underline';
}).map((each) => each.outerHTML.slice(0, 80))"""
"""Links that only their colour distinguishes from text."""
UNLABELLED = "[...document.querySelectorAll('pre')].filter((each) => each.tabIndex || !each.ariaLabel).map((each) => each.id)"
"""Text that scrolls, and that the keyboard does not reach or a screen reader does not name."""


CARDS = {"tables": "Next step", "jobs": "Submitted", "locks": "Expires", "queue": "Instances", "audit": "Actor"}
"""A label of each list, which is beside its value on a phone."""


def test_on_a_phone_each_row_is_a_card_nothing_of_a_page_is_cut_and_links_have_a_line(world: World, page: Page) -> None:
    long, dotted = "no_spaces_" * 40, f"analytics.{'x' * 180}"
    failed = world.submit(dotted, owner=f"{'compact' * 20}/manual__2026-11-21T22:00:00+00:00/maintain_everything[0]")
    broken = did(Action.REWRITE_DATA_FILES, long, 4, {long: 1}, ActionOutcome.FAILED, long + "!")
    world.run(failed, [compacted(1284, 93, 521), broken], long, worker="worker-" * 30)
    running = world.submit("analytics.page_views", *Action)
    world.start(running, [compacted(2210, 141, 480)], worker="worker-" * 30)
    world.submit("payments.refunds")
    world.clock.move(minutes=20)
    keep(world, dotted, sick_health(partitions=1_000))
    world.jobs.set_drain(True, reason=long, actor=world.actor("v" * 60))
    build_schedules(world)
    jobs = [f"jobs/{job.job_id}" for job in (failed, running)] + ["schedules"]
    lists = ["tables", "jobs", "locks", "queue", "audit", "schedules/page_views_in_bulk", "pending", "events", "runs"]
    wrong = []
    tables = [f"tables/analytics/{'x' * 180}", "tables/analytics/page_views/metadata"]
    for path in ("", *tables, *jobs, *lists):
        page.goto(f"/ui/{path}")
        for width in (1600, 1280, 1000, 800, 400):
            page.set_viewport_size({"width": width, "height": 800})
            labels = page.evaluate(UNREADABLE_LABELS) if path.startswith(("tables/", "queue")) else []
            wrong += [(path, width, each) for each in labels + page.evaluate(STICKS_OUT)]
        wrong += [(path, each) for each in page.evaluate(NO_LINE) + page.evaluate(UNLABELLED)]
        if label := CARDS.get(path):
            assert not page.locator(".rows thead").first.is_visible()
            shown = page.locator(f".rows [data-label='{label}']").first
            assert shown.evaluate("(cell) => getComputedStyle(cell, '::before').content") == f'"{label}"'
            assert shown.evaluate("(cell) => cell.clientWidth >= 0.9 * (cell.parentNode.clientWidth - 24)"), path
    assert wrong == []


def test_times_are_in_the_zone_that_was_chosen_in_airflow(world: World, page: Page) -> None:
    world.clock.moment = datetime(2026, 11, 21, 22, 30, tzinfo=UTC)
    job = world.submit("analytics.page_views")
    page.goto(f"/ui/jobs/{job.job_id}")
    for zone, text in (("Asia/Kolkata", "22 Nov 2026, 04:00:00 GMT+5:30"), ("America/New_York", "21 Nov 2026, 17:30:00 GMT-5")):
        page.evaluate("(zone) => localStorage.setItem('timezone', JSON.stringify(zone))", zone)
        page.reload()
        assert page.locator("time").first.get_attribute("title") == f"{text}\n2026-11-21 22:30:00 UTC"
    # What another page of the same browser hears when the zone is changed there.
    page.evaluate("localStorage.setItem('timezone', '\"UTC\"'); dispatchEvent(new StorageEvent('storage', { key: 'timezone' }))")
    assert page.locator("time").first.get_attribute("title") == "21 Nov 2026, 22:30:00 UTC"
    page.evaluate("localStorage.setItem('timezone', 'no zone')")
    page.reload()
    assert page.locator("time").first.get_attribute("title"), "the zone of the browser"
    page.evaluate("localStorage.setItem('timezone', '\"Asia/Kolkata\"')")
    page.goto("/ui/queue")
    label, tooltip = page.locator(".axis[data-at]").first, page.locator("title[data-at]").last
    assert (label.text_content() or "").endswith(":30"), "a full hour in UTC"
    assert (tooltip.text_content() or "").startswith("04:00 GMT+5:30: ")


def test_a_failed_job_is_run_again_as_a_new_job(world: World, page: Page) -> None:
    job = world.submit("analytics.page_views")
    world.run(job, [did(Action.REWRITE_DATA_FILES, "Failed", 3, {}, ActionOutcome.FAILED, "no space")], "no space")
    page.goto(f"/ui/jobs/{job.job_id}")
    page.get_by_role("button", name="Re-run…", exact=True).click()
    page.locator("#confirm-go").click()
    page.wait_for_url(lambda url: "/ui/jobs/" in url and job.job_id not in url)
    page.get_by_text("Waiting for a worker: next in the queue").wait_for()
    (again,) = world.jobs.page(JobFilter(statuses=frozenset({JobStatus.PENDING}))).items
    assert page.url.endswith(again.job_id)
    assert again.actions == job.actions


def test_a_job_is_edited_and_run_again_with_its_options_to_the_last_digit(world: World, page: Page) -> None:
    snapshot = 2**63 - 25
    options = {"expire_snapshots": {"snapshot_ids": [snapshot]}, "rewrite_data_files": {"where": "month = '$&'"}}
    actions = (Action.REWRITE_DATA_FILES, Action.EXPIRE_SNAPSHOTS)
    job = world.jobs.submit(world.table("analytics.page_views"), actions, options=options, priority=7, actor=world.actor("jana"))
    page.goto(f"/ui/jobs/{job.job_id}")
    world.jobs.cancel(job.job_id)
    refresh(page)
    page.get_by_role("button", name="Edit and re-run…").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("checkbox", name="Expire snapshots").is_checked()
    assert not dialog.get_by_role("checkbox", name="Rewrite manifests").is_checked()
    assert not dialog.get_by_role("checkbox", name="Dry run").is_checked()
    written = dialog.get_by_role("textbox", name="Options")
    assert json.loads(written.input_value()) == options
    for text, refusal in (
        ("{", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"expire_snapshots": {"retain": 1}}', "retain"),
    ):
        written.fill(text)
        dialog.get_by_role("button", name="Maintain").click()
        dialog.get_by_role("alert").filter(has_text=refusal).wait_for()
    written.fill(json.dumps(options))
    dialog.get_by_role("textbox", name="Only rows where").fill("month = 4")
    dialog.get_by_role("button", name="Maintain").click()
    dialog.get_by_role("alert").filter(has_text="The options have a where of their own").wait_for()
    dialog.get_by_role("textbox", name="Only rows where").fill("")
    edited = {"expire_snapshots": {"retain_last": 4}, "compute_table_stats": {"snapshot_id": snapshot}}
    written.fill(json.dumps(edited))
    sent = list[str]()
    page.on("request", lambda request: sent.append(request.post_data or ""))
    dialog.get_by_role("checkbox", name="Rewrite data files").uncheck()
    dialog.get_by_role("button", name="Maintain").click()
    page.wait_for_url(lambda url: "/ui/jobs/" in url and job.job_id not in url)
    (again,) = world.jobs.page(JobFilter(statuses=frozenset({JobStatus.PENDING}))).items
    assert (again.actions, again.options, again.priority) == (("expire_snapshots",), {"expire_snapshots": {"retain_last": 4}}, 7)
    assert json.loads(next(text for text in sent if text))["options"] == edited
    (change,) = AuditTrail(world.store).of(again.job_id)
    assert (change.change, change.actor, change.via) == ("submit", "vera", "page")


def test_maintenance_is_dry_unless_that_is_taken_away_and_a_bad_priority_is_refused_in_the_dialog(
    world: World, page: Page
) -> None:
    page.goto("/ui/tables")
    page.get_by_role("button", name="Maintain payments.refunds").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("checkbox", name="Dry run").is_checked()
    assert dialog.get_by_role("checkbox", name="Rewrite data files").is_checked()
    dialog.get_by_role("checkbox", name="Expire snapshots").uncheck()
    dialog.get_by_role("checkbox", name="Dry run").uncheck()
    for value, refusal in (("soon", "Priority soon is not a whole number."), ("-1001", "-1000"), ("-", "whole number")):
        dialog.get_by_role("textbox", name="Priority").fill(value)
        dialog.get_by_role("button", name="Maintain").click()
        dialog.get_by_role("alert").filter(has_text=refusal).wait_for()
    assert world.jobs.list() == []

    dialog.get_by_role("textbox", name="Priority").fill("-7")
    dialog.get_by_role("button", name="Maintain").click()
    page.wait_for_url("**/ui/jobs/*")
    (job,) = world.jobs.list()
    assert (job.status, job.actions, job.submitted_by) == (JobStatus.PENDING, ("rewrite_data_files",), "vera")
    assert job.priority == -7
    assert page.locator("main").get_by_text("Priority", exact=True).is_visible()


def test_drain_mode_is_switched_on_with_a_reason_and_off_again(world: World, page: Page) -> None:
    page.goto("/ui/queue")
    page.get_by_role("button", name="Switch on…").click()
    assert page.evaluate("document.activeElement.textContent") == "Keep as it is"
    page.get_by_role("textbox", name="Reason").fill("moving to Postgres 18")
    page.keyboard.press("Enter")
    page.locator(".banner-drain").filter(has_text="vera: moving to Postgres 18").wait_for()
    assert world.jobs.drain().on
    page.get_by_role("button", name="Switch off…").click()
    page.get_by_role("button", name="Switch off", exact=True).click()
    page.get_by_role("heading", name="Drain mode is off").wait_for()
    assert not world.jobs.drain().on
    assert page.locator(".banner-drain").count() == 0


def test_a_lock_whose_worker_may_still_write_is_released_by_force_only(world: World, page: Page) -> None:
    job = world.submit("analytics.page_views")
    world.start(job)
    world.jobs.cancel(job.job_id, actor=world.actor())
    page.goto("/ui/locks")
    page.get_by_role("button", name="Release the lock of analytics.page_views").click()
    page.get_by_role("button", name="Release", exact=True).click()
    page.get_by_role("alert").filter(has_text="its worker has not left the table yet").wait_for()
    assert world.jobs.locks.list()
    page.get_by_role("button", name="Force it").click()
    page.get_by_role("heading", name="No table is locked").wait_for()
    assert world.jobs.locks.list() == []


def test_everything_can_be_done_with_the_keyboard(world: World, page: Page) -> None:
    first, second = world.submit("analytics.page_views"), None
    world.clock.move(seconds=1)
    second = world.submit("payments.refunds")
    page.goto("/ui/tables")
    keys = page.keyboard
    keys.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    keys.press("g")
    keys.press("j")
    page.wait_for_url("**/ui/jobs")
    keys.press("?")
    assert page.get_by_role("heading", name="Keyboard").is_visible()
    keys.press("Escape")
    keys.press("/")
    keys.type("refunds")
    shows(page, 1)
    keys.press("Control+a")
    keys.press("Delete")
    shows(page, 2)
    keys.press("Escape")
    keys.press("j")
    keys.press("x")
    assert page.locator(f"[data-pick='{second.job_id}']").is_checked()
    keys.press("j")
    keys.press("Enter")
    page.wait_for_url(f"**/ui/jobs/{first.job_id}")
    for _ in range(MANY_KEYS):
        if page.evaluate("document.activeElement.textContent") == "Cancel…":
            break
        keys.press("Tab")
    else:
        raise AssertionError("The keys do not lead to the button.")
    keys.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "Keep as it is"
    keys.press("Enter")
    assert not page.locator("#confirm").is_visible()
    assert world.jobs.get(first.job_id).status is JobStatus.PENDING
    keys.press("Enter")
    keys.press("Tab")
    assert page.evaluate("document.activeElement.id") == "confirm-go"
    keys.press("Enter")
    page.get_by_text("Cancelled the job.").wait_for()
    assert world.jobs.get(first.job_id).status is JobStatus.CANCELLED


def test_a_refresh_keeps_what_is_typed_selected_and_focused(world: World, page: Page) -> None:
    old = world.submit("analytics.page_views")
    page.goto("/ui/jobs")
    page.locator(f"[data-pick='{old.job_id}']").check()
    field = page.get_by_role("combobox", name="Table, as database.table")
    field.press_sequentially("analytics.pa")
    world.clock.move(seconds=5)
    world.submit("payments.refunds")
    refresh(page)
    shows(page, 2)
    assert field.input_value() == "analytics.pa"
    assert page.evaluate("document.activeElement.name") == "table"
    field.fill("")
    page.locator(f"a[href='/ui/jobs/{old.job_id}']").focus()
    world.clock.move(seconds=5)
    world.submit("analytics.sessions")
    refresh(page)
    shows(page, 3)
    assert page.evaluate("document.activeElement.getAttribute('href')") == f"/ui/jobs/{old.job_id}"
    assert page.locator(f"[data-pick='{old.job_id}']").is_checked()
    assert page.get_by_text("1 selected").is_visible()


def test_a_refresh_leaves_dialogs_details_and_selected_text_alone(world: World, page: Page) -> None:
    job = world.submit("analytics.page_views", *Action)
    world.start(job, [compacted(10, 2, 5)])
    page.goto(f"/ui/jobs/{job.job_id}")
    page.get_by_text("All metrics").click()
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#job-id'))")
    world.clock.move(minutes=3)
    refresh(page)
    assert page.evaluate("getSelection().toString()").strip() == job.job_id
    page.get_by_role("button", name="Cancel…").click()
    world.jobs.cancel(job.job_id, actor=world.actor("jana"))
    refresh(page)
    page.get_by_text("Re-run the job if the table still needs maintenance.").wait_for()
    assert page.get_by_role("heading", name="Cancel this job?").is_visible()
    assert page.locator("details[open]").count() == 1


def test_a_page_refreshes_by_itself_until_it_is_paused(world: World, page: Page) -> None:
    job = world.submit("analytics.page_views")
    page.clock.install()
    page.goto(f"/ui/jobs/{job.job_id}")
    world.start(job, worker="worker-3")
    page.clock.run_for(6_000)
    page.get_by_text("is running on worker-3").wait_for()
    page.get_by_role("button", name="Live").click()
    world.jobs.cancel(job.job_id, actor=world.actor())
    page.clock.run_for(60_000)
    page.wait_for_timeout(300)
    assert page.get_by_text("is running on worker-3").is_visible()
    page.get_by_role("button", name="Paused").click()
    page.get_by_text("Re-run the job if the table still needs maintenance.").wait_for()


def test_a_server_that_does_not_answer_is_told_and_forgotten_when_it_is_back(world: World, page: Page, auth: SomebodyIs) -> None:
    world.submit("analytics.page_views")
    page.goto("/ui/jobs")
    page.route("**/ui/jobs", lambda route: route.abort())
    page.evaluate("dispatchEvent(new Event('online'))")
    page.get_by_role("alert").filter(has_text="The server does not respond.").wait_for()
    assert len(rows(page)) == 1
    page.unroute("**/ui/jobs")
    refresh(page)
    page.locator("#trouble").wait_for(state="hidden")


def test_what_people_wrote_runs_nowhere(world: World, page: Page) -> None:
    job = world.jobs.submit(world.table("analytics.page_views"), ["rewrite_data_files"], submitted_by=HOSTILE, owner=HOSTILE)
    world.run(job, [did(Action.REWRITE_DATA_FILES, HOSTILE, 1, {}, ActionOutcome.FAILED, HOSTILE + "!")], HOSTILE, worker=HOSTILE)
    world.jobs.locks.acquire(world.table("payments.refunds"), HOSTILE, ttl=timedelta(hours=1))
    world.jobs.set_drain(True, reason=HOSTILE, actor=world.actor(HOSTILE))
    for path in ("/ui/", "/ui/tables", "/ui/jobs", f"/ui/jobs/{job.job_id}", "/ui/locks", "/ui/queue", "/ui/audit"):
        page.goto(path)
        refresh(page)
        assert HOSTILE[:30] in page.locator("body").inner_text()
        assert page.evaluate("window.hacked") is None
        assert page.locator("img").count() == 0
    page.goto("/ui/locks")
    page.get_by_role("button", name="Release the lock of payments.refunds").click()
    assert HOSTILE in page.locator("#confirm-text").inner_text()
    page.get_by_role("button", name="Release", exact=True).click()
    page.get_by_role("heading", name="No table is locked").wait_for()
    page.goto("/ui/audit")
    page.get_by_role("searchbox", name="Actor").fill(HOSTILE)
    page.wait_for_url("**actor=**")
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_background_in_light_and_dark(world: World, page: Page, scheme: Any) -> None:
    done = world.submit("analytics.page_views", by="jana")
    world.run(done, [compacted(10, 2, 5), expired(3, 4, 1)])
    failed = world.submit("analytics.sessions")
    world.run(failed, [did(Action.REWRITE_DATA_FILES, "Failed", 3, {}, ActionOutcome.CONFLICT, "lost")], "lost")
    world.start(world.submit("payments.refunds"))
    world.jobs.set_drain(True, reason="an upgrade", actor=world.actor())
    keep(world, "analytics.page_views", sick_health())
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    jobs = ["jobs", f"jobs/{done.job_id}", f"jobs/{failed.job_id}"]
    for path in [
        f"/ui/{rest}" for rest in ("", "tables", "tables/analytics/page_views", *jobs, "locks", "queue", "audit", "nothing")
    ]:
        page.goto(path)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
        assert page.evaluate(CONTRAST) == [], path
    page.goto("/ui/queue")
    page.evaluate("document.querySelector('h1').style.color = getComputedStyle(document.body).backgroundColor")
    assert [found.split(":")[0] for found in page.evaluate(CONTRAST)] == ["Queue"], "it would be found"


def test_inside_of_airflow_the_page_follows_its_colours_its_links_lead_out_and_its_address_is_told(
    world: World, auth: SomebodyIs, open_page: Callable[..., Page]
) -> None:
    job = world.submit("analytics.page_views", owner="nightly/run-1/compact")
    auth.probes_are_open = False
    page = open_page(framed(app_of(world, auth)), allowed=REFUSED, color_scheme="light")
    page.goto("/browse")
    frame = page.frame_locator("iframe")
    frame.locator("tr[data-key]").wait_for()
    inside = page.frames[1]
    assert inside.evaluate("document.documentElement.dataset.theme") == "dark"
    page.evaluate("document.documentElement.className = 'light'")
    frame.locator("html[data-theme=light]").wait_for()
    loads = page.evaluate("window.loads")
    frame.get_by_role("searchbox", name="Search jobs").fill("views")
    page.wait_for_function("loads => window.loads.length > loads.length", arg=loads)
    assert page.evaluate("window.loads.at(-1)") == "/snowpack/ui/jobs?search=views"
    frame.locator(f"a[href='/snowpack/ui/jobs/{job.job_id}']").click()
    frame.get_by_role("link", name="Task in Airflow").click()
    page.wait_for_url("**/dags/nightly/runs/run-1/tasks/compact")


def test_a_person_signs_in_to_the_pages_that_are_served_alone(world: World, open_page: Callable[..., Page]) -> None:
    job = world.submit("analytics.page_views")
    page = open_page(app_of(world, TokenAuth("a-token-of-some-length")), allowed=REFUSED)
    page.goto(f"/ui/jobs/{job.job_id}")
    page.get_by_label("Token").fill("not the token")
    page.keyboard.press("Enter")
    page.get_by_text("That is not the token.").wait_for()
    page.get_by_label("Token").fill("a-token-of-some-length")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**/ui/jobs/{job.job_id}")
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Cancel the job").click()
    page.get_by_text("Re-run the job if the table still needs maintenance.").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Authentication required").wait_for()


def test_ten_thousand_jobs_are_a_page_of_fifty_and_an_offer_for_all(world: World, page: Page) -> None:
    many_jobs(world, 10_000, JobStatus.COMPLETED)
    page.goto("/ui/jobs?status=completed")
    assert len(rows(page)) == 50
    page.get_by_role("button", name="Select all 9,999 that match the filter").wait_for()
    page.get_by_role("link", name="Older").click()
    page.wait_for_url("**cursor=**")
    assert len(rows(page)) == 50


def framed(app: ASGIApp) -> ASGIApp:
    """A page that shows the app in a frame as Airflow does, which notes the frame's addresses as Airflow does."""
    around = f"""<!doctype html><html class="dark"><title>Airflow</title><script>window.loads = [];
      const note = (frame) => loads.push(frame.contentWindow.location.pathname + frame.contentWindow.location.search);</script>
      <iframe sandbox="{SANDBOX}" src="/snowpack/ui/jobs" width=1200 height=700 onload="note(this)"></iframe>"""

    async def browse(request: object) -> HTMLResponse:
        return HTMLResponse(around)

    async def task(request: object) -> HTMLResponse:
        return HTMLResponse("<!doctype html><title>A task instance</title>")

    routes = [Route("/browse", browse), Route("/dags/{rest:path}", task), Mount("/snowpack", app)]
    return Starlette(routes=routes)
