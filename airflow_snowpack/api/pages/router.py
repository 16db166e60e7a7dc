"""The routes of the pages, below ``/ui``."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.pages import (
    assets,
    audit,
    builds,
    events,
    interim,
    jobs,
    lineage,
    locks,
    login,
    pending,
    queue,
    schedules,
    tables,
)
from airflow_snowpack.api.pages.page import PageRoute, not_a_page

router = APIRouter(prefix="/ui", include_in_schema=False, route_class=PageRoute)
for each in (tables, jobs, schedules, pending, events, builds, lineage, interim, locks, queue, audit, assets, login):
    router.include_router(each.router)


@router.get("")
def without_slash(request: Request, user: Reader) -> RedirectResponse:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/ui/")


@router.get("/{rest:path}")
def nothing(rest: str, request: Request, user: Reader) -> HTMLResponse:
    return not_a_page(request)
