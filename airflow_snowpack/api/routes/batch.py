"""One change for all the jobs of a filter, a hundred at a time.

A caller goes on with the cursor until it is null. The jobs are taken newest first, from the same list that ``GET /jobs`` shows,
so that a re-run's new jobs never come into the same batch.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.parameters import Cursor, Filter
from airflow_snowpack.api.routes.maintenance import Admitting
from airflow_snowpack.api.services import Acting, Open, Services
from airflow_snowpack.api.shapes import BatchShape
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import CatalogUnreachable
from airflow_snowpack.jobs import DrainModeOn, JobFilter
from airflow_snowpack.jobs.listing import NEWEST_FIRST
from airflow_snowpack.store import StoreError

router = APIRouter(prefix="/jobs/batch", route_class=Strict, tags=["jobs"])

AT_ONCE = 100
PERIOD = timedelta(seconds=2.5)
STOPS = (DrainModeOn, StoreError, CatalogUnreachable)  # what is wrong with one job is not wrong with the next, but for these
SAYS = "Works through at most 100 jobs of the filter. Call it again with the cursor in `next` until that is null."


@router.post("/cancel", description=SAYS, **documented("cancel_jobs", "Cancel the jobs of a filter", BatchShape))
def cancel(actor: Acting, services: Open, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, partial(services.jobs.cancel, actor=actor))


@router.post("/delete", description=SAYS, **documented("delete_jobs", "Delete the finished jobs of a filter", BatchShape))
def delete(actor: Acting, services: Open, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, partial(services.jobs.delete, actor=actor))


@router.post("/rerun", description=SAYS, **documented("rerun_jobs", "Ask for the jobs of a filter again", BatchShape))
def rerun(services: Open, admission: Admitting, which: Filter, cursor: Cursor = None) -> JSONResponse:
    return _each(services, which, cursor, admission.rerun)


def _each(services: Services, which: JobFilter, cursor: str | None, change: Callable[[str], object]) -> JSONResponse:
    """One transaction for each job: one that refuses does not keep the others from their change."""
    page = services.jobs.page(which, after=cursor, limit=AT_ONCE)
    done, refused, after = 0, list[dict[str, Any]](), page.next
    until = time.monotonic() + PERIOD.total_seconds()
    for place, job in enumerate(page.items):
        try:
            change(job.job_id)
            done += 1
        except STOPS:
            if place == 0:
                raise  # there is nothing else to tell, and the whole answer says why
            after = NEWEST_FIRST.cursor_of(page.items[place - 1])
            break
        except SnowpackError as refusal:
            refused.append({"job_id": job.job_id, "detail": str(refusal)})
        if time.monotonic() > until and place + 1 < len(page.items):
            after = NEWEST_FIRST.cursor_of(job)  # an answer in time, and the caller goes on from here
            break
    return JSONResponse({"done": done, "refused": refused, "next": after})
