"""The pages of jobs: the list with its filter, and one job with its timeline."""

import json

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from airflow_snowpack.api.pages.figures import figures
from airflow_snowpack.api.pages.job_query import PERIODS, JobQuery
from airflow_snowpack.api.pages.navigation import task_link
from airflow_snowpack.api.pages.page import Here, PageRoute
from airflow_snowpack.api.pages.tables import did
from airflow_snowpack.api.pages.timeline import spans, steps
from airflow_snowpack.api.parameters import JobId
from airflow_snowpack.jobs import MAX_EXAMINED, PRIORITIES, Job, JobCounts, JobPage, JobStatus, explain
from airflow_snowpack.jobs.action_history import ActionFigures
from airflow_snowpack.maintenance import in_order
from airflow_snowpack.maintenance.options import usable_actions
from airflow_snowpack.store import AuditTrail
from airflow_snowpack.wire.job import plan_of
from airflow_snowpack.wire.plan import work

router = APIRouter(route_class=PageRoute)

PAGE = 50
COUNTED = 10_000
"""Counts stop here, so that a list of millions costs no more than one of thousands."""
SUGGESTED_TABLES = 200


@router.get("/jobs")
def jobs(page: Here) -> HTMLResponse:
    services, params = page.services, page.request.query_params
    query = JobQuery.read(params, catalog=services.inventory.catalog_name, now=page.now)
    cursor = params.get("cursor") or None
    made_at = page.now
    nothing = JobCounts(dict.fromkeys(JobStatus, 0), frozenset())
    counts = nothing if query.problem else services.jobs.count(query.filter, at_most=COUNTED)
    chosen = query.filter.statuses or frozenset(JobStatus)
    found = JobPage((), None) if query.problem else services.jobs.page(query.filter, after=cursor, limit=PAGE)
    places = services.jobs.places([job.job_id for job in found.items if not job.status.is_terminal])
    return page.render(
        "jobs.html",
        "Jobs",
        query=query,
        cursor=cursor,
        rows=[(job, places.get(job.job_id), task_link(job.owner, page.airflow)) for job in found.items],
        progress=progress,
        did=did,
        next=found.next,
        searched_to=found.searched_to,
        examined=MAX_EXAMINED,
        counts=counts,
        shown=sum(counts.by_status[status] for status in chosen),
        capped=bool(chosen & counts.capped),
        statuses=list(JobStatus),
        periods=[(value, label) for value, (label, _) in PERIODS.items()],
        table_names=[name.dotted for name in services.inventory.tables(limit=SUGGESTED_TABLES)],
        batch_query=query.to_api(made_at),
    )


def progress(job: Job) -> list[tuple[str, str]]:
    """Return each action with its outcome: ``succeeded`` and so on, ``running`` or ``waiting``."""
    outcomes = {result.action: result.outcome.value for result in job.results}
    done = [(action, outcomes.get(action, "waiting")) for action in job.actions]
    if job.status is JobStatus.RUNNING:
        current = next((index for index, (_, outcome) in enumerate(done) if outcome == "waiting"), None)
        if current is not None:
            done[current] = (done[current][0], "running")
    return done


@router.get("/jobs/{job_id}")
def job(page: Here, job_id: JobId) -> Response:
    reader, now = page.services.jobs, page.now
    if redirect := page.of_short_id("jobs", job_id, reader.ids_beginning, f"jobs?search={job_id}"):
        return redirect
    found = reader.get(job_id)
    history = reader.history(job_id)
    return page.render(
        "job.html",
        f"Job {job_id[:8]} · {found.table.dotted}",
        job=found,
        plan=plan_of(found),
        outcomes={result.action: ActionFigures.of(result) for result in found.results} if not found.dry_run else None,
        work=work,
        explanation=explain(reader, found),
        place=reader.places([job_id]).get(job_id),
        progress=progress(found),
        spans=spans(found, history, now),
        steps=steps(found, history),
        figures={result.action: figures(result, dry_run=found.dry_run) for result in found.results},
        options=json.dumps(dict(found.options), indent=2, sort_keys=True) if found.options else None,
        audit=list(reversed(AuditTrail(reader.store).of(job_id))),
        task=task_link(found.owner, page.airflow),
        lock=reader.locks.get(found.table),
        # The same name in another catalog is another table.
        may_be_edited=found.table.catalog_id == page.services.inventory.catalog_id,
        actions=in_order(usable_actions(), page.services.order),
        priorities=PRIORITIES,
    )
