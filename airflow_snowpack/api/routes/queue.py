"""The queue: how deep, how old, how it went, and the sweep that takes back what was lost."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.bodies import queue_body, sample_body, sweep_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.api.shapes import QueueShape, SampleShape, SweepShape
from airflow_snowpack.api.strict import Strict

router = APIRouter(route_class=Strict, tags=["queue"])


@router.get("/queue", **documented("get_queue", "Look at the queue", QueueShape))
def queue(user: Reader, services: Open) -> JSONResponse:
    """The depth counts what a worker could claim now: neither claimed nor waiting out a back-off."""
    return JSONResponse(queue_body(services.jobs.queue(), services.jobs.store.clock()))


@router.get("/queue/history", **documented("get_queue_history", "See how the queue went", list[SampleShape]))
def history(
    user: Reader, services: Open, hours: Annotated[int, Query(ge=1, le=168, description="How far back.")] = 24
) -> JSONResponse:
    """96 moments, evenly spaced, up to now."""
    return JSONResponse([sample_body(sample) for sample in services.jobs.queue_over_time(timedelta(hours=hours))])


@router.post("/sweep", **documented("sweep", "Take back what was lost", SweepShape))
def sweep(actor: Acting, services: Open) -> JSONResponse:
    """Jobs whose lease ran out go back to the queue, or fail when they have no attempt left; locks without a holder go."""
    return JSONResponse(sweep_body(services.jobs.sweep(actor=actor)))
