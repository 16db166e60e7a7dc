"""The pages of schedules: the list, one schedule with its explanation, and the registered runs."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

import yaml
from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.audit import WORDS
from airflow_snowpack.api.pages.links import run_link
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.progress import Rule, Step, progress, rules
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import (
    Explanation,
    PendingState,
    ScheduleNotFound,
    explain,
    explain_all,
    read_history,
    read_runs,
)
from airflow_snowpack.scheduling.schedule_writer import audit_subject
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.schedule import definition_of

router = APIRouter(route_class=PageRoute)

PAGE = 50
STATES = {"": None, "enabled": True, "suspended": False}
LAUNCHES = 3
LINES = 50
RUNS = 20
CHANGES = 20

# What the history calls things, for people.
TONES = {
    "launched": "succeeded",
    "launched_while_changed": "partial",
    "triggered": "running",
    "requested": "running",
    "discarded": "failed",
    "skipped": "failed",
    "timed_out": "failed",
    "launch_waits": "partial",
    "absorbed": "partial",
    "ticks_missed": "partial",
}
RUN_STATES = {"": None, "enabled": True, "disabled": False}


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule in the list."""

    explanation: Explanation
    airflow: str | None

    @property
    def steps(self) -> list[Step]:
        return progress(self.explanation.trigger)

    @property
    def rules(self) -> list[Rule]:
        return rules(self.explanation)

    @property
    def next_check(self) -> datetime | None:
        waiting = self.explanation.pending.next_check_at if self.explanation.pending is not None else None
        return waiting or self.explanation.next_tick

    @property
    def launches(self) -> list[tuple[str, datetime, str | None]]:
        """Each run's id, its moment, and where Airflow shows it; the newest first."""
        done = [(job.dag_id, job.run_id, job.ended_at) for job in self.explanation.ended if job.state is PendingState.LAUNCHED]
        explanation = [(run_id, at, run_link(dag_id, run_id, self.airflow)) for dag_id, run_id, at in done if run_id and at]
        return explanation[:LAUNCHES]


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
    explanation = explain_all(store, found[:PAGE])
    counts = store.count()
    return page.render(
        "schedules.html",
        "Schedules",
        rows=[Row(each, page.airflow) for each in explanation.values()],
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


@router.get("/schedules/{name}")
def schedule(name: str, page: Here) -> Response:
    if not LEVEL.fullmatch(name):
        raise ScheduleNotFound(name)
    schedules = page.services.schedules()
    explanation = explain(schedules, name)
    before = page.asked("before")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    lines = read_history(schedules.store, name, before=start, limit=LINES + 1)
    return page.render(
        "schedule.html",
        f"Schedule {name}",
        explanation=explanation,
        schedule=explanation.stored.read,
        steps=progress(explanation.trigger),
        rules=rules(explanation),
        definition=yaml.safe_dump({"schedules": [definition_of(explanation.stored)]}, sort_keys=False, allow_unicode=True),
        runs=[(run, run_link(run.dag_id, run.run_id, page.airflow)) for run in read_runs(schedules.store, name, limit=RUNS)],
        lines=lines[:LINES],
        next=lines[LINES - 1].id if len(lines) > LINES else None,
        before=start,
        tones=TONES,
        words=WORDS,
        audit=AuditTrail(schedules.store).latest(CHANGES, subject=audit_subject(name, explanation.stored.origin)),
    )


PAGE = 50


@router.get("/runs")
def registered_runs(page: Here) -> HTMLResponse:
    asked = {name: page.asked(name) for name in ("search", "dag", "state")}
    state, after = asked["state"] if asked["state"] in RUN_STATES else "", page.asked("after")
    runs = page.services.registered_runs()
    found = runs.list(
        dag_id=asked["dag"] or None,
        enabled=RUN_STATES[state],
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
