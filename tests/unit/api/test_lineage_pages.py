"""The page of lineage through the app itself, on a real store."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from builds_world import make_builds
from lineage_world import JOB, REPORT, make_lineage
from page_reading import Browser, words
from pages_world import World

from airflow_snowpack.api.pages.lineage import WIDTH, lineage_chart
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.lineage.graph import Lineage
from airflow_snowpack.lineage.operation import Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation


@pytest.fixture
def world(world: World) -> World:
    make_lineage(world.store, world.store.clock())
    return world


def boxes(page: httpx.Response) -> list[str]:
    return re.findall(r'<a href="[^"]*" data-key="([^"]*)" class="box', page.text)


def test_a_tables_lineage_is_drawn_both_ways_or_one_way_and_without_a_table_what_was_done_lately(browser: Browser) -> None:
    page = browser.get("/ui/lineage?table=flights.report")

    assert len(boxes(page)) == 7
    assert page.text.count('class="flow-path"') == 7
    assert page.text.count('class="box box-root"') == 1
    assert 'href="?table=lake.flights.planes"' in page.text
    assert 'href="/ui/jobs/' + JOB in page.text
    assert "flights/manual__2026-11-21T06:00:00+00:00/report try 1" in words(page)
    assert str(REPORT.snapshot_id) in words(page)

    page = browser.get("/ui/lineage?table=lake.flights.report&way=up&depth=1")

    assert boxes(page) == ["lake.interim.by_carrier", "lake.interim.by_day", "lake.flights.report"]
    assert "marks tables that are not shown" in words(page)

    page = browser.get("/ui/lineage")

    assert "Recent operations" in words(page)
    assert page.text.count('<tr data-key="') == 7
    assert not boxes(page)

    for name in ("flights.nobody", "nobody"):
        assert "No lineage is recorded for" in words(browser.get(f"/ui/lineage?table={name}&depth=junk&cursor=junk&way=junk"))


def test_the_pages_of_a_job_and_of_a_dataset_lead_here(browser: Browser, world: World, tmp_path: Path) -> None:
    job = world.jobs.submit(TableName("lake", "flights", "report"), ["expire_snapshots"])
    made = make_builds(world.store, tmp_path)

    assert "/ui/lineage?table=lake.flights.report" in browser.get(f"/ui/jobs/{job.job_id}").text
    assert f"/ui/lineage?table={quote(made.storage.url, safe='/')}" in browser.get("/ui/builds/flights").text


def test_sources_stand_left_of_what_was_made_of_them_and_a_cycle_is_drawn_as_well(world: World) -> None:
    store, now = world.store, world.store.clock()
    note_operation(store, Operation(OperationKind.INSERT, now, (REPORT,), (TableAt("lake.flights.raw"),)))
    chart = lineage_chart(Lineage(store).graph(REPORT.table), now + timedelta(minutes=1))

    places = {(box.x, box.y) for box in chart.boxes}
    assert len(places) == len(chart.boxes)
    assert all(box.x + WIDTH <= chart.width for box in chart.boxes)
    assert len(chart.lines) == 8
