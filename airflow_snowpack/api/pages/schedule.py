"""The page of one schedule: why it has not run, how it is declared, what waits, what it launched, and who changed it."""

import yaml
from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from airflow_snowpack.api.pages.audit import WORDS
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.progress import progress, rules
from airflow_snowpack.api.pages.run_link import run_link
from airflow_snowpack.api.schedule_bodies import definition_of
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import Origin, ScheduleNotFound, StoredSchedule, explain, read_history, read_runs
from airflow_snowpack.scheduling.registered_runs import audit_subject as audit_subject_of_run
from airflow_snowpack.scheduling.schedule_writer import audit_subject
from airflow_snowpack.store import AuditTrail

LINES = 50
RUNS = 20
CHANGES = 20

# What the history calls things, for people.
TONES = {
    "launched": "succeeded",
    "launched_while_changed": "partial",
    "triggered": "running",
    "asked_for": "running",
    "discarded": "failed",
    "skipped": "failed",
    "timed_out": "failed",
    "launch_waits": "partial",
    "absorbed": "partial",
    "ticks_missed": "partial",
}

router = APIRouter(route_class=PageRoute)


@router.get("/schedules/{name}")
def schedule(name: str, page: Here) -> Response:
    if not LEVEL.fullmatch(name):
        raise ScheduleNotFound(name)
    schedules = page.services.schedules()
    try:
        told = explain(schedules, name)
    except ScheduleNotFound:
        if name not in schedules.registered_names():
            raise
        # Its pending job, or its launch, led here; it has no cron, and so no schedule.
        return RedirectResponse(f"{page.root}/ui/runs?search={name}")
    before = page.asked("before")
    start = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None
    lines = read_history(schedules.store, name, before=start, limit=LINES + 1)
    return page.render(
        "schedule.html",
        f"Schedule {name}",
        told=told,
        schedule=told.stored.read,
        steps=progress(told.trigger),
        rules=rules(told),
        definition=yaml.safe_dump({"schedules": [definition_of(told.stored)]}, sort_keys=False, allow_unicode=True),
        runs=[(run, run_link(run.dag_id, run.run_id, page.airflow)) for run in read_runs(schedules.store, name, limit=RUNS)],
        lines=lines[:LINES],
        next=lines[LINES - 1].id if len(lines) > LINES else None,
        before=start,
        tones=TONES,
        words=WORDS,
        audit=AuditTrail(schedules.store).latest(CHANGES, subject=_subject(told.stored)),
    )


def _subject(stored: StoredSchedule) -> str:
    """The cron of a registered run is changed as that."""
    return audit_subject_of_run(stored.name) if stored.origin is Origin.RUN else audit_subject(stored.name)
