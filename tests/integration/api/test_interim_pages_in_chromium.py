"""Pages of interim tables, runs, images and removals in a real browser: by keys, in light and dark, with hostile names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from contrast import CONTRAST
from interim_world import MadeInterim, handed_on, holder, make_interim
from made_images import ImageMaker, MadeImages, make_images
from page_reading import HOSTILE
from pages_world import SomebodyIs, World, app_of
from planned_removals import plan_removal
from schedules_world import register_runs

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.scheduling import RegisteredRun
from airflow_snowpack.store import Actor, AuditTrail

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def made(world: World) -> MadeInterim:
    """Tables in every state, and one in whose names is whatever a DAG's author may have written."""
    made = make_interim(world.store)
    handed_on(made.registry, holder(HOSTILE, run_id=HOSTILE, dag_id=HOSTILE), rows=1, consumers=[HOSTILE])
    return made


@pytest.fixture
def runs(world: World) -> None:
    """With a cron, without one, and one in which is whatever somebody may have written."""
    register_runs(world).register(RegisteredRun("hostile", "other", {HOSTILE: HOSTILE}, description=HOSTILE))


@pytest.fixture
def page(world: World, open_page: Callable[..., Page]) -> Page:
    return open_page(app_of(world, SomebodyIs("vera")), color_scheme="dark", reduced_motion="reduce")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def rows(page: Page, *keys: str) -> None:
    """Wait until these are the rows, in whatever order."""
    from playwright.sync_api import expect

    expect(page.locator("tr[data-key]")).to_have_count(len(keys))
    assert {row.get_attribute("data-key") for row in page.locator("tr[data-key]").all()} == set(keys)


def looks_right(page: Page, address: str) -> None:
    """What is written there runs nowhere, all text can be read in light and dark, and nothing sticks out on a small screen."""
    sizes: dict[str, Any] = {"light": {"width": 1280, "height": 800}, "dark": {"width": 420, "height": 800}}
    for scheme, size in sizes.items():
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of the two words
        page.set_viewport_size(size)
        page.goto(address)
        assert HOSTILE in page.locator("main").inner_text()
        assert page.locator("main img, main script").count() == 0
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), scheme


def test_interim_tables_are_filtered_looked_at_and_let_go_of_by_keys(world: World, made: MadeInterim, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/")
    press(page, "g", "i")
    page.wait_for_url("**/ui/interim")
    press(page, "/")
    page.keyboard.type("flights")
    page.wait_for_url("**/ui/interim?dag=flights")
    press(page, "Tab")
    page.keyboard.type("r2")
    page.wait_for_url("**/ui/interim?dag=flights&run=r2")
    rows(page, made.named.table_id, made.writing)
    press(page, "Tab", "ArrowRight")
    page.wait_for_url("**/ui/interim?dag=flights&run=r2&state=writing")
    rows(page, made.writing)
    page.reload()
    rows(page, made.writing)
    assert page.get_by_label("DAG run of the producer").input_value() == "r2"
    assert page.get_by_role("radio", name="writing").is_checked()

    page.goto("/ui/interim?run=r2")
    second = page.locator("[data-row]").nth(1).inner_text()
    press(page, "j", "j", "Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(second)

    page.goto("/ui/interim")
    page.get_by_role("button", name=f"Release {made.kept.table.rpartition('.')[2]}").focus()
    press(page, "Enter")
    expect(page.locator("#confirm-text")).to_contain_text("its rows are lost permanently")
    expect(page.locator("#confirm [data-close]")).to_be_focused()
    press(page, "Tab", "Enter")
    expect(page.locator(f'tr[data-key="{made.kept.table_id}"]')).to_contain_text("The collector is dropping it.")
    assert [(entry.actor, entry.via) for entry in AuditTrail(world.store).latest()] == [("vera", "page")]


@pytest.mark.usefixtures("runs")
def test_registered_runs_are_found_switched_started_and_unregistered_by_keys(world: World, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/schedules")
    page.get_by_role("link", name="Registered runs").click()
    page.wait_for_url("**/ui/runs")
    rows(page, "backfill", "features", "hostile")
    press(page, "/")
    page.keyboard.type("make")
    page.wait_for_url("**/ui/runs?search=make")
    rows(page, "backfill", "features")
    press(page, "Tab", "Tab", "ArrowRight", "ArrowRight")
    page.wait_for_url("**/ui/runs?search=make&state=disabled")
    page.reload()
    rows(page, "backfill")
    assert page.get_by_role("radio", name="Disabled").is_checked()

    page.goto("/ui/runs")
    for button, row, then, to_go in (
        ("Disable features", "features", "disabled", ["Tab"]),
        ("Enable backfill", "backfill", "enabled", []),
        ("Run backfill now", "backfill", "starting", []),
    ):
        page.get_by_role("button", name=button).focus()
        press(page, "Enter")
        press(page, *to_go)
        expect(page.locator("#confirm-go")).to_be_focused()
        press(page, "Enter")
        expect(page.locator(f'tr[data-key="{row}"]')).to_contain_text(then)
    page.get_by_role("button", name="Unregister hostile").focus()
    press(page, "Enter")
    expect(page.locator("#confirm [data-close]")).to_be_focused()
    press(page, "Tab", "Enter")
    rows(page, "backfill", "features")
    entries = [(entry.change, entry.actor) for entry in AuditTrail(world.store).latest() if entry.via == "page"]
    assert entries == [(change, "vera") for change in ("unregister_run", "run_registered", "enable_run", "disable_run")]


@pytest.fixture
def images(world: World) -> MadeImages:
    """Images in every state, and one in whose Dockerfile, error and log is whatever a repository may have."""
    made = make_images(world.store)
    maker = ImageMaker(world.store)
    maker.fail(maker.begin(maker.request(dockerfile=HOSTILE)), HOSTILE, f"{HOSTILE}\n{'x' * 500}", is_final=True)
    return made


def test_images_are_filtered_opened_and_forgotten_by_keys(world: World, images: MadeImages, page: Page) -> None:
    from playwright.sync_api import expect

    page.goto("/ui/")
    press(page, "g", "m")
    page.wait_for_url("**/ui/images")
    rows(page, *images.keys)
    page.get_by_role("radio", name="ready").check()
    page.wait_for_url("**/ui/images?state=ready")
    rows(page, images.ready.key, images.on_one_host.key)
    press(page, "j", "Enter")
    page.wait_for_url(f"**/ui/images/{images.ready.key}")
    page.get_by_role("button", name=f"Forget the image {images.ready.key[:12]}").focus()
    press(page, "Enter")
    expect(page.locator("#confirm-text")).to_contain_text("The image itself is not deleted.")
    expect(page.locator("#confirm [data-close]")).to_be_focused()
    press(page, "Tab", "Enter")
    page.wait_for_url("**/ui/images")
    expect(page.locator(f'tr[data-key="{images.ready.key}"]')).to_have_count(0)
    assert [(entry.actor, entry.via, entry.change) for entry in AuditTrail(world.store).latest()] == [
        ("vera", "page", "forget_image")
    ]


def test_a_removal_is_approved_and_run_by_keys(world: World, page: Page) -> None:
    from playwright.sync_api import expect

    removal = plan_removal(world.store, TableName("lake", "analytics", "orders"))
    page.goto("/ui/")
    press(page, "g", "d")
    page.wait_for_url("**/ui/removals")
    press(page, "j", "Enter")
    page.wait_for_url(f"**/ui/removals/{removal.removal_id}")
    for name, message in (("Approve…", "Nothing is deleted before"), ("Run…", "Deleted files cannot be restored")):
        page.get_by_role("button", name=name).focus()
        press(page, "Enter")
        expect(page.locator("#confirm-text")).to_contain_text(message)
        page.locator("#confirm-go").click()
    page.wait_for_url("**/ui/jobs/*")
    changes = [(entry.actor, entry.via, entry.change) for entry in AuditTrail(world.store).latest()]
    assert changes == [("vera", "page", "submit"), ("vera", "page", "approve_removal")]


@pytest.mark.usefixtures("made", "runs")
def test_these_pages_can_be_read_by_everybody_and_are_run_by_nobody(world: World, images: MadeImages, page: Page) -> None:
    removal = plan_removal(world.store, TableName("lake", "analytics", "orders"), first=f"s3://lake/{HOSTILE}{'x' * 300}")
    Removals(world.store).reject(removal.removal_id, actor=Actor(HOSTILE, "cli"), comment=HOSTILE)
    (image,) = [key for key in images.keys if images.builds.get(key).dockerfile == HOSTILE]
    for path in ("runs", "images", f"images/{image}", "removals", f"removals/{removal.removal_id}", "interim"):
        looks_right(page, f"/ui/{path}")
    looks_right(page, f"/ui/interim?{urlencode({'dag': HOSTILE, 'run': HOSTILE})}")
    assert page.get_by_label("DAG run of the producer").input_value() == HOSTILE
