"""The queue of pending jobs: what waits for its trigger, for its constraints, or to be started."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.parameters import Limit, text_parameter
from airflow_snowpack.api.schedule_bodies import pending_body
from airflow_snowpack.api.schedule_shapes import PendingPageShape, Waiting
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.scheduling import PendingQueue, PendingState

router = APIRouter(route_class=Strict, tags=["schedules"])


@router.get("/pending", **documented("list_pending", "List the pending jobs, oldest first", PendingPageShape))
def list_pending(
    user: Reader,
    services: Open,
    state: Annotated[list[Waiting] | None, Query(description="In this state; repeat it for any of several.")] = None,
    schedule: Annotated[str | None, text_parameter("Of this schedule.")] = None,
    cursor: Annotated[str | None, text_parameter("Where the page before ended; from its `next`.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """What each waits for, and when it is looked at next. What has ended stands in the schedule's history."""
    queue = PendingQueue(services.jobs.store)
    states = [PendingState(each) for each in state or ()]
    page = queue.page(states=states, schedule=schedule, after=cursor, limit=limit)
    return JSONResponse({"pending": [pending_body(each.run, each.problem) for each in page.items], "next": page.next})
