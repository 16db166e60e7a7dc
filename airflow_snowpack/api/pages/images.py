"""The pages of images: the list with who builds each, and one image with its build log."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.runners.images.explanation import SHORT, explain, host_of
from airflow_snowpack.runners.images.model import ImageState
from airflow_snowpack.wire.image import build_time

PAGE = 50

router = APIRouter(route_class=PageRoute)


@router.get("/images")
def images(page: Here) -> HTMLResponse:
    records = page.services.installation.image_records
    return page.render_states(
        "images.html",
        "Images",
        ImageState,
        lambda cursor, state: records.list(limit=PAGE, cursor=cursor, state=state),
        explained=lambda image: explain(image, records.policy, page.now, "It"),
        build_time=build_time,
        short=SHORT,
        host_of=host_of,
    )


@router.get("/images/{key}")
def image(page: Here, key: str) -> Response:
    records = page.services.installation.image_records
    if redirect := page.of_short_id("images", key, records.keys_beginning, "images"):
        return redirect
    found = records.get(key)
    return page.render(
        "image.html",
        f"Image {found.key[:SHORT]}",
        image=found,
        explanation=explain(found, records.policy, page.now),
        took=build_time(found),
        log=records.log(key),
        history=[(attempt, task_link(attempt.holder, page.airflow)) for attempt in records.attempts(key)],
        waits=[(wait, task_link(wait.task, page.airflow)) for wait in records.waits(key)],
        most=records.policy.max_attempts,
        builder=task_link(found.holder, page.airflow),
        short=SHORT,
        host_of=host_of,
        audit=page.changes(f"image:{key}"),
    )
