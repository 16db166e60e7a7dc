"""The page of interim tables through the app itself, on a real store."""

from __future__ import annotations

import re

import pytest
from interim_world import DAG, MadeInterim, make_interim
from page_reading import Browser, row
from pages_world import World


@pytest.fixture
def made(world: World) -> MadeInterim:
    return make_interim(world.store)


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


def test_only_preserved_or_named_tables_can_be_dropped(browser: Browser, made: MadeInterim) -> None:
    offered = re.findall(r'data-method="DELETE" data-url="/interim/(\w+)"', browser.get("/ui/interim").text)
    assert sorted(offered) == sorted([made.kept.table_id, made.named.table_id])
