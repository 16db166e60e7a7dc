"""Removals: list and download what would be deleted, approve or reject it, run it, and restore files from quarantine."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse

from airflow_snowpack.api.openapi import created, documented
from airflow_snowpack.api.parameters import DOTTED, Limit, NamedTable, NextPage, checked_name, cursor_formerly, text_parameter
from airflow_snowpack.api.routing import Strict, link_to
from airflow_snowpack.api.services import Acting, Open, Services
from airflow_snowpack.maintenance.removals.errors import RemovalNotFound
from airflow_snowpack.maintenance.removals.model import RemovalItem, RemovalState
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.removals.request import request_of, restore_request, restore_table_request
from airflow_snowpack.maintenance.submit import MaintenanceRequest, refuse_if_draining
from airflow_snowpack.wire.job import JobShape
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.removal import ITEMS, REMOVAL_ID, REMOVALS, RemovalItemsShape, RemovalShape, RemovalsShape
from airflow_snowpack.wire.shape import plain

ID_FORM = re.compile(r"[0-9a-f]{32}")
ID_LENGTH = 32
LAST_ITEM = 2**31 - 1
HEADINGS = ("name", "bytes", "at", "outcome", "reason")

router = APIRouter(route_class=Strict, tags=["removals"])

RemovalId = Annotated[str, checked_name("removal_id", ID_FORM, ID_LENGTH, REMOVAL_ID, RemovalNotFound)]
Comment = Annotated[str | None, text_parameter("For the record.")]
Files = Annotated[list[str] | None, Query(description="The path of a file; repeat it for several. Without one: all files.")]
DOWNLOAD = documented("download_removal", "Download the list of a removal as CSV", None, 404, media="text/csv")


@router.get("/removals", **documented("list_removals", "List removals, the latest plan first", RemovalsShape))
def list_removals(
    services: Open,
    table: Annotated[str | None, text_parameter("Of this table: `database.table_name`.", pattern=DOTTED)] = None,
    state: Annotated[RemovalState | None, Query(description="In this state.")] = None,
    cursor: NextPage = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With what became of each."""
    name = None if table is None else services.inventory.table(*table.rpartition(".")[::2])
    page = services.installation.removals.list(limit=limit, cursor=cursor, table=name, state=state)
    return JSONResponse(REMOVALS.page(page.items, page.next))


@router.get("/removals/{removal_id:name}", **documented("get_removal", "Get a removal", RemovalShape, 404))
def get_removal(removal_id: RemovalId, services: Open) -> JSONResponse:
    """With who decided on it, and what became of it."""
    return JSONResponse(RemovalShape.encode(services.installation.removals.get(removal_id)))


@router.get(
    "/removals/{removal_id:name}/items", **documented("list_removal_items", "List what a removal deletes", RemovalItemsShape, 404)
)
def list_items(
    removal_id: RemovalId,
    services: Open,
    cursor: Annotated[int | None, cursor_formerly("start", int, {"ge": 0, "le": LAST_ITEM})] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """In the order of the plan, with the outcome of each item."""
    removals, start = services.installation.removals, cursor or 0
    removals.get(removal_id)
    shown, more = cut(removals.some_items(removal_id, start=start, limit=limit + 1), limit, lambda _: start + limit)
    return JSONResponse(ITEMS.page(shown, more))


@router.get("/removals/{removal_id:name}/items.csv", **DOWNLOAD)
def download(removal_id: RemovalId, services: Open) -> StreamingResponse:
    """The whole list, in the order of the plan."""
    removals = services.installation.removals
    removals.get(removal_id)
    name = f'attachment; filename="removal-{removal_id}.csv"'
    return StreamingResponse(_lines(removals, removal_id), media_type="text/csv", headers={"Content-Disposition": name})


@router.post("/removals/{removal_id:name}/approve", **documented("approve_removal", "Approve a removal", RemovalShape, 404, 409))
def approve(removal_id: RemovalId, actor: Acting, services: Open, comment: Comment = None) -> JSONResponse:
    """Nothing is deleted before it is run. The same user may repeat it."""
    return JSONResponse(RemovalShape.encode(services.installation.removals.approve(removal_id, actor=actor, comment=comment)))


@router.post("/removals/{removal_id:name}/reject", **documented("reject_removal", "Reject a removal", RemovalShape, 404, 409))
def reject(removal_id: RemovalId, actor: Acting, services: Open, comment: Comment = None) -> JSONResponse:
    """Cannot be undone. A removal that is being deleted cannot be rejected: cancel its job."""
    return JSONResponse(RemovalShape.encode(services.installation.removals.reject(removal_id, actor=actor, comment=comment)))


@router.post(
    "/removals/{removal_id:name}/run",
    **documented("run_removal", "Run an approved removal", JobShape, 404, 409, status=202, headers=created("job")),
)
def run(request: Request, removal_id: RemovalId, actor: Acting, services: Open) -> JSONResponse:
    """Locks the table and adds the job that deletes the list to the queue."""
    refuse_if_draining(services.jobs)
    return _submitted(request, services, request_of(services.installation.removals.get(removal_id)), actor)


@router.post(
    "/removals/{removal_id:name}/restore",
    **documented("restore_removal", "Restore files from quarantine", JobShape, 400, 404, 409, status=202, headers=created("job")),
)
def restore(request: Request, removal_id: RemovalId, actor: Acting, services: Open, file: Files = None) -> JSONResponse:
    """Locks the table and adds the job that restores the files to the queue. Nothing is overwritten."""
    refuse_if_draining(services.jobs)
    return _submitted(request, services, restore_request(services.installation.removals.get(removal_id), file or ()), actor)


@router.post(
    "/tables/{database:name}/{table:name}/restore",
    **documented(
        "restore_table", "Restore all files of a table from quarantine", JobShape, 400, 409, status=202, headers=created("job")
    ),
)
def restore_table(request: Request, name: NamedTable, actor: Acting, services: Open, file: Files = None) -> JSONResponse:
    """Also of a table that is damaged or was dropped. Locks the table and adds the job that restores the files to the queue."""
    refuse_if_draining(services.jobs)
    return _submitted(request, services, restore_table_request(services.installation.removals, name, file or ()), actor)


def _submitted(request: Request, services: Services, asked: MaintenanceRequest, actor: Acting) -> JSONResponse:
    job = services.jobs.submit(asked.table, asked.actions, options=asked.options, actor=actor)
    return JSONResponse(JobShape.encode(job), 202, {"Location": link_to(request, f"/jobs/{job.job_id}")})


def _lines(removals: Removals, removal_id: str) -> Iterator[bytes]:
    """Return the list as CSV, one part at a time. A name that is not valid text is written with escapes."""
    yield _csv([HEADINGS])
    for number in removals.part_numbers(removal_id):
        yield _csv([_row(item) for item in removals.part(removal_id, number)])


def _row(item: RemovalItem) -> tuple[object, ...]:
    return tuple(plain(getattr(item, name)) for name in HEADINGS)


def _csv(rows: list[tuple[object, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "backslashreplace")
