"""The page of tables: each with its last maintenance, what comes next and who holds it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, Page, PageRoute
from airflow_snowpack.jobs import Job, JobStatus, TableExplanation, explain_tables
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


@dataclass(frozen=True, slots=True)
class Found:
    """A page of tables.

    :param next: after which table the next page begins; ``None`` when there is none.
    :param looked_at: how many tables were searched.
    """

    tables: tuple[TableExplanation, ...]
    next: str | None
    looked_at: int


@router.get("/")
def tables(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("database", "search", "show")}
    show = asked["show"] if asked["show"] in SHOWN else ""
    found = find(page, asked["database"], asked["search"], show, page.asked("after") or None)
    state = page.services.inventory.state()
    return page.render(
        "tables.html",
        "Tables",
        state=state,
        stale=state.refreshed_at is not None and (page.now - state.refreshed_at).total_seconds() > STALE_AFTER_S,
        found=found,
        asked=asked | {"show": show},
        after=page.asked("after"),
        shown=[(value, label) for value, (label, _) in SHOWN.items()],
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
        actions=page.services.order,
        suggested=suggested,
        did=did,
        ended=ended,
    )


def find(page: Page, database: str, search: str, show: str, after: str | None) -> Found:
    """Look through the inventory in order of names until a page is full, but not for ever."""
    fits, inventory = SHOWN[show][1], page.services.inventory
    chosen: list[TableExplanation] = []
    looked_at = 0
    while looked_at < LOOKED_AT:
        names = inventory.tables(database=database or None, search=search or None, after=after, limit=PAGE + 1)
        more, names = len(names) > PAGE, names[:PAGE]
        explained = explain_tables(page.services.jobs, names)
        for name in names:
            looked_at, after = looked_at + 1, name.dotted
            if fits(explained[name]):
                chosen.append(explained[name])
            if len(chosen) == PAGE:
                return Found(tuple(chosen), after if more or name != names[-1] else None, looked_at)
        if not more:
            return Found(tuple(chosen), None, looked_at)
    return Found(tuple(chosen), after, looked_at)


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
