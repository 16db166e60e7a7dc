"""Images: list, inspect and forget those that workers build from Git repositories."""

import re
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, PlainTextResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import Limit, NextPage, checked_name
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.runners.images.errors import ImageBuildNotFound
from airflow_snowpack.runners.images.model import ImageState
from airflow_snowpack.wire.image import KEY, ImageDetailShape, ImageShape, ImagesShape, image_body, image_detail, images

KEY_FORM = re.compile(r"[0-9a-f]{64}")
KEY_LENGTH = 64

router = APIRouter(route_class=Strict, tags=["images"])

ImageKey = Annotated[str, checked_name("key", KEY_FORM, KEY_LENGTH, KEY, ImageBuildNotFound)]


@router.get("/images", **documented("list_images", "List images, the latest request first", ImagesShape))
def list_images(
    services: Open,
    state: Annotated[ImageState | None, Query(description="In this state.")] = None,
    cursor: NextPage = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With what each waits for, or how its build ended."""
    records = services.installation.image_records
    page = records.list(limit=limit, cursor=cursor, state=state)
    return JSONResponse(images(records.policy, records.store.clock()).page(page.items, page.next))


@router.get("/images/{key:name}", **documented("get_image", "Get an image", ImageDetailShape, 404))
def get_image(key: ImageKey, services: Open) -> JSONResponse:
    """With what it waits for, who builds it, or how its build ended, the tasks that wait for it, and the attempts to build it."""
    records = services.installation.image_records
    return JSONResponse(image_detail(records, records.get(key)))


@router.get(
    "/images/{key:name}/log", **documented("get_image_log", "Get the build log of an image", None, 404, media="text/plain")
)
def get_image_log(key: ImageKey, services: Open) -> PlainTextResponse:
    """The end of the log of the latest attempt that ended; empty if none did."""
    return PlainTextResponse(services.installation.image_records.log(key))


@router.delete("/images/{key:name}", **documented("forget_image", "Forget an image", ImageShape, 404))
def forget_image(key: ImageKey, actor: Acting, services: Open) -> JSONResponse:
    """Its next request builds it again, and a build in progress ends without a result. The image itself is not deleted.

    Returns the record as it was.
    """
    records = services.installation.image_records
    return JSONResponse(image_body(records.forget(key, actor=actor), records.policy, records.store.clock()))
