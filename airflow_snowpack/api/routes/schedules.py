"""Schedules, pending runs and events."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import Before, Limit, RawBody, name_parameter, parse_body, read_moment, text_parameter
from airflow_snowpack.api.routing import Strict, link_to
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import (
    EventLog,
    InvalidSchedule,
    PendingQueue,
    PendingState,
    Schedule,
    ScheduleNotFound,
    Schedules,
    explain,
    read_history,
    run_now,
    send_event,
)
from airflow_snowpack.scheduling.schedule import MAX_NAME
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.schedule import (
    EVENTS,
    HISTORY,
    PENDING,
    EventBody,
    EventsShape,
    ExplanationShape,
    PendingPageShape,
    PendingShape,
    RecordedEventShape,
    ScheduleBody,
    ScheduleHistoryShape,
    ScheduleShape,
    SchedulesShape,
    Waiting,
)

router = APIRouter(route_class=Strict, tags=["schedules"])
events = APIRouter(route_class=Strict, tags=["events"])

CREATED: dict[str, Any] = {
    "Location": {"schema": {"type": "string"}, "required": True, "description": "The address of the schedule."}
}
REPLAYED = {
    "Idempotency-Replayed": {
        "schema": {"type": "string", "enum": ["true"]},
        "description": "An earlier request sent it with this `source_id`; this is what was recorded then.",
    }
}
Named = Annotated[str, name_parameter(LEVEL, MAX_NAME, "page_views_nightly")]


async def _name(name: Named) -> str:
    if len(name) > MAX_NAME or not LEVEL.fullmatch(name):
        raise ScheduleNotFound(name)
    return name


async def _read_only(services: Open) -> Schedules:
    return services.schedules()


async def _changeable(services: Open, actor: Acting) -> Schedules:
    return services.schedules(actor)


ScheduleName = Annotated[str, Depends(_name)]
ReadSchedules = Annotated[Schedules, Depends(_read_only)]
EditSchedules = Annotated[Schedules, Depends(_changeable)]


@router.get("/schedules", **documented("list_schedules", "List schedules by name", SchedulesShape))
def list_schedules(
    user: Reader,
    schedules: ReadSchedules,
    dag: Annotated[str | None, text_parameter("Of this DAG.")] = None,
    enabled: Annotated[bool | None, Query(description="Only enabled schedules, or only suspended ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the schedule's name or of its DAG's id.")] = None,
    after: Annotated[str | None, text_parameter("Only names after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = schedules.list(dag_id=dag, enabled=enabled, search=search, after=after, limit=limit + 1)
    shown, after = cut(found, limit, lambda stored: stored.name)
    return JSONResponse({"schedules": [ScheduleShape.encode(stored) for stored in shown], "next": after})


@router.post(
    "/schedules",
    **documented("create_schedule", "Create a schedule", ScheduleShape, 409, status=201, headers=CREATED, body=ScheduleBody),
)
def create(request: Request, schedules: EditSchedules, sent: RawBody) -> JSONResponse:
    """Suspended unless `enabled` is set. Events before its creation do not count."""
    stored = schedules.create(_parse_schedule(sent))
    return JSONResponse(ScheduleShape.encode(stored), 201, {"Location": link_to(request, f"/schedules/{stored.name}")})


@router.get("/schedules/{name}", **documented("get_schedule", "Get a schedule", ScheduleShape, 404))
def get(name: ScheduleName, user: Reader, schedules: ReadSchedules) -> JSONResponse:
    """To change it, edit its definition and send that with `PUT`."""
    return JSONResponse(ScheduleShape.encode(schedules.get(name)))


@router.put("/schedules/{name}", **documented("update_schedule", "Change a schedule", ScheduleShape, 404, 409, body=ScheduleBody))
def update(name: ScheduleName, schedules: EditSchedules, sent: RawBody) -> JSONResponse:
    """Changes everything but `enabled`. Its pending runs are discarded, and counting starts from zero."""
    return JSONResponse(ScheduleShape.encode(schedules.update(_parse_schedule(sent, name))))


@router.delete("/schedules/{name}", **documented("delete_schedule", "Delete a schedule", None, 404, 409, status=204))
def delete(name: ScheduleName, schedules: EditSchedules) -> Response:
    """Its pending runs are discarded."""
    schedules.delete(name)
    return Response(status_code=204)


@router.post("/schedules/{name}/suspend", **documented("suspend_schedule", "Suspend a schedule", ScheduleShape, 404, 409))
def suspend(name: ScheduleName, schedules: EditSchedules) -> JSONResponse:
    """Its pending runs are discarded, and events do not count until it is resumed. A repetition changes nothing."""
    return JSONResponse(ScheduleShape.encode(schedules.suspend(name)))


@router.post("/schedules/{name}/resume", **documented("resume_schedule", "Resume a schedule", ScheduleShape, 404, 409))
def resume(name: ScheduleName, schedules: EditSchedules) -> JSONResponse:
    """Events count from now on. A repetition changes nothing."""
    return JSONResponse(ScheduleShape.encode(schedules.resume(name)))


@router.post(
    "/schedules/{name}/run", **documented("run_schedule", "Run a schedule's DAG now", PendingShape, 404, 409, status=202)
)
def run(name: ScheduleName, schedules: EditSchedules) -> JSONResponse:
    """Ignores its trigger and its constraints, also while it is suspended. Its pending runs stay."""
    return JSONResponse(PendingShape.encode(run_now(schedules, name)), 202)


@router.get(
    "/schedules/{name}/explain",
    **documented("explain_schedule", "Explain why a schedule has not run", ExplanationShape, 404),
)
def explain_schedule(name: ScheduleName, user: Reader, schedules: ReadSchedules) -> JSONResponse:
    """The progress of its trigger, the state of each constraint, and its last runs."""
    return JSONResponse(ExplanationShape.encode(explain(schedules, name)))


@router.get(
    "/schedules/{name}/history",
    **documented("get_schedule_history", "Get a schedule's history, newest first", ScheduleHistoryShape, 404),
)
def history(
    name: ScheduleName, user: Reader, schedules: ReadSchedules, before: Before = None, limit: Limit = 100
) -> JSONResponse:
    """Also of a deleted schedule, for the retention period."""
    found = read_history(schedules.store, name, before=before, limit=limit + 1)
    if not found and before is None:
        raise ScheduleNotFound(name)
    return JSONResponse(HISTORY.page(*cut(found, limit, lambda entry: entry.id)))


@router.get("/pending", **documented("list_pending", "List pending runs, oldest first", PendingPageShape))
def list_pending(
    user: Reader,
    services: Open,
    state: Annotated[list[Waiting] | None, Query(description="In this state; repeat it for any of several.")] = None,
    schedule: Annotated[str | None, text_parameter("Of this schedule.")] = None,
    cursor: Annotated[str | None, text_parameter("The `next` of the page before.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With what each waits for, and when it is evaluated next. A schedule's history has those that ended."""
    states = [PendingState(each) for each in state or ()]
    page = PendingQueue(services.jobs.store).page(states=states, schedule=schedule, after=cursor, limit=limit)
    return JSONResponse(PENDING.page(page.items, page.next))


@events.get("/events", **documented("list_events", "List events, newest first", EventsShape))
def list_events(
    user: Reader,
    services: Open,
    key: Annotated[str | None, text_parameter("Of this key, such as `table:lake.analytics.page_views`.")] = None,
    before: Before = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Commits to tables, ends of DAG runs, cron ticks, and custom events."""
    found = EventLog(services.jobs.store).latest(key, before=before, limit=limit + 1)
    return JSONResponse(EVENTS.page(*cut(found, limit, lambda recorded: recorded.id)))


@events.post(
    "/events",
    **documented("send_event", "Send a custom event", RecordedEventShape, status=201, headers=REPLAYED, body=EventBody),
)
def send(services: Open, actor: Acting, sent: RawBody) -> JSONResponse:
    """Its key is `event:` and its name. Only the triggers `custom_events` of this name count it."""
    body = parse_body(EventBody, sent)
    at = None if body.at is None else read_moment("at", body.at)
    done = send_event(services.jobs.store, actor, body.name, body.amounts, body.detail, source_id=body.source_id, at=at)
    headers = {"Idempotency-Replayed": "true"} if done.again else {}
    return JSONResponse(RecordedEventShape.encode(done.recorded), 201, headers)


def _parse_schedule(body: bytes, name: str | None = None) -> Schedule:
    """Return the schedule that a body declares.

    :param name: the name in the path; the body may leave it out.
    :raises InvalidRequest: the body is not valid JSON.
    :raises InvalidSchedule: it is not a schedule, or has another name.
    """
    try:
        schedule = Schedule.from_json(read_definition(body, name))
    except RecursionError:
        raise InvalidRequest.at("body", "its values are nested too deeply") from None
    if name is not None and schedule.name != name:
        raise InvalidSchedule("name", schedule.name, f"the path has {name!r}; a schedule cannot be renamed")
    return schedule


def read_definition(body: bytes, name: str | None) -> Any:
    """Return the JSON value of a body.

    :param name: the ``name`` of an object that has none.
    :raises InvalidRequest: the body is not valid JSON.
    """
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidRequest.at("body", f"it is not valid JSON: {error}"[:200]) from None
    return {"name": name, **value} if name is not None and isinstance(value, dict) else value


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
