"""Registered runs: list, register, change, enable and disable, and start one now."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.parameters import Limit, RawBody, name_parameter, parse_body, text_parameter
from airflow_snowpack.api.routes.schedules import read_definition
from airflow_snowpack.api.routing import Strict, link_to
from airflow_snowpack.api.services import Acting, Open
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import InvalidRun, RegisteredRun, RegisteredRuns, RunNotFound, run_registered
from airflow_snowpack.scheduling.schedule import MAX_NAME
from airflow_snowpack.wire.listing import cut
from airflow_snowpack.wire.run import RUNS, RegisteredRunShape, RegisteredRunsShape, RunBody, StartBody
from airflow_snowpack.wire.schedule import PendingShape

router = APIRouter(route_class=Strict, tags=["runs"])

CREATED: dict[str, Any] = {
    "Location": {"schema": {"type": "string"}, "required": True, "description": "The address of the registered run."}
}
Named = Annotated[str, name_parameter(LEVEL, MAX_NAME, "features_daily")]


async def _name(run: Named) -> str:
    if len(run) > MAX_NAME or not LEVEL.fullmatch(run):
        raise RunNotFound(run)
    return run


async def _read_only(services: Open) -> RegisteredRuns:
    return services.registered_runs()


async def _changeable(services: Open, actor: Acting) -> RegisteredRuns:
    return services.registered_runs(actor)


RunName = Annotated[str, Depends(_name)]
ReadRuns = Annotated[RegisteredRuns, Depends(_read_only)]
EditRuns = Annotated[RegisteredRuns, Depends(_changeable)]


@router.get("/runs", **documented("list_registered_runs", "List registered runs by name", RegisteredRunsShape))
def list_runs(
    user: Reader,
    runs: ReadRuns,
    dag: Annotated[str | None, text_parameter("Of this DAG.")] = None,
    enabled: Annotated[bool | None, Query(description="Only enabled runs, or only disabled ones.")] = None,
    search: Annotated[str | None, text_parameter("Part of the run's name or of its DAG's id.")] = None,
    after: Annotated[str | None, text_parameter("Only names after this one: the next page.")] = None,
    limit: Limit = 100,
) -> JSONResponse:
    found = runs.list(dag_id=dag, enabled=enabled, search=search, after=after, limit=limit + 1)
    return JSONResponse(RUNS.page(*cut(found, limit, lambda stored: stored.name)))


@router.post(
    "/runs", **documented("register_run", "Register a run", RegisteredRunShape, 409, status=201, headers=CREATED, body=RunBody)
)
def register(request: Request, runs: EditRuns, sent: RawBody) -> JSONResponse:
    """Enabled unless `enabled` is false. A run with a cron is a schedule of the same name."""
    stored = runs.register(_parse_run(sent))
    return JSONResponse(RegisteredRunShape.encode(stored), 201, {"Location": link_to(request, f"/runs/{stored.name}")})


@router.get("/runs/{run:name}", **documented("get_registered_run", "Get a registered run", RegisteredRunShape, 404))
def get(run: RunName, user: Reader, runs: ReadRuns) -> JSONResponse:
    """To change it, edit its definition and send that with `PUT`."""
    return JSONResponse(RegisteredRunShape.encode(runs.get(run)))


@router.put(
    "/runs/{run:name}", **documented("upsert_run", "Register or change a run", RegisteredRunShape, 404, 409, body=RunBody)
)
def upsert(run: RunName, runs: EditRuns, sent: RawBody) -> JSONResponse:
    """The same definition changes nothing. A change discards its pending runs."""
    stored, _ = runs.upsert(_parse_run(sent, run))
    return JSONResponse(RegisteredRunShape.encode(stored))


@router.delete("/runs/{run:name}", **documented("unregister_run", "Unregister a run", None, 404, status=204))
def unregister(run: RunName, runs: EditRuns) -> Response:
    """Its pending runs are discarded; DAG runs that exist in Airflow continue."""
    runs.unregister(run)
    return Response(status_code=204)


@router.post("/runs/{run:name}/enable", **documented("enable_run", "Enable a run's cron", RegisteredRunShape, 404))
def enable(run: RunName, runs: EditRuns) -> JSONResponse:
    """Its ticks count from now on. A repetition changes nothing."""
    return JSONResponse(RegisteredRunShape.encode(runs.enable(run)))


@router.post("/runs/{run:name}/disable", **documented("disable_run", "Disable a run's cron", RegisteredRunShape, 404))
def disable(run: RunName, runs: EditRuns) -> JSONResponse:
    """Its pending runs are discarded. A repetition changes nothing."""
    return JSONResponse(RegisteredRunShape.encode(runs.disable(run)))


START = documented("start_run", "Start a registered run now", PendingShape, 404, status=202, body=StartBody)
START["openapi_extra"]["requestBody"]["required"] = False


@router.post("/runs/{run:name}/run", **START)
def start(run: RunName, runs: EditRuns, sent: RawBody) -> JSONResponse:
    """Also while it is disabled. The values of the request override the registered ones."""
    given = parse_body(StartBody, sent or b"{}")
    return JSONResponse(PendingShape.encode(run_registered(runs, run, given.conf, given.preservation)), 202)


def _parse_run(body: bytes, name: str | None = None) -> RegisteredRun:
    """Return the run that a body registers.

    :param name: the name in the path; the body may leave it out.
    :raises InvalidRequest: the body is not valid JSON.
    :raises InvalidRun: it is not a run, or has another name.
    """
    try:
        run = RegisteredRun.from_json(read_definition(body, name))
    except RecursionError:
        raise InvalidRequest.at("body", "its values are nested too deeply") from None
    if name is not None and run.name != name:
        raise InvalidRun("name", run.name, f"the path has {name!r}; a run cannot be renamed")
    return run
