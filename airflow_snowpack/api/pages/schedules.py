"""The list of schedules: the progress of each trigger, its constraints, the next check and the last launches."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.progress import Rule, Step, progress, rules
from airflow_snowpack.api.pages.run_link import run_link
from airflow_snowpack.scheduling import Explanation, PendingState, explain_all

PAGE = 50
STATES = {"": None, "enabled": True, "suspended": False}
LAUNCHES = 3

router = APIRouter(route_class=PageRoute)


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule in the list."""

    told: Explanation
    airflow: str | None

    @property
    def steps(self) -> list[Step]:
        return progress(self.told.trigger)

    @property
    def rules(self) -> list[Rule]:
        return rules(self.told)

    @property
    def next_check(self) -> datetime | None:
        waiting = self.told.pending.next_check_at if self.told.pending is not None else None
        return waiting or self.told.next_tick

    @property
    def launches(self) -> list[tuple[str, datetime, str | None]]:
        """Each run's id, its moment, and where Airflow shows it; the newest first."""
        done = [(job.dag_id, job.run_id, job.ended_at) for job in self.told.ended if job.state is PendingState.LAUNCHED]
        told = [(run_id, at, run_link(dag_id, run_id, self.airflow)) for dag_id, run_id, at in done if run_id and at]
        return told[:LAUNCHES]


@router.get("/schedules")
def schedules(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("search", "dag", "state")}
    state = asked["state"] if asked["state"] in STATES else ""
    store, after = page.services.schedules(), page.asked("after")
    found = store.list(
        dag_id=asked["dag"] or None,
        enabled=STATES[state],
        search=asked["search"] or None,
        after=after or None,
        limit=PAGE + 1,
    )
    told = explain_all(store, found[:PAGE])
    counts = store.count()
    return page.render(
        "schedules.html",
        "Schedules",
        rows=[Row(each, page.airflow) for each in told.values()],
        next=found[PAGE - 1].name if len(found) > PAGE else None,
        after=after,
        asked=asked | {"state": state},
        states=[
            ("", "All", sum(counts.values())),
            ("enabled", "Enabled", counts[True]),
            ("suspended", "Suspended", counts[False]),
        ],
        everything=sum(counts.values()),
        url=lambda **changes: urlencode({name: value for name, value in (asked | changes).items() if value}),
    )
