"""The log of events, newest first."""

from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.scheduling import EventLog
from airflow_snowpack.scheduling.events.event_log import read_backlog

PAGE = 100

router = APIRouter(route_class=PageRoute)


@router.get("/events")
def events(page: Here) -> HTMLResponse:
    key, before = page.asked("key"), page.asked("before")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    store = page.services.jobs.store
    found = EventLog(store).latest(key or None, before=start, limit=PAGE + 1)
    return page.render(
        "events.html",
        "Events",
        events=found[:PAGE],
        next=found[PAGE - 1].id if len(found) > PAGE else None,
        before=start,
        key=key,
        backlog=read_backlog(store),
        url=lambda **changes: urlencode({name: value for name, value in ({"key": key} | changes).items() if value}),
    )
