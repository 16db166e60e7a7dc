"""The page of tables, those that need maintenance most first: each with its score, last job, next step and lock."""

from datetime import datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.jobs import PRIORITIES, Job, JobStatus, TableExplanation
from airflow_snowpack.maintenance import Action
from airflow_snowpack.maintenance.table_list import Order, Show, list_tables

PAGE = 50
STALE_AFTER_S = 600

SHOWN = {"": "All", Show.FAILED: "Last job failed", Show.NEVER: "Never maintained", Show.RUNNING: "Waiting or running"}
ORDERS = {"": "Need", Order.NAME: "Name"}

router = APIRouter(route_class=PageRoute)


@router.get("/tables")
def tables(page: Here) -> HTMLResponse:
    asked = page.filter("database", "search") | {"show": page.choice("show", SHOWN), "order": page.choice("order", ORDERS)}
    services = page.services
    state = services.inventory.state()
    return page.render(
        "tables.html",
        "Tables",
        asked,
        state=state,
        stale=state.refreshed_at is not None and (page.now - state.refreshed_at).total_seconds() > STALE_AFTER_S,
        found=page.listed(
            lambda after: list_tables(
                services.jobs,
                services.inventory,
                database=asked["database"] or None,
                search=asked["search"] or None,
                show=Show(asked["show"]) if asked["show"] else None,
                order=Order(asked["order"] or Order.NEED),
                after=after,
                limit=PAGE,
            ),
            "after",
        ),
        after=page.asked("after"),
        orders=list(ORDERS.items()),
        shown=list(SHOWN.items()),
        actions=services.order,
        priorities=PRIORITIES,
        suggested=suggested,
        did=did,
        ended=ended,
    )


def suggested(each: TableExplanation) -> str:
    """The actions that the newest dry run found work for, else the two that nearly every table needs."""
    if each.plan is not None:
        found = [result.action for result in each.plan.results if result.success and result.has_work]
        if found:
            return " ".join(found)
    return f"{Action.REWRITE_DATA_FILES} {Action.EXPIRE_SNAPSHOTS}"


def did(job: Job) -> str:
    """What a job did, in a line."""
    if job.status is JobStatus.FAILED and job.error:
        return job.error.strip().splitlines()[0][:300]
    return "; ".join(result.message for result in job.results)[:300]


def ended(job: Job) -> datetime:
    """The moment that matters most: its end, else its start, else its submission."""
    return job.completed_at or job.started_at or job.submitted_at
