"""Jobs: submit maintenance, list, inspect, cancel, delete and re-run."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import created, documented, header
from airflow_snowpack.api.parameters import Cursor, Database, Filter, JobId, Limit, RawBody, Table, parse_body
from airflow_snowpack.api.routing import Strict, link_to, link_to_next
from airflow_snowpack.api.services import Acting, Open, Services
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import CatalogUnreachable
from airflow_snowpack.jobs import DrainModeOn, Job, JobFilter, explain
from airflow_snowpack.jobs.listing import NEWEST_FIRST
from airflow_snowpack.maintenance.submit import MaintenanceRequest
from airflow_snowpack.maintenance.submitter import Submitter, drain_mode_first
from airflow_snowpack.store import AuditTrail, StoreError
from airflow_snowpack.wire.job import BatchShape, JobShape, SubmitBody, TimelineShape

router = APIRouter(route_class=Strict, tags=["jobs"])

POLL_SECONDS = 30
BATCH_SIZE = 100
BATCH_DURATION = timedelta(seconds=2.5)
"""A longer batch is answered with the cursor to continue from, so that each answer comes in time."""
STOPS_BATCH = (DrainModeOn, StoreError, CatalogUnreachable)
"""Errors that would stop every job of a batch."""

NEXT = {"Link": header('The next page, as `<…>; rel="next"`, if any.')}
POLL = {"Retry-After": header("While the job is pending or running.", "integer")}
ACCEPTED = created("job") | {"Retry-After": header("When to get the job again; not for a dry run, which is done.", "integer")}
REPLAYED = {
    "Idempotency-Replayed": header(
        "An earlier request with this key submitted the job; this is its current state.", enum=["true"]
    )
}

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="For a day, the same request with the same key returns the same job. 1 to 255 printable ASCII characters, "
        "such as a UUID.",
        json_schema_extra={"pattern": "^[ -~]{1,255}$", "example": "0d5a1f64-7a0f-4f6a-9d35-1f7f5c3d8a52"},
    ),
]


async def _submitter(actor: Acting, services: Open) -> Submitter:
    return Submitter(
        services.jobs, services.inventory, actor, services.order, services.planner, services.ask_catalog, services.iceberg
    )


Submitting = Annotated[Submitter, Depends(_submitter)]
SUBMIT = documented(
    "submit_maintenance",
    "Submit maintenance of a table",
    JobShape,
    400,
    404,
    409,
    status=202,
    headers=ACCEPTED | REPLAYED,
    body=SubmitBody,
)


@router.post("/tables/{database:name}/{table:name}/maintenance", **SUBMIT)
def submit(
    request: Request, database: Database, table: Table, submitter: Submitting, sent: RawBody, key: Key = None
) -> JSONResponse:
    """Locks the table and adds a job to the queue. A dry run is done at once and locks nothing."""
    with drain_mode_first(submitter.jobs):
        name, body = submitter.inventory.table(database, table), parse_body(SubmitBody, sent)
        wanted = MaintenanceRequest.parse(
            name.dotted,
            body.actions,
            catalog=name.catalog,
            catalog_id=name.catalog_id,
            options=body.options,
            where=body.where,
            only_if_needed=body.only_if_needed,
            priority=body.priority,
            order=submitter.order,
            iceberg=submitter.iceberg,
        )
    submission = submitter.submit(wanted, key=key, dry_run=body.dry_run)
    return _accepted(request, submission.job, again=submission.again)


# Before the routes of one job, which would take "batch" for an id.
BATCH = "Processes at most 100 jobs of the filter. Repeat the request with the cursor in `next` until that is null."


@router.post("/jobs/batch/cancel", description=BATCH, **documented("cancel_jobs", "Cancel the jobs of a filter", BatchShape))
def cancel_jobs(actor: Acting, services: Open, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, partial(services.jobs.cancel, actor=actor))


@router.post(
    "/jobs/batch/delete", description=BATCH, **documented("delete_jobs", "Delete the finished jobs of a filter", BatchShape)
)
def delete_jobs(actor: Acting, services: Open, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, partial(services.jobs.delete, actor=actor))


@router.post("/jobs/batch/rerun", description=BATCH, **documented("rerun_jobs", "Re-run the jobs of a filter", BatchShape))
def rerun_jobs(services: Open, submitter: Submitting, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, submitter.rerun)


@router.get("/jobs", **documented("list_jobs", "List jobs, newest first", list[JobShape], headers=NEXT))
def list_jobs(request: Request, services: Open, which: Filter, cursor: Cursor = None, limit: Limit = 100) -> JSONResponse:
    """Without a filter: all jobs. Pages neither repeat nor miss a job, whatever is submitted or ends meanwhile."""
    page = services.jobs.page(which, after=cursor, limit=limit)
    headers = {} if page.next is None else {"Link": link_to_next(request, "/jobs", page.next)}
    return JSONResponse([JobShape.encode(job) for job in page.items], headers=headers)


@router.get("/jobs/{job_id}", **documented("get_job", "Get a job", JobShape, 404, headers=POLL))
def get(job_id: JobId, services: Open) -> JSONResponse:
    """The job with its results so far."""
    job = services.jobs.get(job_id)
    return JSONResponse(JobShape.encode(job), headers={} if job.status.is_terminal else {"Retry-After": str(POLL_SECONDS)})


@router.get("/jobs/{job_id}/timeline", **documented("get_timeline", "Get everything about a job", TimelineShape, 404))
def timeline(job_id: JobId, services: Open) -> JSONResponse:
    """Its attempts, its place in the queue or its lease, its history, and who changed it."""
    jobs = services.jobs
    job = jobs.get(job_id)
    return JSONResponse(
        TimelineShape.encode(
            job,
            job=job,
            explanation=str(explain(jobs, job)),
            queue=jobs.places([job_id]).get(job_id),
            history=jobs.history(job_id),
            audit=AuditTrail(jobs.store).of(job_id),
        )
    )


@router.post("/jobs/{job_id}/cancel", **documented("cancel_job", "Cancel a job", JobShape, 404, 409))
def cancel(job_id: JobId, actor: Acting, services: Open) -> JSONResponse:
    """Cannot be undone. A pending job unlocks its table at once; a running one when its worker has left the table."""
    return JSONResponse(JobShape.encode(services.jobs.cancel(job_id, actor=actor)))


@router.delete("/jobs/{job_id}", **documented("delete_job", "Delete a finished job", None, 404, 409, status=204))
def delete(job_id: JobId, actor: Acting, services: Open) -> Response:
    """The job is no longer listed; its row stays in the store for the audit trail."""
    services.jobs.delete(job_id, actor=actor)
    return Response(status_code=204)


@router.post("/jobs/{job_id}/rerun", **documented("rerun_job", "Re-run a job", JobShape, 404, 409, status=202, headers=ACCEPTED))
def rerun(request: Request, job_id: JobId, submitter: Submitting) -> JSONResponse:
    """Submits a new job with the table, actions, options and priority of this one. The re-run of a dry run is a dry run."""
    return _accepted(request, submitter.rerun(job_id))


def _accepted(request: Request, job: Job, *, again: bool = False) -> JSONResponse:
    headers = {"Location": link_to(request, f"/jobs/{job.job_id}")}
    if not job.dry_run:
        headers["Retry-After"] = str(POLL_SECONDS)
    if again:
        headers["Idempotency-Replayed"] = "true"
    return JSONResponse(JobShape.encode(job), 202, headers)


def _each(services: Services, which: JobFilter, cursor: str | None, change: Callable[[str], object]) -> JSONResponse:
    """Change a page of jobs, newest first, each in its own transaction: a refused job does not stop the others.

    The page is that of ``GET /jobs``, so that the new jobs of a re-run never come into the same batch.
    """
    page = services.jobs.page(which, after=cursor, limit=BATCH_SIZE)
    done, refused, after = 0, list[dict[str, Any]](), page.next
    until = time.monotonic() + BATCH_DURATION.total_seconds()
    for place, job in enumerate(page.items):
        try:
            change(job.job_id)
            done += 1
        except STOPS_BATCH:
            if place == 0:
                raise  # nothing was changed, so the problem is the whole answer
            after = NEWEST_FIRST.cursor_of(page.items[place - 1])
            break
        except SnowpackError as refusal:
            refused.append({"job_id": job.job_id, "detail": str(refusal)})
        if time.monotonic() > until and place + 1 < len(page.items):
            after = NEWEST_FIRST.cursor_of(job)
            break
    return JSONResponse({"done": done, "refused": refused, "next": after})
