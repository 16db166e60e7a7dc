"""Registered runs: list, register, change, enable and disable, and start one now."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.links import link_to
from airflow_snowpack.api.parameters import Limit, RawBody, text_parameter
from airflow_snowpack.api.run_bodies import registered_run_body
from airflow_snowpack.api.run_parameters import EverybodysRuns, RegisteredName, RunsOnBehalf, parse_run, parse_start
from airflow_snowpack.api.run_shapes import RegisteredRunShape, RegisteredRunsShape, RunBody, StartBody
from airflow_snowpack.api.schedule_bodies import pending_body
from airflow_snowpack.api.schedule_shapes import PendingShape
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.scheduling import run_registered

router = APIRouter(route_class=Strict, tags=["runs"])

CREATED: dict[str, Any] = {
    "Location": {"schema": {"type": "string"}, "required": True, "description": "Where the registered run is found."}
}


@router.get("/runs", **documented("list_registered_runs", "List registered runs by name", RegisteredRunsShape))
def list_runs(
    user: Reader,
    runs: EverybodysRuns,
    dag: Annotated[str | None, text_parameter("Of this DAG.")] = None,
    enabled: Annotated[bool | None, Query(description="Only those that are enabled, or only the disabled ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the run's name or of its DAG's id.")] = None,
    after: Annotated[str | None, text_parameter("Only names that come after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = runs.list(dag_id=dag, enabled=enabled, search=search, after=after, limit=limit + 1)
    shown = found[:limit]
    after = shown[-1].name if len(found) > limit else None
    return JSONResponse({"runs": [registered_run_body(one) for one in shown], "next": after})


@router.post(
    "/runs", **documented("register_run", "Register a run", RegisteredRunShape, 409, status=201, headers=CREATED, body=RunBody)
)
def register(request: Request, runs: RunsOnBehalf, sent: RawBody) -> JSONResponse:
    """It is enabled unless it says otherwise. A run with a cron is a schedule of the same name."""
    stored = runs.register(parse_run(sent))
    return JSONResponse(registered_run_body(stored), 201, {"Location": link_to(request, f"/runs/{stored.name}")})


@router.get("/runs/{run:name}", **documented("get_registered_run", "Get a registered run", RegisteredRunShape, 404))
def get(run: RegisteredName, user: Reader, runs: EverybodysRuns) -> JSONResponse:
    """Its definition can be changed and sent back with `PUT`."""
    return JSONResponse(registered_run_body(runs.get(run)))


@router.put(
    "/runs/{run:name}", **documented("upsert_run", "Register a run, or change it", RegisteredRunShape, 404, 409, body=RunBody)
)
def upsert(run: RegisteredName, runs: RunsOnBehalf, sent: RawBody) -> JSONResponse:
    """Sent again as it is, it changes nothing. A change discards what is pending."""
    stored, _ = runs.upsert(parse_run(sent, run))
    return JSONResponse(registered_run_body(stored))


@router.delete("/runs/{run:name}", **documented("unregister_run", "Unregister a run", None, 404, status=204))
def unregister(run: RegisteredName, runs: RunsOnBehalf) -> Response:
    """What is pending goes with it; runs that Airflow has already go on."""
    runs.unregister(run)
    return Response(status_code=204)


@router.post("/runs/{run:name}/enable", **documented("enable_run", "Let a run's cron count", RegisteredRunShape, 404))
def enable(run: RegisteredName, runs: RunsOnBehalf) -> JSONResponse:
    """It counts from now on. Doing it twice changes nothing."""
    return JSONResponse(registered_run_body(runs.enable(run)))


@router.post("/runs/{run:name}/disable", **documented("disable_run", "Let a run's cron not count", RegisteredRunShape, 404))
def disable(run: RegisteredName, runs: RunsOnBehalf) -> JSONResponse:
    """What is pending is discarded. Doing it twice changes nothing."""
    return JSONResponse(registered_run_body(runs.disable(run)))


START = documented("start_run", "Start a registered run now", PendingShape, 404, status=202, body=StartBody)
START["openapi_extra"]["requestBody"]["required"] = False


@router.post("/runs/{run:name}/run", **START)
def start(run: RegisteredName, runs: RunsOnBehalf, sent: RawBody) -> JSONResponse:
    """Also while it is disabled. What is given for this run comes over what is registered."""
    given = parse_start(sent)
    return JSONResponse(pending_body(run_registered(runs, run, given.conf, given.preservation)), 202)
