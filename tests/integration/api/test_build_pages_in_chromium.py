"""The pages of builds in a real browser: what is pressed is done, after a question, and the page shows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from builds_world import FIRST, SECOND, THIRD, WRITING, Built, make_builds
from built_runs import current_run
from pages_world import SomebodyIs, World, app_of

from airflow_snowpack.builds import layout
from airflow_snowpack.store import AuditTrail

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def made(world: World, tmp_path: Path) -> Built:
    return make_builds(world.store, tmp_path)


@pytest.fixture
def page(world: World, made: Built, open_page: Callable[..., Page]) -> Page:
    return open_page(app_of(world, SomebodyIs("vera")), allowed="404 (Not Found)")


def test_builds_are_found_by_keys_served_and_cleaned_up(page: Page, made: Built, world: World) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/")
    page.keyboard.press("g")
    page.keyboard.press("b")
    page.wait_for_url("**/ui/builds")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/builds/flights")

    page.get_by_role("button", name=f"Make {FIRST}").click()
    expect(page.locator("#confirm-title")).to_have_text(f"Make {FIRST} the current build of flights?")
    page.get_by_role("button", name="Keep as it is").click()
    assert current_run(made.storage) == SECOND
    page.get_by_role("button", name=f"Make {FIRST}").click()
    page.locator("#confirm-go").click()
    expect(page.locator("#toasts")).to_contain_text(f"{FIRST} is the current build of flights.")
    expect(page.locator(f'tr[data-key="{FIRST}"]')).to_contain_text("current")
    assert current_run(made.storage) == FIRST

    page.get_by_label("Published runs to keep").fill("2")
    page.get_by_role("button", name="Preview").click()
    page.wait_for_url("**keep_runs=2*")
    expect(page.locator("#cleanup")).to_contain_text("Nothing has been deleted yet")
    page.get_by_role("button", name="Clean up…").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#cleanup")).to_contain_text("Nothing to delete.")
    entries = [(entry.actor, entry.via, entry.change) for entry in AuditTrail(world.store).latest()]
    assert entries == [("vera", "page", "cleanup_builds"), ("vera", "page", "rollback_build")]
    assert not list(made.storage.objects(layout.shard_folder(THIRD, 0) + "attempt=00-1/"))
    assert current_run(made.storage) == FIRST


def test_what_cannot_be_published_is_refused_with_its_reason(page: Page, made: Built) -> None:
    from playwright.sync_api import expect

    page.goto(f"/ui/builds/flights/runs/{WRITING}")
    page.get_by_role("button", name="Publish…").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#confirm-report")).to_contain_text("its winners are not selected yet")
    assert made.registry.run("flights", WRITING).holder == "build_flights/run_5/build"
