"""The pages of schedules, pending jobs and events through the app itself, on a real store."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from page_reading import HOSTILE, Browser, row, words
from pages_world import SomebodyIs, World
from schedules_world import PAUSED, Made, make_schedules

from airflow_snowpack.api.pages.schedules import declared
from airflow_snowpack.scheduling import (
    Delay,
    Gate,
    GatePlace,
    MaxRuns,
    SinceLastRun,
    TimeWindow,
    parse_schedules,
    run_now,
)
from airflow_snowpack.scheduling.sources.source import ProblemKind, SourceProblem, record_problems
from airflow_snowpack.store.signs_of_life import Role, SignOfLife


@pytest.fixture
def made(world: World) -> Made:
    return make_schedules(world)


def test_a_schedule_shows_how_far_its_trigger_is_what_blocks_it_and_why_its_run_cannot_be_started(
    browser: Browser, made: Made
) -> None:
    page = browser.get("/ui/schedules")

    counting = row(page, "counts")
    assert "3 of 5 partitions of analytics.page_views and 38.2 GiB of 93.1 GiB of analytics.page_views" in counting
    assert "or less than 4 h since the last launch" in counting
    assert 'width="600"' in page.text
    assert 'width="410"' in page.text

    delayed = row(page, "is_delayed")
    assert "delay delayed by 10 min until" in delayed
    assert "max concurrent 0 of at most 2 runs of maintain_page_views are active" in delayed

    assert f"starting {PAUSED}" in row(page, "cannot_start")

    page = browser.get("/ui/audit")

    assert 'href="/ui/schedules/counts"' in page.text
    assert "created" in words(page)

    (shown,) = re.findall(r'<pre id="definition"[^>]*>(.*?)</pre>', browser.get("/ui/schedules/counts").text, re.DOTALL)
    assert parse_schedules(html.unescape(shown), "page") == [made.schedules.get("counts").schedule]


def test_a_schedule_shows_its_sources_what_is_wrong_with_them_and_its_deadline(browser: Browser, made: Made) -> None:
    made.create("joined", {"all_of": [{"commits_added": "web.a"}, {"runs_succeeded": "gone"}]})
    store = made.world.store
    found = SourceProblem.found(ProblemKind.MISSING, store.clock())
    record_problems(store, {"table:lake.web.a": found, "dag:gone": found}, {})
    shown = words(browser.get("/ui/schedules/joined"))
    assert "Its trigger cannot be satisfied at present: the table web.a does not exist; the DAG gone does not exist." in shown
    assert "No scheduler is running" in shown
    assert "table web.a the table web.a does not exist found" in shown
    assert "dag gone the DAG gone does not exist found" in shown
    assert "the table web.a does not exist" in row(browser.get("/ui/schedules"), "joined")
    assert words(browser.get("/ui/schedules")).count("No scheduler is running") == 1
    SignOfLife(store, Role.SCHEDULER).beat()
    assert "No scheduler is running" not in words(browser.get("/ui/schedules"))

    inputs = {"all_of": [{"custom_events": {"name": name}} for name in ("left", "right")]}
    made.create("morning", {"at_latest": {"trigger": inputs, "by": {"cron": "0 7 * * *"}}})
    shown = words(browser.get("/ui/schedules/morning"))
    assert "0 of 1 events named left and 0 of 1 events named right or at the latest by 0 7 * * * (UTC)" in shown
    assert "runs at the latest in" in shown


def test_a_duration_of_a_constraint_is_shown_as_people_write_it() -> None:
    made = [Delay("5m"), SinceLastRun("90m"), MaxRuns(3, "1d"), TimeWindow("22:00", "06:00")]
    assert [declared(each) for each in made] == [
        "period 5 min",
        "period 1 h 30 min",
        "limit 3, per 1 d",
        "start 22:00, end 06:00",
    ]


def test_the_last_launches_lead_to_the_runs_in_airflow(browser: Browser, made: Made, auth: SomebodyIs) -> None:
    auth.probes_are_open = False
    (launch,) = made.airflow.started
    address = f"/af/dags/maintain_page_views/runs/{launch.run_id}"

    assert f'href="{address}" target="_top"' in browser.get("/af/snowpack/ui/schedules", root="/af/snowpack").text
    assert f'href="{address}" target="_top"' in browser.get("/af/snowpack/ui/schedules/launched", root="/af/snowpack").text
    assert "/af/dags/" not in browser.get("/ui/schedules").text


def test_schedules_are_narrowed_by_the_address(browser: Browser, made: Made) -> None:
    def names(query: str) -> list[str]:
        return re.findall(r'<tr data-key="(\w+)">', browser.get(f"/ui/schedules?{query}").text)

    assert names("state=suspended") == ["suspended"]
    assert names("dag=maintain_paused") == ["cannot_start"]
    assert names("search=COUNT") == ["counts"]
    assert names("state=lost") == ["cannot_start", "counts", "is_delayed", "launched", "suspended"]


def test_a_long_list_goes_by_pages(browser: Browser, made: Made) -> None:
    for number in range(60):
        made.create(f"z{number:02}", {"every": "1h"})
    first = browser.get("/ui/schedules").text
    (address,) = re.findall(r'href="\?(cursor=[^"]+)" rel="next"', first)
    rest = browser.get(f"/ui/schedules?{address}").text

    assert len(re.findall(r"<tr data-key", first)) == 50
    assert len(re.findall(r"<tr data-key", rest)) == 15
    assert 'rel="next"' not in rest


def test_the_page_of_a_schedule_tells_all_of_it(browser: Browser, made: Made) -> None:
    run_now(made.schedules, "launched")
    page = browser.get("/ui/schedules/launched")
    said = words(page)

    assert "launched is enabled and starts maintain_page_views." in said
    assert "After the shop has closed." in said
    assert "name: launched" in said
    assert "success" in said
    assert "jana ran it via api" in said
    for what in ("launched", "triggered", "requested", "created"):
        assert f"<span>{what}</span>" in page.text
    assert "is starting" in said


def test_the_queue_shows_states_reasons_and_next_checks_and_is_narrowed_by_the_address(browser: Browser, made: Made) -> None:
    rows = re.findall(r"<tr data-key.*?</tr>", browser.get("/ui/pending").text, re.DOTALL)
    rows_by_name = {text.split()[0]: text for text in (" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows)}

    assert "waits for its trigger" in rows_by_name["counts"]
    assert "waits for its constraints trigger 3 of 1 partitions" in rows_by_name["is_delayed"]
    assert "delay delayed by 10 min until" in rows_by_name["is_delayed"]
    assert f"starting {PAUSED}" in rows_by_name["cannot_start"]
    assert len(rows_by_name) == 3

    assert "counts" not in browser.get("/ui/pending?state=pending_launch").text
    assert len(re.findall(r"<tr data-key", browser.get("/ui/pending?schedule=counts").text)) == 1
    assert len(re.findall(r"<tr data-key", browser.get("/ui/pending?cursor=bent").text)) == 3


def test_runs_that_wait_at_a_gate_stand_below_the_queue(browser: Browser, world: World) -> None:
    assert "Runs at gates" not in browser.get("/ui/pending").text
    nobody_is_asked: Any = None
    for run_id in ("manual__1", HOSTILE):
        Gate(world.jobs.store, nobody_is_asked, GatePlace("gentle", run_id, "gate"), [Delay("10m")]).ask()

    page = browser.get("/ui/pending")

    assert "manual__1 gate delayed by 10 min, until" in words(page)
    assert HOSTILE not in page.text
    assert "Runs at gates" not in browser.get("/ui/pending?schedule=counts").text


def test_the_log_shows_what_came_and_is_narrowed_by_its_key(browser: Browser, made: Made) -> None:
    said = words(browser.get("/ui/events"))
    assert "event:orders_closed" in said
    assert "table:lake.analytics.page_views" in said
    assert "3 partitions" in said
    assert "All events are matched to schedules." in said
    only = browser.get("/ui/events?key=event:orders_closed").text
    assert len(re.findall(r"<tr data-key", only)) == 1

    made.arrive(1)
    assert "1 event not matched to schedules yet" in words(browser.get("/ui/events"))


@pytest.mark.parametrize("definition", [{"name": "counts", "trigger": {"moon_phase": "full"}}, [1], None], ids=str)
def test_a_schedule_that_cannot_be_read_is_shown_with_the_reason_beside_the_others(
    browser: Browser, made: Made, definition: Any
) -> None:
    made.overwrite("counts", definition)
    assert "not readable" in row(browser.get("/ui/schedules"), "counts")
    assert "is not usable" in row(browser.get("/ui/schedules"), "counts")
    assert "Delete…" in row(browser.get("/ui/schedules"), "counts")
    assert "delayed by 10 min" in row(browser.get("/ui/schedules"), "is_delayed")
    page = words(browser.get("/ui/schedules/counts"))
    assert "Its definition cannot be read by this version" in page
    assert "Its events are kept" in page
    assert "counts" in words(browser.get("/ui/pending"))
