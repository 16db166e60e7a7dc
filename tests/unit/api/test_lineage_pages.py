"""The page of lineage through the app itself, on a real store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from builds_world import make_builds
from lineage_world import HOSTILE, JOB, REPORT, make_lineage
from pages_world import World, open_world

from airflow_snowpack.api.pages.lineage import WIDTH, lineage_chart
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.lineage.graph import Lineage
from airflow_snowpack.lineage.operation import Operation, OperationKind, TableAt
from airflow_snowpack.lineage.operations import note_operation

if TYPE_CHECKING:
    from fastapi import FastAPI

Get = Callable[[str], httpx.Response]


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, url=sqlite_url)
    make_lineage(opened.store, opened.store.clock())
    yield opened
    opened.close()


@pytest.fixture
def get(app: FastAPI) -> Get:
    transport = httpx.ASGITransport(app=app)

    def ask(path: str) -> httpx.Response:
        async def answer() -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test") as client:
                return await client.get(path, headers={"Accept": "text/html"})

        return asyncio.run(answer())

    return ask


def words(page: httpx.Response) -> str:
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text))


def boxes(page: httpx.Response) -> list[str]:
    return re.findall(r'<a href="[^"]*" data-key="([^"]*)" class="box', page.text)


def test_a_tables_lineage_is_drawn_both_ways_with_a_link_to_each_table(get: Get) -> None:
    page = get("/ui/lineage?table=flights.report")

    assert len(boxes(page)) == 7
    assert page.text.count('class="flow-path"') == 7
    assert page.text.count('class="box box-root"') == 1
    assert 'href="?table=lake.flights.planes"' in page.text
    assert 'href="/ui/jobs/' + JOB in page.text
    assert "flights/manual__2026-11-21T06:00:00+00:00/report try 1" in words(page)
    assert str(REPORT.snapshot_id) in words(page)


def test_one_way_and_fewer_steps_show_less_and_say_so(get: Get) -> None:
    page = get("/ui/lineage?table=lake.flights.report&way=up&depth=1")

    assert boxes(page) == ["lake.interim.by_carrier", "lake.interim.by_day", "lake.flights.report"]
    assert "marks tables that are not shown" in words(page)


def test_the_pages_of_a_job_and_of_a_dataset_lead_here(get: Get, world: World, tmp_path: Path) -> None:
    job = world.jobs.submit(TableName("lake", "flights", "report"), ["expire_snapshots"])
    made = make_builds(world.store, tmp_path)

    assert "/ui/lineage?table=lake.flights.report" in get(f"/ui/jobs/{job.job_id}").text
    assert f"/ui/lineage?table={quote(made.storage.url, safe='/')}" in get("/ui/builds/flights").text


def test_without_a_table_the_page_tells_what_was_done_lately(get: Get) -> None:
    page = get("/ui/lineage")

    assert "Recent operations" in words(page)
    assert page.text.count('<tr data-key="') == 7
    assert not boxes(page)


def test_an_unknown_table_is_said_to_be_unknown(get: Get) -> None:
    for name in ("flights.nobody", "nobody"):
        assert "No lineage is recorded for" in words(get(f"/ui/lineage?table={name}&depth=junk&cursor=junk&way=junk"))


def test_what_operations_say_is_text_and_never_markup(get: Get, world: World) -> None:
    note_operation(world.store, Operation(OperationKind.COPY, world.store.clock(), (TableAt(HOSTILE),), (REPORT,)))
    page = get("/ui/lineage?table=flights.report")

    assert "<script>alert" not in page.text
    assert "<img src=x" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text


def test_sources_stand_left_of_what_was_made_of_them_and_a_cycle_is_drawn_as_well(world: World) -> None:
    store, now = world.store, world.store.clock()
    note_operation(store, Operation(OperationKind.INSERT, now, (REPORT,), (TableAt("lake.flights.raw"),)))
    chart = lineage_chart(Lineage(store).graph(REPORT.table), now + timedelta(minutes=1))

    places = {(box.x, box.y) for box in chart.boxes}
    assert len(places) == len(chart.boxes)
    assert all(box.x + WIDTH <= chart.width for box in chart.boxes)
    assert len(chart.lines) == 8
