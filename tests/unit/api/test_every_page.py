"""What all pages have in common: an empty one says why, whatever was written is text, and a reader sees no button."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from builds_world import FAILED, SELECTED, THIRD, make_builds
from interim_world import handed_on, holder, make_interim
from lineage_world import REPORT, make_lineage
from made_images import ImageMaker, make_images
from page_reading import HOSTILE, Browser, words
from pages_world import SomebodyIs, World, did
from planned_removals import plan_removal
from schedules_world import make_schedules, register_runs

from airflow_snowpack.jobs import ActionOutcome
from airflow_snowpack.lineage.operation import Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.scheduling import Delay, Event, Gate, GatePlace, RegisteredRun
from airflow_snowpack.store.tables.jobs import inventory_refreshes

if TYPE_CHECKING:
    from fastapi import FastAPI

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds")
EMPTY = {
    "": "No job has ended in the last 24 h.",
    "tables": "No maintenance yet. Start with a dry run.",
    "jobs": "Jobs come from a DAG",
    "schedules": "A schedule starts a DAG when enough data has arrived",
    "runs": "No registered runs yet",
    "pending": "An event of an enabled schedule creates a pending run.",
    "events": "Commits to tables of schedules",
    "builds": "No builds yet",
    "interim": "@task.snowpack",
    "lineage": "Lineage",
    "queue": "No jobs in the last 24 hours.",
    "locks": "A job locks its table from submission until it ends.",
    "removals": "No removals",
    "images": "build=ImageBuild(…)",
    "audit": "No changes yet",
}
"""Each list, and what it shows an installation that has nothing of it."""
NARROWED = {
    "schedules?search=nothing": "No matching schedules",
    "runs?search=nothing": "No matching registered runs",
    "pending?schedule=nothing": "No matching pending runs",
    "events?key=event:never": "No matching events",
    "builds?cursor=zzz": "No more datasets",
    "interim?dag=other": "No matching interim tables",
    "removals?state=failed&cursor=bent": "No matching removals",
}
NOT_THERE = {
    "jobs/nope": "Job not found",
    "jobs/<script>": "Job not found",
    "schedules/never": "Schedule not found",
    "schedules/1x": "Schedule not found",
    "schedules/a%00b": "Schedule not found",
    "builds/nothing": "Dataset not found",
    "builds/..%2Fx": "Dataset not found",
    f"images/{'0' * 64}": "No image of this key",
    "images/<script>": "No image of this key",
    "nothing/here": "Page not found",
}
FILTER = "&".join(f"{name}={HOSTILE}" for name in ("search", "database", "show", "subject", "actor", "dag_id", "table", "key"))


@pytest.fixture
def paths(world: World, tmp_path: Path) -> list[str]:
    """The addresses of all pages, of an installation with one of everything, in which every text is hostile."""
    store, actor = world.store, world.actor(HOSTILE)
    job = world.jobs.submit(world.table(TABLES[0]), ["rewrite_data_files"], submitted_by=HOSTILE, owner=HOSTILE)
    result = did(Action.REWRITE_DATA_FILES, HOSTILE, 1, {HOSTILE: 1}, ActionOutcome.FAILED, f"{HOSTILE} more")
    world.run(job, [result], HOSTILE, worker=HOSTILE)
    running = world.jobs.submit(world.table(TABLES[2]), [HOSTILE], options={HOSTILE: {"where": HOSTILE}})
    world.start(running, worker=HOSTILE)
    world.jobs.locks.acquire(world.table(TABLES[1]), HOSTILE, ttl=timedelta(hours=1))
    world.jobs.set_drain(True, reason=HOSTILE, actor=actor)
    world.installation.health_records.unreadable(world.table(TABLES[0]), "", HOSTILE)
    left_out = {"count": 1, "first": [[HOSTILE, HOSTILE]]}
    store.transact(lambda conn: conn.execute(sa.update(inventory_refreshes).values(left_out=left_out)))

    schedules = make_schedules(world)
    schedules.create("hostile", {"custom_events": {"name": HOSTILE}}, description=HOSTILE, conf={"x": HOSTILE})
    schedules.log.publish([Event(f"event:{HOSTILE}", world.clock(), {HOSTILE: 1}, {HOSTILE: HOSTILE})])
    schedules.work()
    nobody_is_asked: Any = None
    Gate(store, nobody_is_asked, GatePlace("gentle", HOSTILE, "gate"), [Delay("10m")]).ask()
    register_runs(world).register(RegisteredRun("hostile_run", "other", {HOSTILE: HOSTILE}, description=HOSTILE))
    make_builds(store, tmp_path)
    interim = make_interim(store)
    handed_on(interim.registry, holder(HOSTILE, run_id=HOSTILE, dag_id=HOSTILE), rows=1, consumers=[HOSTILE])
    make_lineage(store, store.clock())
    note_operation(store, Operation(OperationKind.COPY, store.clock(), (TableAt(HOSTILE),), (REPORT,)))
    made, maker = make_images(store), ImageMaker(store)
    maker.fail(maker.begin(image := maker.request(dockerfile=HOSTILE)), HOSTILE, HOSTILE)
    maker.begin(maker.request(dockerfile=f"other/{HOSTILE}"), HOSTILE)
    removal = plan_removal(store, world.table(TABLES[1]))
    rejected = plan_removal(store, world.table(TABLES[2]))
    Removals(store).reject(rejected.removal_id, actor=actor, comment=HOSTILE)
    runs = [f"builds/flights/runs/{run_id}" for run_id in (THIRD, FAILED, SELECTED)]
    images = [f"images/{key}" for key in (image, made.ready.key, made.building.key)]
    removals = [f"removals/{one.removal_id}" for one in (removal, rejected)]
    entries = [f"jobs/{one.job_id}" for one in (job, running)] + [
        "tables/analytics/page_views",
        "tables/analytics/page_views/metadata",
        "schedules/hostile",
    ]
    more = ["schedules/counts", "builds/flights", "builds/flights?plan=yes", "lineage?table=flights.report"]
    return [*EMPTY, *entries, *more, *runs, *images, *removals]


def test_an_empty_page_says_why_it_is_empty_and_what_to_do(browser: Browser) -> None:
    for path, shown in (EMPTY | {"images?state=failed": "No matching images"}).items():
        assert shown in words(browser.get(f"/ui/{path}")), path


def test_what_is_not_there_is_a_page_that_says_so(browser: Browser) -> None:
    for path, title in NOT_THERE.items():
        answer = browser.get(f"/ui/{path}")
        assert (path, answer.status_code, title in answer.text) == (path, 404, True)
        assert answer.headers["content-type"].startswith("text/html")


def test_whatever_people_wrote_is_text_and_every_address_is_below_the_root_of_the_app(
    app: FastAPI, auth: SomebodyIs, paths: list[str]
) -> None:
    auth.user = SomebodyIs(HOSTILE).user
    browser = Browser(app, root_path="/snowpack")
    for path in (*paths, *(f"{path}?{FILTER}" for path in EMPTY if path), *NOT_THERE):
        answer = browser.get(f"/snowpack/ui/{path}")
        page, policy = answer.text, answer.headers["content-security-policy"]
        assert answer.status_code == (404 if path in NOT_THERE else 200), path
        assert ("default-src 'self'" in policy, "frame-ancestors 'self'" in policy, "unsafe" in policy) == (True, True, False)
        assert not re.search(r"<script>alert|<img|<style|<script(?![^>]*\bsrc=)|=\"[^\"<>]*<", page), path
        tags = [re.sub(r'"[^"]*"|\'[^\']*\'', '""', tag) for tag in re.findall(r"<[a-z][^>]*>", page)]
        assert not [tag for tag in tags if re.search(r"\s(?:on\w+|style)=", tag)], path
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', page)
        assert [address for address in addresses if not address.startswith(("/snowpack/", "?", "#"))] == [], path
        assert 'data-root="/snowpack"' in page
        assert ("Drain mode is on" in page) is (path not in NOT_THERE), path


@pytest.mark.usefixtures("paths")
def test_a_list_without_an_entry_that_matches_says_so(browser: Browser) -> None:
    for path, shown in NARROWED.items():
        assert shown in words(browser.get(f"/ui/{path}")), path


def test_a_reader_sees_no_button_that_would_be_refused_and_whoever_is_not_signed_in_learns_only_that(
    browser: Browser, auth: SomebodyIs, paths: list[str]
) -> None:
    assert any("data-method" in browser.text(f"/ui/{path}") for path in paths)
    auth.user = SomebodyIs("vic", may_edit=False).user
    for path in paths:
        page = browser.text(f"/ui/{path}")
        assert not re.search(r'data-(method="(?!GET")|(body|maintain|dry-run|batch|pick|rerun)=)', page), path
        assert "read only" in page
    auth.user = None
    for path in (*paths, *NOT_THERE, "static"):
        answer = browser.get(f"/ui/{path}")
        assert (answer.status_code, "analytics" in answer.text) == (401, False), path
