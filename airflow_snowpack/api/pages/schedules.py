"""The pages of schedules: the list, one schedule with its explanation, registered runs, pending runs, and events."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import yaml
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.navigation import run_link
from airflow_snowpack.api.pages.page import Here, HtmlPage, PageRoute
from airflow_snowpack.api.routes.schedules import ScheduleName
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling import (
    EventLog,
    Explanation,
    PendingQueue,
    PendingState,
    explain,
    explain_all,
    read_history,
    read_runs,
    waiting_at_gates,
)
from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.events.event_log import read_backlog
from airflow_snowpack.scheduling.history import LaunchedRun
from airflow_snowpack.scheduling.schedules import audit_subject
from airflow_snowpack.scheduling.triggers.trigger import Judgement
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.schedule import definition_of, next_check

router = APIRouter(route_class=PageRoute)

FULL = 1000
"""The length of a whole bar of progress, in units of its drawing."""
LEAST = 6
"""What is not zero can be seen."""
PAGE = 50
EVENTS = 100
STATES = {"": None, "enabled": True, "suspended": False}
RUN_STATES = {"": None, "enabled": True, "disabled": False}
LAUNCHES = 3
LINES = 50
RUNS = 20

WAITS = {
    PendingState.TRIGGER: "waits for its trigger",
    PendingState.CONSTRAINT: "waits for its constraints",
    PendingState.LAUNCH: "starting",
}

Step = tuple[Judgement, int | None, str | None, int]
"""A part of a trigger, its share of :data:`FULL` if it is counted, the word between it and the part before, and its depth."""
Rule = tuple[str, str, str, datetime | None]
"""The kind of a constraint, its state (``met``, ``waits``, ``idle``), the result of its last check or its declaration, and until
when it is not checked again."""


@router.get("/schedules")
def schedules(page: Here) -> HTMLResponse:
    store, (asked, which) = page.services.schedules(), _filter(page, STATES)
    found, following = cut(store.list(**which), PAGE, lambda stored: stored.name)
    counts = store.count()
    return page.render_list(
        "schedules.html",
        "Schedules",
        asked,
        ([*explain_all(store, found).values()], following),
        narrowed=any(counts.values()),
        states=[
            ("", "All", sum(counts.values())),
            ("enabled", "Enabled", counts[True]),
            ("suspended", "Suspended", counts[False]),
        ],
        everything=sum(counts.values()),
        progress=progress,
        rules=rules,
        next_check=next_check,
        launches=lambda explanation: _launches(explanation, page.airflow),
    )


def _launches(explanation: Explanation, airflow: str | None) -> list[tuple[str, datetime, str | None]]:
    """Return the last runs, the newest first: the id of each, its time, and its address in Airflow."""
    done = [(job.dag_id, job.run_id, job.ended_at) for job in explanation.ended if job.state is PendingState.LAUNCHED]
    return [(run_id, at, run_link(dag_id, run_id, airflow)) for dag_id, run_id, at in done if run_id and at][:LAUNCHES]


def _filter(page: HtmlPage, states: Mapping[str, bool | None]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the filter in the address of a list by name, and the arguments for one more entry than its page has."""
    asked = page.filter("search", "dag") | {"state": page.choice("state", states)}
    which = {"dag_id": asked["dag"], "search": asked["search"], "after": page.asked("cursor")}
    given = {name: value or None for name, value in which.items()}
    return asked, {**given, "enabled": states[asked["state"]], "limit": PAGE + 1}


@router.get("/schedules/{name}")
def schedule(page: Here, name: ScheduleName) -> HTMLResponse:
    schedules = page.services.schedules()
    explanation = explain(schedules, name)
    cursor = page.number("cursor")
    lines, following = cut(read_history(schedules.store, name, before=cursor, limit=LINES + 1), LINES, lambda line: line.id)
    return page.render(
        "schedule.html",
        f"Schedule {name}",
        explanation=explanation,
        waiting=schedules.waiting(name),
        may_start=_may_start(page, explanation.stored.dag_id),
        schedule=explanation.stored.read,
        steps=progress(explanation.trigger),
        rules=rules(explanation),
        definition=yaml.safe_dump({"schedules": [definition_of(explanation.stored)]}, sort_keys=False, allow_unicode=True),
        runs=_runs(page, name, RUNS),
        lines=lines,
        next=following,
        cursor=cursor,
        audit=page.changes(audit_subject(name, explanation.stored.origin)),
    )


def _may_start(page: HtmlPage, dag_id: str) -> bool:
    """Return whether to offer what starts the DAG; also while the auth manager does not answer, as the route checks it again."""
    try:
        return page.user.may_edit and page.user.may_start(dag_id)
    except SnowpackError:
        return True


def _runs(page: HtmlPage, schedule: str, limit: int) -> list[tuple[LaunchedRun, str | None]]:
    runs = read_runs(page.services.jobs.store, schedule, limit=limit)
    return [(run, run_link(run.dag_id, run.run_id, page.airflow)) for run in runs]


@router.get("/runs")
def registered_runs(page: Here) -> HTMLResponse:
    asked, which = _filter(page, RUN_STATES)
    found, following = cut(page.services.registered_runs().list(**which), PAGE, lambda stored: stored.name)
    return page.render_list(
        "schedule_runs.html",
        "Registered runs",
        asked,
        ([(stored, _runs(page, stored.name, 1)) for stored in found], following),
        states=[("", "All", None), ("enabled", "Enabled", None), ("disabled", "Disabled", None)],
    )


@router.get("/pending")
def pending(page: Here) -> HTMLResponse:
    """Show what waits for its trigger, for its constraints, or to be started.

    Below it, where nothing narrows the page, are the runs that have begun and wait at a gate for the same constraints.
    """
    queue, cursor = PendingQueue(page.services.jobs.store), page.asked("cursor")
    asked = page.filter("schedule") | {"state": page.choice("state", WAITS)}
    states = [PendingState(asked["state"])] if asked["state"] else []
    counts = queue.count_by_state()
    shown = page.listed(lambda after: queue.page(states=states, schedule=asked["schedule"] or None, after=after, limit=PAGE))
    is_whole = not (states or cursor or asked["schedule"])
    gated = page.services.jobs.store.read(lambda conn: waiting_at_gates(conn, limit=PAGE + 1)) if is_whole else []
    everything = sum(counts.values())
    return page.render_list(
        "pending.html",
        "Pending runs",
        asked,
        (shown.items, shown.next),
        narrowed=bool(everything),
        gated=[(each, run_link(each.place.dag_id, each.place.run_id, page.airflow)) for each in gated[:PAGE]],
        more_gated=len(gated) > PAGE,
        everything=everything,
        states=[("", "All", everything), *((state.value, words, counts[state]) for state, words in WAITS.items())],
        waits=WAITS,
    )


@router.get("/events")
def events(page: Here) -> HTMLResponse:
    asked, store = page.filter("key"), page.services.jobs.store
    found = EventLog(store).latest(asked["key"] or None, before=page.number("cursor"), limit=EVENTS + 1)
    shown = cut(found, EVENTS, lambda recorded: recorded.id)
    return page.render_list("events.html", "Events", asked, shown, backlog=read_backlog(store))


def progress(trigger: Judgement, joined: str | None = None, depth: int = 0) -> list[Step]:
    """Return the trigger taken apart into what is counted."""
    if trigger.word is None:
        inner = [step for part in trigger.parts for step in progress(part, None, depth + 1)]
        return [(trigger, _share(trigger), joined, depth), *inner]
    deeper = depth + 1 if joined else depth
    return [
        step for number, part in enumerate(trigger.parts) for step in progress(part, trigger.word if number else joined, deeper)
    ]


def _share(trigger: Judgement) -> int | None:
    if trigger.have is None or not trigger.want:
        return None
    return min(max(FULL * trigger.have // trigger.want, LEAST if trigger.have else 0), FULL)


def rules(explanation: Explanation) -> list[Rule]:
    pending, read = explanation.pending, explanation.stored.read
    reasons = pending.reasons[1:] if pending is not None and pending.state is PendingState.CONSTRAINT else ()
    constraints = () if read is None else read.constraints
    pairs = zip(constraints, reasons, strict=False)
    checked = [(each.kind, "met" if why.met else "waits", why.text, why.not_before) for each, why in pairs]
    return checked + [(each.kind, "idle", declared(each), None) for each in constraints[len(checked) :]]


def declared(constraint: Constraint) -> str:
    """How a constraint is declared, in a line."""
    ((_, fields),) = constraint.to_json().items()
    values = {name: getattr(constraint, name) for name in fields}
    shown = {name: duration(value) if isinstance(value, timedelta) else fields[name] for name, value in values.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
