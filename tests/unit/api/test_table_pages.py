"""The page of a table, and the list of tables by their need: from stored rows, whatever the catalog does."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
import sqlalchemy as sa
from committed_table import COMMITTED, make_commits
from health_pages_world import keep
from made_health import made_health, made_partition, sick_health
from page_reading import HOSTILE, Browser, row, words
from pages_world import SomebodyIs, World, compacted, open_world

from airflow_snowpack.api.pages.charts import HeatMap, Series, heat_map, line_chart, size_chart
from airflow_snowpack.api.services import LazyServices
from airflow_snowpack.iceberg import CatalogConfig, CatalogUnreachable, TableNumbers
from airflow_snowpack.iceberg.health import SnapshotLog
from airflow_snowpack.inventory import Condition, Inventory, TableScores
from airflow_snowpack.maintenance.fleet import Budget, EntryState, PassEntry
from airflow_snowpack.maintenance.planning.table_plan import plan_table
from airflow_snowpack.maintenance.policies import Policies, PoliciesFile
from airflow_snowpack.scheduling import Schedule, parse_trigger

if TYPE_CHECKING:
    from fastapi import FastAPI

TABLES = ("analytics.page_views", "analytics.sessions", "payments.refunds", "payments.transactions")
PAGE = "/ui/tables/analytics/page_views"
MOST_STATEMENTS = 40
"""Of the page of a table with the frame around it."""


def statements(world: World, browser: Browser, path: str) -> int:
    """Count the statements of a request."""
    seen: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if not threading.current_thread().name.startswith("snowpack-"):  # another thread refreshes the list of tables
            seen.append(statement)

    sa.event.listen(world.store.engine, "before_cursor_execute", note)
    browser.text(path)
    sa.event.remove(world.store.engine, "before_cursor_execute", note)
    return len(seen)


def test_a_table_shows_its_score_its_partitions_and_a_plan_with_reasons(world: World, browser: Browser) -> None:
    keep(world, "analytics.page_views", sick_health())
    page = browser.text(PAGE)
    said = words(page)
    assert "1,200 of 1,230 data files below 384.0 MiB" in said
    assert "Rewrite data files run 1,200 of 1,230 files below 384.0 MiB" in said
    assert "Expire snapshots skip" in said
    assert [each for each in ("month=1", "month=2", "month=3") if each in said] == ["month=1", "month=2", "month=3"]
    assert "≥512 MiB: 30 data files" in page
    assert re.search(r'aria-label="How many data files have a size in each range: [^"]*≥512 MiB: 30 data files"', page)
    assert page.count('<path class="line-running"') == 2
    assert 'data-actions="rewrite_data_files' in page


def test_the_plan_of_a_table_can_be_run_by_those_who_may_edit_when_it_runs_an_action(
    world: World, browser: Browser, auth: SomebodyIs
) -> None:
    keep(world, "analytics.page_views", sick_health())
    assert re.search(r"<button [^>]*data-body='{\"actions\": \[\"auto\"\]}'[^>]*>Run the plan…", browser.text(PAGE))
    editor, auth.user = auth.user, SomebodyIs("vic", may_edit=False).user
    assert "Run the plan" not in browser.text(PAGE)
    auth.user = editor
    keep(world, "analytics.page_views", made_health())
    assert "Run the plan" not in browser.text(PAGE)


def test_a_table_of_many_partitions_shows_how_many_there_are_and_one_that_was_never_written_that_it_was_not(
    world: World, browser: Browser
) -> None:
    keep(world, "analytics.page_views", sick_health(partitions=1_000, small=7))
    page = browser.text(PAGE)
    assert "Partitions that need maintenance most 10 of 1,000" in words(page)
    assert page.count('<th scope="row" class="name">month=') == 10
    assert "never written" not in page
    never = {"totals": TableNumbers(), "data_files": 0, "snapshots": SnapshotLog((), (), (), ()), "partitions": (), "refs": ()}
    keep(world, "analytics.sessions", made_health(**never, partition_count=0, file_sizes=()))
    assert "The table was never written: it has no snapshot." in words(browser.text("/ui/tables/analytics/sessions"))


@pytest.mark.parametrize(
    ("days", "shown_as", "characters"), [(30, "day", 6), (2, "minute", 13), (1, "hour", 6), (0, "minute", 13)]
)
def test_the_labels_of_a_narrow_chart_do_not_overlap(days: int, shown_as: str, characters: int) -> None:
    first = datetime(2026, 11, 1, tzinfo=UTC)
    chart = line_chart([Series("score", "running", [(first, 7), (first + timedelta(days=days), 9)])], width=600)
    assert (chart.ticks[0][0] - first, chart.ticks_as) == (timedelta(hours=shown_as == "hour"), shown_as)
    places = [x for _, x in chart.ticks]
    assert all(after - before >= 7 * characters for before, after in pairwise(places))
    named = [each for each in size_chart(range(12), width=600).columns if each.label]
    assert all(after.middle - before.middle >= 7 * len(str(before.label)) for before, after in pairwise(named))


def test_the_trend_has_a_point_for_each_reading_of_30_days(world: World, browser: Browser) -> None:
    for small in (400, 300, 20):
        keep(world, "analytics.page_views", sick_health(small=small))
        world.clock.move(days=1)
    (table,) = re.findall(r"<summary>Show as a table</summary>.*?</table>", browser.text(PAGE), re.DOTALL)
    assert table.count("<tr><td>") == 3
    world.clock.move(days=29)
    assert browser.text(PAGE).count("<tr><td><time") == 1


def test_the_page_names_the_schedules_the_lock_and_the_jobs_of_its_table(world: World, browser: Browser) -> None:
    job = world.submit("analytics.page_views")
    world.run(job, [compacted(1284, 93, 521)])
    world.jobs.locks.acquire(world.table("analytics.page_views"), "etl/close", ttl=timedelta(hours=1))
    arrival = {"bytes_added": {"table": "analytics.page_views", "size": "1.5GB"}}
    views = Schedule(name="views", dag_id="compact", enabled=True, trigger=parse_trigger(arrival))
    world.installation.schedules().create(views)
    said = words(browser.text(PAGE))
    assert "Locked by etl/close" in said
    assert "Schedules that listen to it views" in said
    assert f"{job.job_id[:8]} completed Compacted 1,284 files into 93" in said
    assert "No health is stored yet" in said


def test_a_table_that_could_not_be_read_shows_the_reason(world: World, browser: Browser) -> None:
    world.installation.health_records.unreadable(world.table("analytics.page_views"), "", HOSTILE)
    page = browser.text(PAGE)
    assert "The metadata could not be read" in words(page)
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page


def test_a_table_that_waits_shows_why_the_last_pass_left_it(world: World, browser: Browser) -> None:
    passes, name = world.installation.fleet_passes, world.table("analytics.page_views")
    reason = "The budget of 10 GB·h has 0.4 GB·h left; it takes about 2 GB·h."
    entry = PassEntry(name, 0, EntryState.WAITING, reason, passes_waited=2)

    def plan(owner: str, entries: list[PassEntry]) -> None:
        planning = passes.begin(owner, name.catalog, name.catalog_id, Budget(), workers=1, holder="pod-1")
        passes.plan(planning, entries, [], {})
        world.clock.move(seconds=1)

    plan("monday", [entry])
    said = words(browser.text(PAGE))
    assert f"The last pass over the fleet did not maintain it, nor did 2 passes before: {reason}" in said
    plan("tuesday", [])
    assert "did not maintain it" not in words(browser.text(PAGE))


def test_a_table_of_which_nothing_is_known_is_not_found_and_one_that_was_dropped_keeps_its_page(
    browser: Browser, world: World
) -> None:
    answer = browser.get("/ui/tables/analytics/page_vews")
    assert answer.status_code == 404
    assert "has no table &#39;analytics.page_vews&#39;" in answer.text
    assert browser.get("/ui/tables/analytics/no.name").status_code == 422

    keep(world, "analytics.dropped", sick_health())
    assert "The list of tables does not have this table" in words(browser.text("/ui/tables/analytics/dropped"))


def test_policies_that_cannot_be_used_are_shown_in_place_of_the_plan(world: World, browser: Browser, tmp_path: Path) -> None:
    keep(world, "analytics.page_views", sick_health())
    (tmp_path / "policies.yaml").write_text("rules: 7\n")
    object.__setattr__(world.installation, "policies_file", PoliciesFile(tmp_path / "policies.yaml"))
    assert "The policies cannot be used." in words(browser.text(PAGE))


def test_the_page_of_a_table_asks_no_catalog_and_a_bounded_number_of_statements(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise CatalogUnreachable("lake", OSError("The catalog is down"))

    keep(world, "analytics.page_views", sick_health(partitions=1))
    world.run(world.submit("analytics.page_views"), [compacted(10, 1, 2)])
    browser.text(PAGE)
    monkeypatch.setattr(world.inventory, "_load_catalog", refuse)
    monkeypatch.setattr(world.inventory, "_catalog", None)
    few = statements(world, browser, PAGE)
    for day in range(20):
        keep(world, "analytics.page_views", sick_health(partitions=150, small=10 + day))
        world.run(world.submit("analytics.page_views"), [compacted(10, 1, 2)])
        world.clock.move(days=1)
    assert statements(world, browser, PAGE) == few <= MOST_STATEMENTS


def test_the_metadata_of_a_table_shows_what_each_snapshot_changed_and_which_of_them_have_names(
    tmp_path: Path, world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = CatalogConfig.embedded(tmp_path).load()
    make_commits(catalog, world.clock())
    world.inventory = Inventory(world.store, "lake", lambda: catalog)
    path = f"/ui/tables/{COMMITTED.replace('.', '/')}/metadata"
    page = browser.get(path)
    newest, *rest = [each.snapshot_id for each in catalog.load_table(COMMITTED).snapshots()][::-1]
    assert re.search(r"delete \N{MINUS SIGN}[\d,]+ \N{MINUS SIGN}12 \d+ main", row(page, str(newest)))
    assert re.search(r"append \+\d{3} \+2 \d+", row(page, str(rest[-1])))
    said = words(page)
    assert "Partitioned by currency Sort order" in said
    assert "chargeback_id long required currency string partition amount decimal(9, 2)" in said
    assert "audit branch 40 h ago" in said
    assert "october-close tag 2 d ago" in said
    monkeypatch.setattr("airflow_snowpack.api.pages.tables.MOST_NAMES", 2)
    short = words(browser.text(path))
    assert ("october-close tag" in short, "and 1 more" in short, "and 3 more" in short) == (False, True, True)
    monkeypatch.setattr("airflow_snowpack.api.pages.tables.SNAPSHOTS", 5)
    seen, following = list[str](), [""]
    while following:
        page = browser.get(path + following[0])
        seen += re.findall(r'<tr data-key="(\d+)"', page.text)
        following = re.findall(r'href="(\?cursor=\d+)" rel="next"', page.text)
    assert seen == [str(each) for each in (newest, *rest)]
    assert f'data-key="{newest}"' in browser.text(f"{path}?cursor=7"), "an expired cursor shows the newest"


def test_while_the_catalog_hangs_the_metadata_is_that_of_the_stored_health_and_the_page_says_so(
    world: World, browser: Browser, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(world, "analytics.page_views", sick_health())
    answers = threading.Event()

    def hang(*_: object) -> NoReturn:
        answers.wait()
        raise CatalogUnreachable("lake", OSError("The catalog is down"))

    monkeypatch.setattr(world.inventory, "_load_catalog", hang)
    monkeypatch.setattr(world.inventory, "_catalog", None)
    impatient = replace(world.services, timeout=timedelta(seconds=0.5))
    app.state.services = LazyServices(lambda: impatient)
    try:
        said = words(browser.text(f"{PAGE}/metadata"))
        assert "The metadata could not be read. The Iceberg catalog 'lake' did not answer within 0.3 s." in said
        assert "Partitioned by month" in said
        assert "append \N{EN DASH} \N{EN DASH} 1 main" in said
        assert "They are not stored." in said
        nothing_stored = browser.get("/ui/tables/analytics/sessions/metadata")
        assert (nothing_stored.status_code, "did not answer within" in nothing_stored.text) == (503, True)
    finally:
        answers.set()


def test_partitions_of_two_fields_are_squares_by_both_and_those_of_one_or_of_two_specs_follow_each_other() -> None:
    def heat(*labels: str) -> HeatMap:
        values = {label: tuple(label.split("/")) for label in labels}
        return heat_map([made_partition(label=each, values=values[each], small_files=at) for at, each in enumerate(labels)])

    both = heat("day=1/of=a", "day=2/of=a", "day=1/of=b", "day=3/of=b")
    assert [label for label, _ in both.rows] == ["of=a", "of=b"]
    assert [(each.x - both.left, each.y - 16) for each in both.cells] == [(0, 0), (0, 18), (18, 0), (36, 18)]
    assert [each.level for each in both.cells] == [0, 1, 1, 2]
    assert both.cells[-1].title == "day=3/of=b: 3 of 10 data files to rewrite, 5.0 GiB"
    one = heat(*(f"day={day:03}" for day in range(150)))
    assert (len({each.y for each in one.cells}), [label for label, _ in one.rows]) == (3, ["day=000", "day=060", "day=120"])
    renamed = [made_partition(spec_id=spec_id) for spec_id in (0, 1)]
    assert len({(each.x, each.y) for each in heat_map(renamed).cells}) == 2


def test_tables_come_by_their_need_those_that_cannot_be_read_first(world: World, browser: Browser) -> None:
    keep(world, "payments.refunds", sick_health())
    keep(world, "analytics.page_views", made_health())
    world.installation.health_records.unreadable(world.table("payments.transactions"), "", "A manifest is missing.")

    def listed(query: str = "") -> list[str]:
        return re.findall(r'<tr data-key="lake\.([^"]+)"', browser.text(f"/ui/tables{query}"))

    by_need = ["payments.transactions", "payments.refunds", "analytics.page_views", "analytics.sessions"]
    assert listed() == by_need
    assert listed("?database=payments") == by_need[:2]
    assert listed("?order=name") == sorted(TABLES)
    said = words(browser.text("/ui/tables"))
    assert "payments . transactions \N{EN DASH} cannot be read" in said
    assert "analytics . sessions \N{EN DASH} not read yet" in said


def test_the_first_step_of_a_table_fits_its_health(world: World, browser: Browser) -> None:
    keep(world, TABLES[0], made_health())
    keep(world, TABLES[1], sick_health())
    world.installation.health_records.unreadable(world.table(TABLES[2]), "", "A manifest is missing.")
    listed = words(browser.text("/ui/tables"))
    steps = ("The table is healthy.", "Start with a dry run.", "Its metadata cannot be read.")
    for dotted, step in zip(TABLES, steps, strict=False):
        for shown in (listed, words(browser.text(f"/ui/tables/{dotted.replace('.', '/')}"))):
            assert f"No maintenance yet. {step}" in shown


def test_a_job_shows_its_plan_with_each_estimate_beside_its_outcome(world: World, browser: Browser) -> None:
    name = world.table("analytics.page_views")
    request = plan_table(sick_health(), Policies().of(name, {}), now=world.clock()).request()
    job = world.jobs.submit(name, request.actions, options=request.options, plan=request.plan)
    page = f"/ui/jobs/{job.job_id}"
    assert "Rewrite data files run 1,200 of 1,230 files below 384.0 MiB" in words(browser.text(page))
    world.run(job, [replace(compacted(1200, 3, 521), gb_hours=0.25)])
    said = words(browser.text(page))
    assert "1,200 files removed, 3 added, 900.0 MiB rewritten, 8 min 41 s, 0.25 GB·h" in said
    shown = browser.get(f"/jobs/{job.job_id}").json()
    assert shown["results"][0]["gb_hours"] == 0.25
    decisions = {each["action"]: each for each in shown["plan"]["decisions"]}
    assert decisions["rewrite_data_files"]["estimate"]["files_removed"] == 1200
    assert decisions["remove_orphan_files"]["verdict"] == "skip"


def test_the_api_lists_tables_by_need_as_the_page_does(world: World, browser: Browser) -> None:
    keep(world, "payments.refunds", sick_health())
    keep(world, "analytics.page_views", made_health())
    world.installation.health_records.unreadable(world.table("payments.transactions"), "", "A manifest is missing.")
    world.submit("analytics.sessions")
    listed, query = list[tuple[str, int | None, str]](), "order=need&limit=3"
    for _ in range(2):
        answer = browser.get(f"/tables?{query}").json()
        listed += [(each["table_name"], each["score"], each["condition"]) for each in answer["tables"]]
        query = f"order=need&limit=3&cursor={answer['next']}"
    assert answer["next"] is None
    score = listed[1][1]
    assert listed == [
        ("transactions", None, "unreadable"),
        ("refunds", score, "fair"),
        ("page_views", 100, "healthy"),
        ("sessions", None, "not_read"),
    ]
    shown = {show: browser.get(f"/tables?show={show}").json() for show in ("running", "never", "failed")}
    names = {show: [each["table_name"] for each in answer["tables"]] for show, answer in shown.items()}
    assert names == {"running": ["sessions"], "never": ["page_views", "refunds", "transactions"], "failed": []}
    assert browser.get("/tables?order=need&cursor=nonsense").status_code == 422


def test_the_list_takes_as_many_statements_for_many_waiting_jobs_as_for_one(world: World, browser: Browser) -> None:
    world.submit(TABLES[0])
    pages = ("/ui/tables", "/tables?order=need", "/ui/")
    few = [statements(world, browser, path) for path in pages]
    for dotted in TABLES[1:]:
        world.submit(dotted)
        keep(world, dotted, sick_health())
    assert [statements(world, browser, path) for path in pages] == few
    assert max(few) <= MOST_STATEMENTS


def test_each_table_is_on_one_page_in_either_order(world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    for order in ["", "name"]:
        monkeypatch.setattr("airflow_snowpack.api.pages.tables.PAGE", 1)
        keep(world, "payments.refunds", sick_health())
        path, seen = f"/ui/tables?order={order}", list[str]()
        while path:
            page = browser.text(path)
            seen += re.findall(r'<tr data-key="lake\.([^"]+)"', page)
            following = re.findall(r'href="(\?[^"]*cursor=[^"]+)"', page)
            path = f"/ui/tables{following[0].replace('&amp;', '&')}" if following else ""
        assert sorted(seen) == sorted(TABLES)


def test_stored_health_is_counted_while_the_catalog_was_never_listed(tmp_path: Path, sqlite_url: str) -> None:
    world = open_world(tmp_path, url=sqlite_url)
    assert not any(TableScores(world.store, world.inventory).counts().by_condition.values())
    keep(world, "analytics.page_views", made_health())
    counts = TableScores(world.store, world.inventory).counts()
    assert (counts.by_condition[Condition.HEALTHY], counts.oldest_read_at) == (1, world.clock())
    world.close()


@pytest.mark.parametrize(
    ("score", "condition"),
    [(0, "sick"), (49, "sick"), (50, "fair"), (79, "fair"), (80, "healthy"), (100, "healthy"), (None, "not_read")],
)
def test_a_score_stands_for_a_condition(score: int | None, condition: str) -> None:
    assert Condition.of(score) == condition
