"""The home page: what happened last night, failures by cause with what can be run again, and the tables in need."""

from __future__ import annotations

import re
from datetime import timedelta

from health_pages_world import keep
from made_health import made_health, sick_health
from page_reading import Browser, words
from pages_world import World, compacted, did
from wrong_things import refuse

from airflow_snowpack.api.metrics import Metrics
from airflow_snowpack.jobs import ActionOutcome, Job
from airflow_snowpack.jobs.withdrawal import withdraw
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.report import PassReport

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds", "payments.transactions")


def fail(world: World, dotted: str, error: str) -> Job:
    job = world.submit(dotted)
    world.run(job, [did(Action.REWRITE_DATA_FILES, "Failed", 4, {}, ActionOutcome.FAILED, error)], error)
    return job


def test_the_home_page_says_what_happened_and_links_to_it(world: World, browser: Browser) -> None:
    world.run(world.submit(TABLES[0]), [compacted(1284, 93, 521)])
    fail(world, TABLES[1], "Disk full on 10.0.0.7")
    keep(world, TABLES[2], sick_health(partitions=2, small=4_000))
    keep(world, TABLES[0], made_health())
    page = browser.text("/ui/")
    said = words(page)
    assert "2 jobs, 1 failed for one cause, 900.0 MiB rewritten, no table sick, 1 table fair, 2 tables not read yet." in said
    assert "Disk full on …" in said
    assert re.findall(r'href="(/ui/tables/[^"]+)"', page) == ["/ui/tables/analytics/sessions", "/ui/tables/payments/refunds"]
    assert '<a class="tile" href="#failures"' in page
    assert 'id="failures"' in page
    assert "No pass yet." in said


def test_jobs_that_a_pass_withdrew_are_named_so_on_every_page(world: World, browser: Browser) -> None:
    keep(world, TABLES[2], sick_health(partitions=2, small=4_000))
    withdrawn = [world.submit(dotted) for dotted in TABLES[2:]]
    world.jobs.cancel(world.submit(TABLES[0]).job_id, actor=world.actor())
    ids = [job.job_id for job in withdrawn]
    world.store.transact(lambda conn: withdraw(conn, ids, "The time of the pass was over.", world.clock()))

    home = words(browser.text("/ui/"))
    assert "1 job, none failed, 2 withdrawn, no table sick, 1 table fair, 3 tables not read yet." in home
    assert "1 job ended, 2 withdrawn" in home
    assert "0 tables still sick, 1 fair, 3 not read yet" in home
    listed = browser.text("/ui/jobs?status=cancelled")
    assert "Cancelled or withdrawn 3" in words(listed)
    assert sorted(re.findall(r'tone-neutral">(\w+)<', listed)) == ["cancelled", "withdrawn", "withdrawn"]
    page = browser.text(f"/ui/jobs/{ids[0]}")
    assert "<h2>Withdrawn</h2>" in page
    assert "The time of the pass was over. The next pass plans the table again." in words(page)
    assert "Cancelled" not in page
    assert browser.get(f"/jobs/{ids[0]}").json()["status"] == "cancelled"


def test_a_group_of_failures_is_run_again_with_the_jobs_that_no_newer_job_has_replaced(world: World, browser: Browser) -> None:
    failed = [fail(world, dotted, "Disk full") for dotted in TABLES[:3]]
    world.run(world.submit(TABLES[0]), [compacted(10, 1, 2)])
    world.jobs.locks.acquire(world.table(TABLES[1]), "etl/close", ttl=timedelta(hours=1))
    page = browser.text("/ui/")
    (ids,) = re.findall(r'data-rerun="([^"]+)"', page)
    assert set(ids.split()) == {job.job_id for job in failed[1:]}
    assert "Re-run 2 jobs" in words(page)
    assert "1 job of a table with a newer job is left out of the re-run." in words(page)
    assert f"Locked now, so that a re-run is refused: {TABLES[1]}." in words(page)


def test_an_address_of_the_list_of_tables_that_was_here_leads_to_it(browser: Browser) -> None:
    answer = browser.get("/ui/?search=page%20views&show=failed")
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/tables?search=page%20views&show=failed")


def test_the_digest_of_the_api_has_the_text_of_the_home_page(world: World, browser: Browser) -> None:
    failed = fail(world, TABLES[1], "Disk full on 10.0.0.7")
    answer = browser.get("/digest").json()
    first = answer["text"].splitlines()[0]
    assert first in words(browser.text("/ui/"))
    assert answer["jobs"]["failed"] == 1
    assert [group["to_rerun"] for group in answer["failures"]] == [[failed.job_id]]


def test_the_report_of_the_last_pass_is_on_the_home_page(world: World, browser: Browser) -> None:
    passes = world.installation.fleet_passes
    planning = passes.begin("nightly/run/plan", "lake", "", Budget(), workers=1, holder="pod-1")
    planned = passes.plan(planning, [], [], {"listed": 4, "healthy": 4})
    passes.keep_report(planned, PassReport.of(planned, [], world.clock()).to_json())
    said = words(browser.text("/ui/"))
    assert "Running, started just now by nightly/run/plan" in said
    assert "4 tables: 0 unchanged, 4 healthy, 0 maintained" in said


def test_receivers_that_refuse_notifications_are_on_the_home_page_and_in_the_metrics(world: World, browser: Browser) -> None:
    refuse(world.store, "ana", "once", times=2)
    assert "not delivered" not in browser.text("/ui/")
    refuse(world.store, "ana", "<i>Refused</i> by https://u:s3cret@chat.example.com/hook?token=t0k3n", times=1)
    page = browser.text("/ui/")
    problem = "&lt;i&gt;Refused&lt;/i&gt; by https://chat.example.com/hook"
    assert f"Notifications to ana are not delivered, after 3 attempts: {problem}. Next attempt <time " in page
    assert b'snowpack_notification_failures{receiver="ana"} 3.0' in Metrics().text(world.services)
