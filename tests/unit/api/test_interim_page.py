"""The page of interim tables through the app itself, on a real store."""

from __future__ import annotations

import re

import pytest
from interim_world import DAG, HOSTILE, MadeInterim, holder, make_interim
from page_reading import Browser, row, words
from pages_world import SomebodyIs, World

from airflow_snowpack.api import User


@pytest.fixture
def made(world: World) -> MadeInterim:
    return make_interim(world.store)


def test_an_installation_without_interim_tables_explains_where_they_come_from(browser: Browser) -> None:
    assert "@task.snowpack" in words(browser.get("/ui/interim"))
    assert "No matching interim tables" in words(browser.get("/ui/interim?dag=other"))


def test_each_table_has_its_producer_its_consumers_and_what_the_collector_does_and_filters_narrow(
    browser: Browser, made: MadeInterim
) -> None:
    page = browser.get("/ui/interim")
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

    assert row(browser.get("/ui/interim?state=writing"), made.writing)
    assert made.kept.table_id not in browser.get("/ui/interim?state=writing").text
    assert made.needed.table_id not in browser.get(f"/ui/interim?dag={DAG}&run=r2").text
    assert row(browser.get("/ui/interim?cursor=bent&state=lost"), made.kept.table_id)

    who = holder(HOSTILE, run_id=HOSTILE, dag_id=HOSTILE)
    made.registry.begin(who, catalog="lake", output=HOSTILE)
    for path in ("/ui/interim", f"/ui/interim?dag={HOSTILE}&run={HOSTILE}"):
        page = browser.get(path)
        assert page.status_code == 200
        assert "<script>alert(1)" not in page.text
        assert "<img src=x" not in page.text


def test_only_preserved_or_named_tables_can_be_dropped_and_only_by_editors(
    browser: Browser, made: MadeInterim, auth: SomebodyIs
) -> None:
    offered = re.findall(r'data-method="DELETE" data-url="/interim/(\w+)"', browser.get("/ui/interim").text)
    assert sorted(offered) == sorted([made.kept.table_id, made.named.table_id])
    auth.user = User("rudi", may_edit=False)
    page = browser.get("/ui/interim").text
    assert "data-method" not in page
    assert "You have read-only access" in page
