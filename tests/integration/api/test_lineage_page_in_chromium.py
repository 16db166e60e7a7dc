"""The page of lineage in a real browser: by keys alone from table to table, and without a word from the console."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from bounded import PATIENCE_S
from lineage_world import make_lineage
from pages_world import SomebodyIs, World, app_of, open_world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    from starlette.types import ASGIApp

    Serve = Callable[[ASGIApp], httpx.Client]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO CHROMIUM HERE: nobody looked at the pages. Install it.")


@pytest.fixture
def world(tmp_path: Path, sqlite_url: str) -> Iterator[World]:
    opened = open_world(tmp_path, url=sqlite_url)
    make_lineage(opened.store, opened.store.clock())
    yield opened
    opened.close()


def test_keys_lead_from_table_to_table_and_the_table_that_was_asked_for_is_in_view(world: World, serve_app: Serve) -> None:
    from playwright.sync_api import expect, sync_playwright

    client = serve_app(app_of(world, SomebodyIs("vera")))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        narrow = {"width": 700, "height": 700}
        page = browser.new_context(base_url=str(client.base_url), viewport=narrow, color_scheme="dark").new_page()
        page.set_default_timeout(PATIENCE_S * 1000)
        expect.set_options(timeout=PATIENCE_S * 1000)
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)

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
        browser.close()
    assert wrong == []
