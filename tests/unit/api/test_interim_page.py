"""The page of interim tables through the app itself, on a real store."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest
from interim_world import DAG, HOSTILE, MadeInterim, holder, make_interim
from pages_world import SomebodyIs, World

from airflow_snowpack.api import User

if TYPE_CHECKING:
    from fastapi import FastAPI

Get = Callable[..., httpx.Response]


@pytest.fixture
def made(world: World) -> MadeInterim:
    return make_interim(world.store)


@pytest.fixture
def get(app: FastAPI) -> Get:
    def ask(path: str) -> httpx.Response:
        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://snowpack.test") as client:
                return await client.get(path, headers={"Accept": "text/html"})

        return asyncio.run(answer())

    return ask


def words(page: httpx.Response) -> str:
    """What a person reads: no tags, no runs of spaces."""
    assert page.status_code == 200, page.text
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.text))


def row(page: httpx.Response, key: str) -> str:
    (found,) = re.findall(rf'<tr data-key="{re.escape(key)}">(.*?)</tr>', page.text, re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", found))


def test_an_installation_without_interim_tables_explains_where_they_come_from(get: Get) -> None:
    assert "@task.snowpack" in words(get("/ui/interim"))
    assert "No matching interim tables" in words(get("/ui/interim?dag=other"))


def test_each_table_has_its_producer_its_consumers_and_what_the_collector_does(get: Get, made: MadeInterim) -> None:
    page = get("/ui/interim")
    needed = row(page, made.needed.table_id)
    for said in ("ingest", "1,250,000", "clean", "report", "1 reader now", "keeps it", "A task is reading it."):
        assert said in needed
    assert "drops it" in row(page, made.free.table_id)
    assert "clean[3]" in row(page, made.free.table_id)
    kept = row(page, made.kept.table_id)
    assert "left" in kept
    assert "Preserved until" in kept
    assert "features, global" in row(page, made.named.table_id)
    assert "being written by try 1" in row(page, made.writing)


def test_only_preserved_or_named_tables_can_be_dropped_and_only_by_editors(get: Get, made: MadeInterim, auth: SomebodyIs) -> None:
    offered = re.findall(r'data-method="DELETE" data-url="/interim/(\w+)"', get("/ui/interim").text)
    assert sorted(offered) == sorted([made.kept.table_id, made.named.table_id])
    auth.user = User("rudi", may_edit=False)
    page = get("/ui/interim").text
    assert "data-method" not in page
    assert "You have read-only access" in page


def test_filters_narrow_and_a_bent_cursor_shows_the_first_page(get: Get, made: MadeInterim) -> None:
    assert row(get("/ui/interim?state=writing"), made.writing)
    assert made.kept.table_id not in get("/ui/interim?state=writing").text
    assert made.needed.table_id not in get(f"/ui/interim?dag={DAG}&run=r2").text
    assert row(get("/ui/interim?cursor=bent&state=lost"), made.kept.table_id)


def test_what_comes_from_outside_is_text(get: Get, made: MadeInterim) -> None:
    who = holder(HOSTILE, run_id=HOSTILE, dag_id=HOSTILE)
    made.registry.begin(who, catalog="lake", output=HOSTILE)
    for path in ("/ui/interim", f"/ui/interim?dag={HOSTILE}&run={HOSTILE}"):
        page = get(path)
        assert page.status_code == 200
        assert "<script>alert(1)" not in page.text
        assert "<img src=x" not in page.text
