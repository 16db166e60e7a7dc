"""The pages of schedules in a real browser: what is looked at refreshes by itself, and what is pressed is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from bounded import PATIENCE_S
from pages_world import SomebodyIs, World, app_of
from schedules_world import Made, make_schedules

from airflow_snowpack.store import AuditTrail

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def made(world: World) -> Made:
    return make_schedules(world)


@pytest.fixture
def page(world: World, made: Made, open_page: Callable[..., Page]) -> Page:
    return open_page(app_of(world, SomebodyIs("vera")))


def test_a_schedule_is_suspended_resumed_and_run_from_the_list_and_deleted_after_a_question(
    page: Page, made: Made, world: World
) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/schedules")
    row = page.locator('tr[data-key="counts"]')
    for button, go, then in (
        ("Suspend", "Suspend", "suspended"),
        ("Resume", "Resume", "enabled"),
        ("Run", "Run now", "starting"),
    ):
        row.get_by_role("button", name=button).click()
        page.locator("#confirm-go", has_text=go).click()
        expect(row).to_contain_text(then)

    changes = [entry.change for entry in AuditTrail(world.store).of("schedule:counts")]
    assert changes == ["create_schedule", "suspend_schedule", "resume_schedule", "run_schedule"]
    assert {entry.via for entry in AuditTrail(world.store).of("schedule:counts")[1:]} == {"page"}

    page.goto("/ui/schedules/launched")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#confirm-text")).to_contain_text("Its pending runs are discarded.")
    page.locator("#confirm-go").click()
    page.wait_for_url("**/ui/schedules")
    assert "launched" not in [one.schedule.name for one in made.schedules.list()]


def test_progress_comes_by_itself_and_the_keys_lead_from_page_to_page(page: Page, made: Made) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/schedules")
    made.arrive(1)
    made.work()
    expect(page.locator('tr[data-key="counts"]')).to_contain_text("4 of 5 partitions", timeout=PATIENCE_S * 1000)
    for key, heading in (("p", "Pending runs"), ("e", "Events"), ("s", "Schedules")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(heading)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("cannot_start")
