"""The page of one job: why it is where it is, its timeline, what each action did, and who did what to it."""

import json

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.audit import WORDS
from airflow_snowpack.api.pages.figures import Figure, figures
from airflow_snowpack.api.pages.jobs import progress
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.task_link import task_link
from airflow_snowpack.api.pages.timeline import spans, steps
from airflow_snowpack.jobs import AuditTrail, Job, explain

router = APIRouter(route_class=PageRoute)


@router.get("/jobs/{job_id}")
def job(job_id: str, page: Here) -> HTMLResponse:
    reader, now = page.services.jobs, page.now
    found = reader.get(job_id.replace("\x00", ""))  # which no database takes
    history = reader.history(job_id)
    return page.render(
        "job.html",
        f"Job {job_id[:8]} · {found.table.dotted}",
        job=found,
        explanation=explain(reader, found),
        place=reader.places([job_id]).get(job_id),
        progress=progress(found),
        spans=spans(found, history, now),
        steps=steps(found, history),
        figures=_figures(found),
        options=json.dumps(dict(found.options), indent=2, sort_keys=True) if found.options else None,
        words=WORDS,
        audit=list(reversed(AuditTrail(reader.store).of(job_id))),
        task=task_link(found.owner, page.airflow),
        lock=reader.locks.get(found.table),
    )


def _figures(found: Job) -> dict[str, list[Figure]]:
    return {result.action: figures(result, dry_run=found.dry_run) for result in found.results}
