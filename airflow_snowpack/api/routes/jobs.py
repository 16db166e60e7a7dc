"""Jobs: list, look at, cancel, delete."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.bodies import job_body, timeline_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.links import link_to_next
from airflow_snowpack.api.parameters import Cursor, Filter, JobId, Limit
from airflow_snowpack.api.routes.maintenance import POLL_SECONDS
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.api.shapes import JobShape, TimelineShape
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.jobs import AuditTrail, explain

router = APIRouter(route_class=Strict, tags=["jobs"])

NEXT: dict[str, Any] = {"Link": {"schema": {"type": "string"}, "description": 'The next page, as `<…>; rel="next"`, if any.'}}
POLL: dict[str, Any] = {"Retry-After": {"schema": {"type": "integer"}, "description": "While the job is pending or running."}}


@router.get("/jobs", **documented("list_jobs", "List jobs, newest first", list[JobShape], headers=NEXT))
def list_jobs(
    request: Request, user: Reader, services: Open, which: Filter, cursor: Cursor = None, limit: Limit = 100
) -> JSONResponse:
    """What the filter leaves out narrows nothing. Pages neither repeat nor miss a job, whatever comes and ends meanwhile."""
    page = services.jobs.page(which, after=cursor, limit=limit)
    headers = {} if page.next is None else {"Link": link_to_next(request, "/jobs", page.next)}
    return JSONResponse([job_body(job) for job in page.items], headers=headers)


@router.get("/jobs/{job_id}", **documented("get_job", "Get a job", JobShape, 404, headers=POLL))
def get(job_id: JobId, user: Reader, services: Open) -> JSONResponse:
    """A job with its results so far."""
    job = services.jobs.get(job_id)
    return JSONResponse(job_body(job), headers={} if job.status.is_terminal else {"Retry-After": str(POLL_SECONDS)})


@router.get("/jobs/{job_id}/timeline", **documented("get_timeline", "Get all that is known of a job", TimelineShape, 404))
def timeline(job_id: JobId, user: Reader, services: Open) -> JSONResponse:
    """Attempts, the place in the queue or the lease, the events of its life, and who did what to it."""
    jobs = services.jobs
    job = jobs.get(job_id)
    place = jobs.places([job_id]).get(job_id)
    audit = AuditTrail(jobs.store).of(job_id)
    return JSONResponse(timeline_body(job, place, jobs.history(job_id), audit, str(explain(jobs, job))))


@router.post("/jobs/{job_id}/cancel", **documented("cancel_job", "Cancel a job", JobShape, 404, 409))
def cancel(job_id: JobId, actor: Acting, services: Open) -> JSONResponse:
    """For good. A job that waits frees its table at once; one that runs, when its worker has left the table."""
    return JSONResponse(job_body(services.jobs.cancel(job_id, actor=actor)))


@router.delete("/jobs/{job_id}", **documented("delete_job", "Delete a finished job", None, 404, 409, status=204))
def delete(job_id: JobId, actor: Acting, services: Open) -> Response:
    """It is found no more; its row stays in the store for the audit."""
    services.jobs.delete(job_id, actor=actor)
    return Response(status_code=204)
