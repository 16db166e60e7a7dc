"""The pages of images through the app itself, on a real store."""

from __future__ import annotations

import re

import pytest
from made_images import ERROR, HOLDER, SCORE, WAITING, ImageMaker, MadeImages, make_images
from page_reading import Browser, row, words
from pages_world import World

pytestmark = pytest.mark.one_database


@pytest.fixture
def made(world: World) -> MadeImages:
    return make_images(world.store)


def test_each_image_shows_its_commit_why_it_is_not_ready_and_the_button_that_forgets_it(
    browser: Browser, made: MadeImages
) -> None:
    page = browser.get("/ui/images")
    assert re.findall(r'<tr data-key="(\w+)">', page.text) == made.keys
    building = row(page, made.building.key)
    for text in (SCORE, "4b825dc642cb", "main", f"It is being built by {HOLDER} (attempt"):
        assert text in building
    assert "3 tasks" in building
    assert "The next attempt starts at" in row(page, made.waiting.key)
    assert "It could not be built in 3 attempts: buildah" in row(page, made.failed.key)
    assert "registry.example.com/acme/images" in row(page, made.ready.key)
    on_one_host = row(page, made.on_one_host.key)
    assert "only on the host worker-2" in on_one_host
    assert "docker/Dockerfile" in on_one_host
    assert re.findall(r'<tr data-key="(\w+)">', browser.get("/ui/images?state=ready&cursor=bent").text) == [
        made.ready.key,
        made.on_one_host.key,
    ]

    offered = re.findall(r'data-method="DELETE" data-url="/images/(\w+)"', browser.get("/ui/images").text)
    assert offered == made.keys
    assert f'data-url="/images/{made.ready.key}"' in browser.get(f"/ui/images/{made.ready.key}").text


def test_an_image_has_its_error_its_log_and_its_facts_and_a_short_key_leads_to_it(browser: Browser, made: MadeImages) -> None:
    failed = words(browser.get(f"/ui/images/{made.failed.key}"))
    assert ERROR in failed
    assert "No matching distribution found for lightgbm==4.9.9" in failed
    assert f"airflow snowpack images forget {made.failed.key[:12]}" in failed
    assert re.findall(r"attempt (\d) failed", failed) == ["3", "2", "1"]
    building = words(browser.get(f"/ui/images/{made.building.key}"))
    assert f"Built by {HOLDER}" in building
    assert f"Waiting tasks {WAITING[0]} for" in building
    assert "in the log of the task that builds the image" in building
    ready = words(browser.get(f"/ui/images/{made.ready.key}"))
    assert f"Reference {made.ready.reference}" in ready
    assert "Build arguments PYTHON" in ready
    assert browser.get(f"/ui/images/{made.failed.key[:12]}").headers["location"] == f"/ui/images/{made.failed.key}"


def test_the_page_of_an_image_has_its_manual_changes(browser: Browser, made: MadeImages, world: World) -> None:
    made.builds.forget(made.failed.key, actor=world.actor("jana", "cli"))
    key = ImageMaker(world.store).request(made.failed.remote, made.failed.commit, "next-model")
    assert key == made.failed.key
    assert re.search(r"jana forgot it via cli, just now", words(browser.get(f"/ui/images/{key}")))
