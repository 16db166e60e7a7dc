"""Schedules: list, declare, change, suspend, run, and ask why one has not run."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.links import link_to
from airflow_snowpack.api.parameters import Limit, RawBody, text_parameter
from airflow_snowpack.api.schedule_bodies import entry_body, explanation_body, pending_body, schedule_body
from airflow_snowpack.api.schedule_parameters import Everybodys, OnBehalf, ScheduleName, parse_schedule
from airflow_snowpack.api.schedule_shapes import (
    ExplanationShape,
    PendingShape,
    ScheduleBody,
    ScheduleHistoryShape,
    ScheduleShape,
    SchedulesShape,
)
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.scheduling import ScheduleNotFound, explain, read_history, run_now

router = APIRouter(route_class=Strict, tags=["schedules"])

CREATED: dict[str, Any] = {
    "Location": {"schema": {"type": "string"}, "required": True, "description": "Where the schedule is found."}
}


@router.get("/schedules", **documented("list_schedules", "List schedules by name", SchedulesShape))
def list_schedules(
    user: Reader,
    schedules: Everybodys,
    dag: Annotated[str | None, text_parameter("Of this DAG.")] = None,
    enabled: Annotated[bool | None, Query(description="Only those that are enabled, or only the suspended ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the schedule's name or of its DAG's id.")] = None,
    after: Annotated[str | None, text_parameter("Only names that come after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = schedules.list(dag_id=dag, enabled=enabled, search=search, after=after, limit=limit + 1)
    shown = found[:limit]
    after = shown[-1].name if len(found) > limit else None
    return JSONResponse({"schedules": [schedule_body(one) for one in shown], "next": after})


@router.post(
    "/schedules",
    **documented("create_schedule", "Create a schedule", ScheduleShape, 409, status=201, headers=CREATED, body=ScheduleBody),
)
def create(request: Request, schedules: OnBehalf, sent: RawBody) -> JSONResponse:
    """It is suspended unless it says `enabled`. What happened before does not count for it."""
    stored = schedules.create(parse_schedule(sent))
    return JSONResponse(schedule_body(stored), 201, {"Location": link_to(request, f"/schedules/{stored.name}")})


@router.get("/schedules/{name}", **documented("get_schedule", "Get a schedule", ScheduleShape, 404))
def get(name: ScheduleName, user: Reader, schedules: Everybodys) -> JSONResponse:
    """Its definition can be changed and sent back with `PUT`."""
    return JSONResponse(schedule_body(schedules.get(name)))


@router.put("/schedules/{name}", **documented("update_schedule", "Change a schedule", ScheduleShape, 404, 409, body=ScheduleBody))
def update(name: ScheduleName, schedules: OnBehalf, sent: RawBody) -> JSONResponse:
    """All but whether it is enabled. What was pending is discarded, and counting begins anew."""
    return JSONResponse(schedule_body(schedules.update(parse_schedule(sent, name))))


@router.delete("/schedules/{name}", **documented("delete_schedule", "Delete a schedule", None, 404, 409, status=204))
def delete(name: ScheduleName, schedules: OnBehalf) -> Response:
    """What is pending goes with it, however soon it would have started."""
    schedules.delete(name)
    return Response(status_code=204)


@router.post("/schedules/{name}/suspend", **documented("suspend_schedule", "Suspend a schedule", ScheduleShape, 404, 409))
def suspend(name: ScheduleName, schedules: OnBehalf) -> JSONResponse:
    """What is pending is discarded, and events do not count until it is resumed. Doing it twice changes nothing."""
    return JSONResponse(schedule_body(schedules.suspend(name)))


@router.post("/schedules/{name}/resume", **documented("resume_schedule", "Resume a schedule", ScheduleShape, 404, 409))
def resume(name: ScheduleName, schedules: OnBehalf) -> JSONResponse:
    """Events count from now on. Doing it twice changes nothing."""
    return JSONResponse(schedule_body(schedules.resume(name)))


@router.post(
    "/schedules/{name}/run", **documented("run_schedule", "Run a schedule's DAG now", PendingShape, 404, 409, status=202)
)
def run(name: ScheduleName, schedules: OnBehalf) -> JSONResponse:
    """Whatever its trigger and its constraints say, also while it is suspended. What waits goes on waiting."""
    return JSONResponse(pending_body(run_now(schedules, name)), 202)


@router.get(
    "/schedules/{name}/explain", **documented("explain_schedule", "Ask why a schedule has not run", ExplanationShape, 404)
)
def tell(name: ScheduleName, user: Reader, schedules: Everybodys) -> JSONResponse:
    """Its trigger's progress, what each constraint says and until when, and what came of it last."""
    return JSONResponse(explanation_body(explain(schedules, name)))


@router.get(
    "/schedules/{name}/history",
    **documented("get_schedule_history", "See a schedule's history, newest first", ScheduleHistoryShape, 404),
)
def history(
    name: ScheduleName,
    user: Reader,
    schedules: Everybodys,
    before: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="Only lines older than this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    """Also that of a schedule that was deleted, as long as it is kept."""
    found = read_history(schedules.store, name, before=before, limit=limit + 1)
    if not found and before is None:
        raise ScheduleNotFound(name)
    shown = found[:limit]
    return JSONResponse({"entries": [entry_body(line) for line in shown], "next": shown[-1].id if len(found) > limit else None})
