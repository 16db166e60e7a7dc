"""The page of tables, those that need maintenance most first: each with its score, last job, next step and lock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Found, Here, PageRoute, search_pages
from airflow_snowpack.inventory import TableScore, TableScores
from airflow_snowpack.jobs import PRIORITIES, Job, JobStatus, TableExplanation, explain_tables
from airflow_snowpack.maintenance import Action

PAGE = 50
LOOKED_AT = 500
"""How many tables one request searches at most."""
STALE_AFTER_S = 600

Fits = Callable[[TableExplanation], bool]
SHOWN: dict[str, tuple[str, Fits]] = {
    "": ("All", lambda each: True),
    "failed": ("Last job failed", lambda each: each.last is not None and each.last.status is JobStatus.FAILED),
    "never": ("Never maintained", lambda each: each.last is None),
    "running": ("Waiting or running", lambda each: each.last is not None and not each.last.status.is_terminal),
}

ORDERS = {"": "Need", "name": "Name"}

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Row:
    """A table in the list."""

    explained: TableExplanation
    score: TableScore


@router.get("/tables")
def tables(page: Here) -> HTMLResponse:
    asked = page.filter("database", "search") | {"show": page.choice("show", SHOWN), "order": page.choice("order", ORDERS)}
    services, by_name = page.services, asked["order"] == "name"
    scores, fits = TableScores(services.jobs.store, services.inventory), SHOWN[asked["show"]][1]

    def read(cursor: str | None) -> list[Row]:
        which = {"database": asked["database"] or None, "search": asked["search"] or None}
        found = scores.page(**which, by_name=by_name, cursor=cursor, limit=PAGE + 1).items
        explained = explain_tables(services.jobs, [each.table for each in found])
        return [Row(explained[each.table], each) for each in found]

    def search(cursor: str | None) -> Found[Row, str]:
        place_of = partial(scores.cursor_after, by_name=by_name)
        return search_pages(read, lambda row: place_of(row.score), lambda row: fits(row.explained), cursor, PAGE, LOOKED_AT)

    state = services.inventory.state()
    return page.render(
        "tables.html",
        "Tables",
        asked,
        state=state,
        stale=state.refreshed_at is not None and (page.now - state.refreshed_at).total_seconds() > STALE_AFTER_S,
        found=page.listed(search, "after"),
        after=page.asked("after"),
        orders=list(ORDERS.items()),
        shown=[(value, label) for value, (label, _) in SHOWN.items()],
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
