"""Schedules, registered runs, pending runs and events."""

import json
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import created, documented, header
from airflow_snowpack.api.parameters import (
    After,
    Before,
    Limit,
    NextPage,
    RawBody,
    checked_name,
    parse_body,
    read_moment,
    text_parameter,
)
from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.api.routing import Strict, link_to
from airflow_snowpack.api.services import Acting, Open, Starting
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import (
    EventLog,
    InvalidRun,
    InvalidSchedule,
    PendingQueue,
    PendingState,
    RegisteredRun,
    RunNotFound,
    Schedule,
    ScheduleNotFound,
    explain,
    read_history,
    run_now,
    run_registered,
    send_event,
)
from airflow_snowpack.scheduling.schedule import MAX_NAME
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.run import RUNS, RegisteredRunShape, RegisteredRunsShape, RunBody, StartBody
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
runs = APIRouter(route_class=Strict, tags=["runs"])
events = APIRouter(route_class=Strict, tags=["events"])

REPLAYED = {
    "Idempotency-Replayed": header(
        "An earlier request sent it with this `source_id`; this is what was recorded then.", enum=["true"]
    )
}
ScheduleName = Annotated[str, checked_name("name", LEVEL, MAX_NAME, "page_views_nightly", ScheduleNotFound)]
RunName = Annotated[str, checked_name("run", LEVEL, MAX_NAME, "features_daily", RunNotFound)]
OfDag = Annotated[str | None, text_parameter("Of this DAG.")]
Discard = Annotated[bool, Query(description="Whether the change may discard pending runs and the events that they have.")]
Definition = TypeVar("Definition", Schedule, RegisteredRun)


@router.get("/schedules", **documented("list_schedules", "List schedules by name", SchedulesShape))
def list_schedules(
    services: Open,
    dag: OfDag = None,
    enabled: Annotated[bool | None, Query(description="Only enabled schedules, or only suspended ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the schedule's name or of its DAG's id.")] = None,
    cursor: After = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = services.schedules().list(dag_id=dag, enabled=enabled, search=search, after=cursor, limit=limit + 1)
    shown, following = cut(found, limit, lambda stored: stored.name)
    return JSONResponse({"schedules": [ScheduleShape.encode(stored) for stored in shown], "next": following})


@router.post(
    "/schedules",
    **documented(
        "create_schedule", "Create a schedule", ScheduleShape, 409, status=201, headers=created("schedule"), body=ScheduleBody
    ),
)
def create(request: Request, actor: Starting, services: Open, sent: RawBody) -> JSONResponse:
    """Suspended unless `enabled` is set. Events before its creation do not count."""
    stored = services.schedules(actor).create(_parse(Schedule, sent))
    return JSONResponse(ScheduleShape.encode(stored), 201, {"Location": link_to(request, f"/schedules/{stored.name}")})


@router.get("/schedules/{name}", **documented("get_schedule", "Get a schedule", ScheduleShape, 404))
def get(name: ScheduleName, services: Open) -> JSONResponse:
    """To change it, edit its definition and send that with `PUT`."""
    return JSONResponse(ScheduleShape.encode(services.schedules().get(name)))


@router.put("/schedules/{name}", **documented("update_schedule", "Change a schedule", ScheduleShape, 404, 409, body=ScheduleBody))
def update(name: ScheduleName, actor: Starting, services: Open, sent: RawBody, discard: Discard = False) -> JSONResponse:
    """Changes everything but `enabled`. A change of the trigger, the constraints or the DAG restarts counting and discards the
    pending runs; while there are any, it is refused without `discard`. Pending runs take over any other change.
    """
    return JSONResponse(ScheduleShape.encode(services.schedules(actor).update(_parse(Schedule, sent, name), discard=discard)))


@router.delete("/schedules/{name}", **documented("delete_schedule", "Delete a schedule", None, 404, 409, status=204))
def delete(name: ScheduleName, actor: Acting, services: Open) -> Response:
    """Its pending runs are discarded."""
    services.schedules(actor).delete(name)
    return Response(status_code=204)


@router.post("/schedules/{name}/suspend", **documented("suspend_schedule", "Suspend a schedule", ScheduleShape, 404, 409))
def suspend(name: ScheduleName, actor: Acting, services: Open) -> JSONResponse:
    """Its pending runs are discarded, and events do not count until it is resumed. A repetition changes nothing."""
    return JSONResponse(ScheduleShape.encode(services.schedules(actor).suspend(name)))


@router.post("/schedules/{name}/resume", **documented("resume_schedule", "Resume a schedule", ScheduleShape, 404, 409))
def resume(name: ScheduleName, actor: Starting, services: Open) -> JSONResponse:
    """Events count from now on. A repetition changes nothing."""
    return JSONResponse(ScheduleShape.encode(services.schedules(actor).resume(name)))


@router.post(
    "/schedules/{name}/run", **documented("run_schedule", "Run a schedule's DAG now", PendingShape, 404, 409, status=202)
)
def run(name: ScheduleName, actor: Starting, services: Open) -> JSONResponse:
    """Ignores its trigger and its constraints, also while it is suspended. Its pending runs stay."""
    return JSONResponse(PendingShape.encode(run_now(services.schedules(actor), name)), 202)


@router.get(
    "/schedules/{name}/explain",
    **documented("explain_schedule", "Explain why a schedule has not run", ExplanationShape, 404),
)
def explain_schedule(name: ScheduleName, services: Open) -> JSONResponse:
    """The progress of its trigger, the state of each constraint, and its last runs."""
    return JSONResponse(ExplanationShape.encode(explain(services.schedules(), name)))


@router.get(
    "/schedules/{name}/history",
    **documented("get_schedule_history", "Get a schedule's history, newest first", ScheduleHistoryShape, 404),
)
def history(name: ScheduleName, services: Open, cursor: Before = None, limit: Limit = 100) -> JSONResponse:
    """Also of a deleted schedule, for the retention period."""
    found = read_history(services.jobs.store, name, before=cursor, limit=limit + 1)
    if not found and cursor is None:
        raise ScheduleNotFound(name)
    return JSONResponse(HISTORY.page(*cut(found, limit, lambda entry: entry.id)))


@runs.get("/runs", **documented("list_registered_runs", "List registered runs by name", RegisteredRunsShape))
def list_runs(
    services: Open,
    dag: OfDag = None,
    enabled: Annotated[bool | None, Query(description="Only enabled runs, or only disabled ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the run's name or of its DAG's id.")] = None,
    cursor: After = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = services.registered_runs().list(dag_id=dag, enabled=enabled, search=search, after=cursor, limit=limit + 1)
    return JSONResponse(RUNS.page(*cut(found, limit, lambda stored: stored.name)))


@runs.post(
    "/runs",
    **documented(
        "register_run", "Register a run", RegisteredRunShape, 409, status=201, headers=created("registered run"), body=RunBody
    ),
)
def register_run(request: Request, actor: Starting, services: Open, sent: RawBody) -> JSONResponse:
    """Enabled unless `enabled` is false. A run with a cron is a schedule of the same name."""
    stored = services.registered_runs(actor).register(_parse(RegisteredRun, sent))
    return JSONResponse(RegisteredRunShape.encode(stored), 201, {"Location": link_to(request, f"/runs/{stored.name}")})


@runs.get("/runs/{run:name}", **documented("get_registered_run", "Get a registered run", RegisteredRunShape, 404))
def get_run(run: RunName, services: Open) -> JSONResponse:
    """To change it, edit its definition and send that with `PUT`."""
    return JSONResponse(RegisteredRunShape.encode(services.registered_runs().get(run)))


@runs.put("/runs/{run:name}", **documented("upsert_run", "Register or change a run", RegisteredRunShape, 404, 409, body=RunBody))
def upsert_run(run: RunName, actor: Starting, services: Open, sent: RawBody, discard: Discard = False) -> JSONResponse:
    """The same definition changes nothing. A change of the cron, the DAG or `enabled` discards the pending runs, and is refused
    without `discard` while there are any. Pending runs take over any other change.
    """
    stored, _ = services.registered_runs(actor).upsert(_parse(RegisteredRun, sent, run), discard=discard)
    return JSONResponse(RegisteredRunShape.encode(stored))


@runs.delete("/runs/{run:name}", **documented("unregister_run", "Unregister a run", None, 404, status=204))
def unregister_run(run: RunName, actor: Acting, services: Open) -> Response:
    """Its pending runs are discarded; DAG runs that exist in Airflow continue."""
    services.registered_runs(actor).unregister(run)
    return Response(status_code=204)


@runs.post("/runs/{run:name}/enable", **documented("enable_run", "Enable a run's cron", RegisteredRunShape, 404))
def enable_run(run: RunName, actor: Starting, services: Open) -> JSONResponse:
    """Its ticks count from now on. A repetition changes nothing."""
    return JSONResponse(RegisteredRunShape.encode(services.registered_runs(actor).enable(run)))


@runs.post("/runs/{run:name}/disable", **documented("disable_run", "Disable a run's cron", RegisteredRunShape, 404))
def disable_run(run: RunName, actor: Acting, services: Open) -> JSONResponse:
    """Its pending runs are discarded. A repetition changes nothing."""
    return JSONResponse(RegisteredRunShape.encode(services.registered_runs(actor).disable(run)))


START = documented("start_run", "Start a registered run now", PendingShape, 404, status=202, body=StartBody)
START["openapi_extra"]["requestBody"]["required"] = False


@runs.post("/runs/{run:name}/run", **START)
def start_run(run: RunName, actor: Starting, services: Open, sent: RawBody) -> JSONResponse:
    """Also while it is disabled. The values of the request override the registered ones."""
    given = parse_body(StartBody, sent or b"{}")
    return JSONResponse(
        PendingShape.encode(run_registered(services.registered_runs(actor), run, given.conf, given.preservation)), 202
    )


@router.get("/pending", **documented("list_pending", "List pending runs, oldest first", PendingPageShape))
def list_pending(
    services: Open,
    state: Annotated[list[Waiting] | None, Query(description="In this state; repeat it for any of several.")] = None,
    schedule: Annotated[str | None, text_parameter("Of this schedule.")] = None,
    cursor: NextPage = None,
    limit: Limit = 100,
) -> JSONResponse:
    """With what each waits for, and when it is evaluated next. A schedule's history has those that ended."""
    states = [PendingState(each) for each in state or ()]
    page = PendingQueue(services.jobs.store).page(states=states, schedule=schedule, after=cursor, limit=limit)
    return JSONResponse(PENDING.page(page.items, page.next))


@events.get("/events", **documented("list_events", "List events, newest first", EventsShape))
def list_events(
    services: Open,
    key: Annotated[str | None, text_parameter("Of this key, such as `table:lake.analytics.page_views`.")] = None,
    cursor: Before = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Commits to tables, ends of DAG runs, cron ticks, and custom events."""
    found = EventLog(services.jobs.store).latest(key, before=cursor, limit=limit + 1)
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


def _parse(kind: type[Definition], body: bytes, name: str | None = None) -> Definition:
    """Return the schedule or the registered run that a body declares.

    :param name: the name in the path; the body may leave it out.
    :raises InvalidRequest: the body is not valid JSON.
    :raises InvalidSchedule, InvalidRun: it is not a definition, or has another name.
    """
    definition = kind.from_json(_read_json(body, name))
    if name is not None and definition.name != name:
        invalid, noun = (InvalidSchedule, "schedule") if kind is Schedule else (InvalidRun, "run")
        raise invalid("name", definition.name, f"the path has {name!r}; a {noun} cannot be renamed")
    return definition


def _read_json(body: bytes, name: str | None) -> Any:
    """Return the JSON value of a body; an object without a name gets this one."""
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant)
    except ValueError as error:
        raise InvalidRequest.at("body", f"it is not valid JSON: {error}"[:200]) from None
    return {"name": name, **value} if name is not None and isinstance(value, dict) else value


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")
