"""The REST API of images, through the app itself on a real store."""

from __future__ import annotations

import json

import pytest
from app_client import AppClient, ok, refused
from made_images import HOLDER, LOG, WAITING, MadeImages, make_images
from pages_world import World

from airflow_snowpack.runners.images import ImageBuildNotFound
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.image import ImageDetailShape, ImagesShape

pytestmark = pytest.mark.one_database


@pytest.fixture
def made(world: World) -> MadeImages:
    return make_images(world.store)


def test_images_are_listed_by_their_latest_request_page_by_page_each_with_its_source_its_explanation_and_its_log(
    api: AppClient, made: MadeImages
) -> None:
    found, cursor = [], ""
    for _ in range(5):
        page = ok(api("GET", f"/images?limit=1{cursor}"))
        found += [each["key"] for each in page["images"]]
        cursor = f"&cursor={page['next']}"
    assert (found, page["next"]) == (made.keys, None)
    assert [each["key"] for each in ok(api("GET", "/images?state=failed"))["images"]] == [made.failed.key]
    ImagesShape.model_validate_json(json.dumps(ok(api("GET", "/images"))))
    refused(api("GET", "/images?cursor=bent"), 422, "invalid_cursor")

    ready = ok(api("GET", f"/images/{made.ready.key}"))
    assert ready["build_args"] == ["PYTHON"]
    assert ready["reference"] == f"registry.example.com/acme/images@{ready['digest']}"
    assert (ready["state"], ready["attempts"], ready["error"]) == ("ready", 1, None)
    assert (ready["waiting"], ready["waits"]) == (0, [])
    (attempt,) = ready["history"]
    assert (attempt["number"], attempt["outcome"], attempt["holder"], attempt["error"]) == (1, "succeeded", HOLDER, None)

    building = ok(api("GET", f"/images/{made.building.key}"))
    assert f"is being built by {HOLDER} (attempt" in building["explanation"]
    assert (building["waiting"], [wait["task"] for wait in building["waits"]]) == (3, WAITING)
    ImageDetailShape.model_validate_json(json.dumps(building))
    assert "The next attempt starts at" in ok(api("GET", f"/images/{made.waiting.key}"))["explanation"]
    assert "It exists only on the host worker-2." in ok(api("GET", f"/images/{made.on_one_host.key}"))["explanation"]

    log = api("GET", f"/images/{made.failed.key}/log")
    assert (log.status_code, log.headers["content-type"], log.text) == (200, "text/plain; charset=utf-8", LOG)
    assert api("GET", f"/images/{made.building.key}/log").text == ""

    for key in ["0" * 64, "0" * 63, "A" * 64, "no%00key", "%F0%9F%8C%8A", ""]:
        for path in (f"/images/{key}", f"/images/{key}/log"):
            refused(api("GET", path), 404, "image_build_not_found")


def test_an_image_is_forgotten_once_and_the_audit_trail_has_it(api: AppClient, made: MadeImages, world: World) -> None:
    key = made.failed.key
    assert ok(api("DELETE", f"/images/{key}"))["state"] == "failed"
    with pytest.raises(ImageBuildNotFound):
        made.builds.get(key)
    (entry,) = AuditTrail(world.store).latest()
    assert (entry.actor, entry.via, entry.change, entry.subject) == ("vera", "api", "forget_image", f"image:{key}")
    refused(api("DELETE", f"/images/{key}"), 404, "image_build_not_found")
