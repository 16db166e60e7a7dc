"""The REST API of images, through the app itself on a real store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from app_client import AppClient
from made_images import HOLDER, LOG, WAITING, MadeImages, make_images
from pages_world import SomebodyIs, World

from airflow_snowpack.api import User
from airflow_snowpack.runners.images import ImageBuildNotFound
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.image import ImageDetailShape, ImagesShape

if TYPE_CHECKING:
    from fastapi import FastAPI

pytestmark = pytest.mark.one_database


@pytest.fixture
def made(world: World) -> MadeImages:
    return make_images(world.store)


@pytest.fixture
def ask(app: FastAPI) -> AppClient:
    return AppClient(app)


def ok(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: httpx.Response, status: int, error: str) -> Any:
    assert (answer.status_code, answer.json()["error"]) == (status, error), answer.text
    return answer.json()


def test_images_are_listed_by_their_latest_request_page_by_page(ask: AppClient, made: MadeImages) -> None:
    found, cursor = [], ""
    for _ in range(5):
        page = ok(ask("GET", f"/images?limit=1{cursor}"))
        found += [each["key"] for each in page["images"]]
        cursor = f"&cursor={page['next']}"
    assert (found, page["next"]) == (made.keys, None)
    assert [each["key"] for each in ok(ask("GET", "/images?state=failed"))["images"]] == [made.failed.key]
    ImagesShape.model_validate_json(json.dumps(ok(ask("GET", "/images"))))
    refused(ask("GET", "/images?cursor=bent"), 422, "invalid_cursor")


def test_an_image_has_its_source_its_reference_and_its_explanation(ask: AppClient, made: MadeImages) -> None:
    ready = ok(ask("GET", f"/images/{made.ready.key}"))
    assert ready["build_args"] == ["PYTHON"]
    assert ready["reference"] == f"registry.example.com/acme/images@{ready['digest']}"
    assert (ready["state"], ready["attempts"], ready["error"]) == ("ready", 1, None)
    assert (ready["waiting"], ready["waits"]) == (0, [])
    (attempt,) = ready["history"]
    assert (attempt["number"], attempt["outcome"], attempt["holder"], attempt["error"]) == (1, "succeeded", HOLDER, None)

    building = ok(ask("GET", f"/images/{made.building.key}"))
    assert f"is being built by {HOLDER} (attempt" in building["explanation"]
    assert (building["waiting"], [wait["task"] for wait in building["waits"]]) == (3, WAITING)
    ImageDetailShape.model_validate_json(json.dumps(building))
    assert "The next attempt starts at" in ok(ask("GET", f"/images/{made.waiting.key}"))["explanation"]
    assert "It exists only on the host worker-2." in ok(ask("GET", f"/images/{made.on_one_host.key}"))["explanation"]


def test_the_build_log_is_text(ask: AppClient, made: MadeImages) -> None:
    log = ask("GET", f"/images/{made.failed.key}/log")
    assert (log.status_code, log.headers["content-type"], log.text) == (200, "text/plain; charset=utf-8", LOG)
    assert ask("GET", f"/images/{made.building.key}/log").text == ""


def test_an_image_is_forgotten_once_and_the_audit_trail_has_it(ask: AppClient, made: MadeImages, world: World) -> None:
    key = made.failed.key
    assert ok(ask("DELETE", f"/images/{key}"))["state"] == "failed"
    with pytest.raises(ImageBuildNotFound):
        made.builds.get(key)
    (entry,) = AuditTrail(world.store).latest()
    assert (entry.actor, entry.via, entry.change, entry.subject) == ("vera", "api", "forget_image", f"image:{key}")
    refused(ask("DELETE", f"/images/{key}"), 404, "image_build_not_found")


def test_a_viewer_reads_and_forgets_nothing(ask: AppClient, made: MadeImages, auth: SomebodyIs) -> None:
    auth.user = User("rudi", may_edit=False)
    ok(ask("GET", f"/images/{made.ready.key}"))
    assert ask("GET", f"/images/{made.ready.key}/log").status_code == 200
    refused(ask("DELETE", f"/images/{made.ready.key}"), 403, "forbidden")
    assert made.ready.key in made.keys


@pytest.mark.parametrize("key", ["0" * 64, "0" * 63, "A" * 64, "no%00key", "%F0%9F%8C%8A", ""])
def test_a_missing_image_is_a_404_however_its_key_is_spelt(ask: AppClient, made: MadeImages, key: str) -> None:
    for path in (f"/images/{key}", f"/images/{key}/log"):
        refused(ask("GET", path), 404, "image_build_not_found")
