"""The page of tables: each with its last maintenance, what comes next and who holds it."""

from collections.abc import Callable
from datetime import datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute, search_pages
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

router = APIRouter(route_class=PageRoute)


@router.get("/")
def tables(page: Here) -> HTMLResponse:
    asked = page.filter("database", "search") | {"show": page.choice("show", SHOWN)}
    services, after = page.services, page.asked("after")

    def read(place: str | None) -> list[TableExplanation]:
        which = {"database": asked["database"] or None, "search": asked["search"] or None}
        return [*explain_tables(services.jobs, services.inventory.tables(**which, after=place, limit=PAGE + 1)).values()]

    state = services.inventory.state()
    return page.render(
        "tables.html",
        "Tables",
        asked,
        state=state,
        stale=state.refreshed_at is not None and (page.now - state.refreshed_at).total_seconds() > STALE_AFTER_S,
        found=search_pages(read, lambda each: each.table.dotted, SHOWN[asked["show"]][1], after or None, PAGE, LOOKED_AT),
        after=after,
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
