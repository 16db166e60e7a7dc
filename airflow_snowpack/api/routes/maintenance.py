"""Ask for maintenance of a table, and ask again."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse

from airflow_snowpack.api.admission import Admission
from airflow_snowpack.api.bodies import job_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.links import link_to
from airflow_snowpack.api.parameters import Database, JobId, RawBody, Table
from airflow_snowpack.api.services import actor_of, services_of
from airflow_snowpack.api.shapes import JobShape, SubmitBody
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.jobs import Job

router = APIRouter(route_class=Strict, tags=["jobs"])

POLL_SECONDS = 30

ACCEPTED: dict[str, Any] = {
    "Location": {"schema": {"type": "string"}, "required": True, "description": "Where the job is found."},
    "Retry-After": {"schema": {"type": "integer"}, "description": "When to look at the job; not for a dry run, which is done."},
}
REPLAYED: dict[str, Any] = {
    "Idempotency-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "The same request came before with this key; this is its job as it is now.",
    }
}

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="The same request with the same key is the same job, for a day. 1 to 255 printable ASCII characters; a UUID.",
        json_schema_extra={"pattern": "^[ -~]{1,255}$", "example": "0d5a1f64-7a0f-4f6a-9d35-1f7f5c3d8a52"},
    ),
]


async def _admission(request: Request) -> Admission:
    actor = await actor_of(request)
    return Admission(await services_of(request), actor)


Admitting = Annotated[Admission, Depends(_admission)]


@router.post(
    "/tables/{database:name}/{table:name}/maintenance",
    **documented(
        "submit_maintenance",
        "Ask for maintenance of a table",
        JobShape,
        400,
        404,
        409,
        status=202,
        headers=ACCEPTED | REPLAYED,
        body=SubmitBody,
    ),
)
def submit(
    request: Request, database: Database, table: Table, admission: Admitting, sent: RawBody, key: Key = None
) -> JSONResponse:
    """The table is locked, and a job waits for a worker. A dry run is done at once, locks nothing and waits for nothing."""
    asked = admission.submit(database, table, sent, key=key)
    return accepted(request, asked.job, again=asked.again)


@router.post(
    "/jobs/{job_id}/rerun",
    **documented("rerun_job", "Ask for the same again", JobShape, 404, 409, status=202, headers=ACCEPTED),
)
def rerun(request: Request, job_id: JobId, admission: Admitting) -> JSONResponse:
    """A new job with the table, actions and options of this one. A dry run is a dry run again."""
    return accepted(request, admission.rerun(job_id))


def accepted(request: Request, job: Job, *, again: bool = False) -> JSONResponse:
    """202 with the job."""
    headers = {"Location": link_to(request, f"/jobs/{job.job_id}")}
    if not job.dry_run:
        headers["Retry-After"] = str(POLL_SECONDS)
    if again:
        headers["Idempotency-Replayed"] = "true"
    return JSONResponse(job_body(job), 202, headers)
