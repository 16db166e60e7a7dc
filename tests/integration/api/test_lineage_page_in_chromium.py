"""The page of lineage in a real browser: by keys alone from table to table, and without a word from the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lineage_world import make_lineage
from pages_world import SomebodyIs, World, app_of, open_world

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, url=sqlite_url)
    make_lineage(opened.store, opened.store.clock())
    yield opened
    opened.close()


def test_keys_lead_from_table_to_table_and_the_table_that_was_asked_for_is_in_view(
    world: World, open_page: Callable[..., Page]
) -> None:
    from playwright.sync_api import expect

    narrow = {"width": 700, "height": 700}
    page = open_page(app_of(world, SomebodyIs("vera")), viewport=narrow, color_scheme="dark")
    page.goto("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("n")
    page.wait_for_url("**/ui/lineage")
    page.get_by_role("link", name="lake.flights.report").first.click()
    expect(page.locator(".box-root")).to_be_in_viewport()
    assert page.locator(".lineage-scroll").evaluate("each => each.scrollWidth > each.clientWidth")

    box = page.get_by_role("link", name="lake.interim.by_day, map")
    box.focus()
    assert box.locator("rect").evaluate("each => getComputedStyle(each).strokeWidth") == "2.5px"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Lineage of lake.interim.by_day")).to_be_visible()
    page.get_by_role("radio", name="Downstream").check(force=True)
    expect(page.locator(".box")).to_have_count(3)
