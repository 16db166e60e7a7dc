"""The log of events, and events that are sent from outside."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.parameters import Limit, RawBody, parse_body, read_moment, text_parameter
from airflow_snowpack.api.schedule_bodies import event_body
from airflow_snowpack.api.schedule_parameters import Asking
from airflow_snowpack.api.schedule_shapes import EventBody, EventsShape, RecordedEventShape
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.scheduling import EventLog, send_event

router = APIRouter(route_class=Strict, tags=["events"])

REPLAYED = {
    "Idempotency-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "It was sent before with this `source_id`; this is what was recorded then.",
    }
}


@router.get("/events", **documented("list_events", "See what happened, newest first", EventsShape))
def list_events(
    user: Reader,
    services: Open,
    key: Annotated[str | None, text_parameter("Of this key, such as `table:lake.analytics.page_views`.")] = None,
    before: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only events older than this one: the next page.")
    ] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Commits to tables, ends of runs, ticks of clocks, and what was sent from outside."""
    found = EventLog(services.jobs.store).latest(key, before=before, limit=limit + 1)
    shown = found[:limit]
    return JSONResponse({"events": [event_body(each) for each in shown], "next": shown[-1].id if len(found) > limit else None})


@router.post(
    "/events",
    **documented("send_event", "Send an event", RecordedEventShape, status=201, headers=REPLAYED, body=EventBody),
)
def send(services: Open, actor: Asking, sent: RawBody) -> JSONResponse:
    """Its key is `event:` and its name, so it counts for the triggers `custom_events` of this name, and for no others."""
    body = parse_body(EventBody, sent)
    at = None if body.at is None else read_moment("at", body.at)
    done = send_event(services.jobs.store, actor, body.name, body.amounts, body.detail, source_id=body.source_id, at=at)
    headers = {"Idempotency-Replayed": "true"} if done.again else {}
    return JSONResponse(event_body(done.recorded), 201, headers)
