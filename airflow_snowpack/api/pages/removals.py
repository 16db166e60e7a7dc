"""The pages of removals: what awaits approval, and one list with the outcome of each item."""

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.humanize import SHORT_ID
from airflow_snowpack.maintenance.removals.model import RemovalState
from airflow_snowpack.maintenance.removals.records import audit_subject

PAGE = 50
ITEMS = 200

router = APIRouter(route_class=PageRoute)


@router.get("/removals")
def removals(page: Here) -> HTMLResponse:
    records = page.services.installation.removals
    return page.render_states(
        "removals.html",
        "Removals",
        RemovalState,
        lambda cursor, state: records.list(limit=PAGE, cursor=cursor, state=state),
        short=SHORT_ID,
    )


@router.get("/removals/{removal_id}")
def removal(page: Here, removal_id: str) -> Response:
    records = page.services.installation.removals
    if redirect := page.of_short_id("removals", removal_id, records.ids_beginning, "removals"):
        return redirect
    found, start = records.get(removal_id), page.number("cursor", digits=9) or 0
    items = records.some_items(removal_id, start=start, limit=ITEMS)
    return page.render(
        "removal.html",
        f"Removal {removal_id[:SHORT_ID]}",
        removal=found,
        task=task_link(found.requested_by, page.airflow),
        items=items,
        start=start,
        previous=max(0, start - ITEMS) if start else None,
        next=start + ITEMS if start + ITEMS < found.item_count else None,
        short=SHORT_ID,
        audit=page.changes(audit_subject(removal_id)),
    )
