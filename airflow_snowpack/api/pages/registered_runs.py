"""The list of registered runs: what each starts with what, when it comes next, and how its last run ended."""

from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.run_link import run_link
from airflow_snowpack.scheduling import read_runs

PAGE = 50
STATES = {"": None, "enabled": True, "disabled": False}

router = APIRouter(route_class=PageRoute)


@router.get("/runs")
def registered_runs(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("search", "dag", "state")}
    state, after = asked["state"] if asked["state"] in STATES else "", page.asked("after")
    runs = page.services.registered_runs()
    found = runs.list(
        dag_id=asked["dag"] or None,
        enabled=STATES[state],
        search=asked["search"] or None,
        after=after or None,
        limit=PAGE + 1,
    )
    last = {one.name: read_runs(runs.store, one.name, limit=1) for one in found[:PAGE]}
    return page.render(
        "schedule_runs.html",
        "Registered runs",
        rows=[(one, [(run, run_link(run.dag_id, run.run_id, page.airflow)) for run in last[one.name]]) for one in found[:PAGE]],
        next=found[PAGE - 1].name if len(found) > PAGE else None,
        after=after,
        asked=asked | {"state": state},
        states=[("", "All"), ("enabled", "Enabled"), ("disabled", "Disabled")],
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )
