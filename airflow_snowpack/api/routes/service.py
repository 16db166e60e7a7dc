"""The service itself: probes, Prometheus metrics and the OpenAPI document.

A Kubernetes probe sends no token, so an :class:`Auth` may leave the two probes open.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.api.auth import Reader, reader_of
from airflow_snowpack.api.metrics import Metrics
from airflow_snowpack.api.openapi import document_of, documented
from airflow_snowpack.api.problems import STORE_RETRY_AFTER_S, message_for_clients, problem, reason_in_words
from airflow_snowpack.api.roles import RoleReport, read_roles
from airflow_snowpack.api.routing import Strict, in_thread
from airflow_snowpack.api.services import LazyServices, Open
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import duration
from airflow_snowpack.inventory import InventoryState
from airflow_snowpack.store import StoreUnreachable
from airflow_snowpack.wire.operations import HealthzShape, ReadyShape

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MAX_AGE_IN_PERIODS = 2
"""The process is ready while the list of tables is not older than so many periods of its refresh."""

router = APIRouter(route_class=Strict, tags=["probes"])


async def _open_to_probes(request: Request) -> None:
    if not request.app.state.auth.probes_are_open:
        await reader_of(request)


Probe = Annotated[None, Depends(_open_to_probes)]
probes = APIRouter(tags=["probes"])


@probes.get("/healthz", **documented("healthz", "Check that the process is alive", HealthzShape))
async def healthz(probe: Probe) -> JSONResponse:
    """Checks nothing else: a store that does not answer is no reason to restart this process."""
    return JSONResponse({"status": "ok"})


@probes.get("/readyz", **documented("readyz", "Check that the process is ready", ReadyShape))
async def readyz(request: Request, probe: Probe) -> JSONResponse:
    """Ready while the store answers and the list of tables is not older than two periods of its refresh.

    `roles` has the state of each background role, and `missing_roles` names those that have work and do not run. They leave the
    status at 200, because this process works without them.
    """
    parts, roles = await in_thread(check_readiness, request.app.state.services)
    not_ready = [name for name, part in parts.items() if not part.ready]
    states: dict[str, Any] = {name: part.state for name, part in parts.items()}
    states["roles"] = {report.role.value: str(report) for report in roles}
    states["missing_roles"] = [report.role.value for report in roles if report.is_missing]
    if not not_ready:
        return JSONResponse({"status": "ready", **states})
    retry = {"Retry-After": str(STORE_RETRY_AFTER_S)}
    detail = " ".join(parts[name].state for name in not_ready)
    return problem(503, "not_ready", "Not ready", detail, headers=retry, not_ready=not_ready, **states)


@router.get("/metrics", **documented("metrics", "Get Prometheus metrics", None, media="text/plain"))
def metrics(request: Request, services: Open) -> Response:
    """In Prometheus's text format. The store is read at each scrape."""
    collected: Metrics = request.app.state.metrics
    return Response(collected.text(services), media_type=METRICS_TYPE)


@probes.get("/openapi.json", include_in_schema=False)
async def openapi(request: Request, user: Reader) -> JSONResponse:
    return JSONResponse(document_of(request.app, request.scope.get("root_path", "")))


@dataclass(frozen=True, slots=True)
class Part:
    """A part that must be ready.

    :param state: a sentence for people.
    """

    ready: bool
    state: str


Readiness = tuple[dict[str, Part], list[RoleReport]]
"""The parts, and the background roles. A missing role leaves the process ready: another process of the API would miss it too."""


def check_readiness(lazy: LazyServices) -> Readiness:
    """Check the store, the list of tables and the background roles."""
    try:
        services = lazy.get()
        state, now = services.inventory.state(), services.jobs.store.clock()
        roles = read_roles(services.jobs.store, services.dag_states)
    except (StoreUnreachable, SQLAlchemyError) as error:
        return _without_store(f"The store does not answer: {reason_in_words(error)}.")
    except SnowpackError as error:
        return _without_store(message_for_clients(error))
    age = None if state.refreshed_at is None else now - state.refreshed_at
    tables = _tables(state, age, MAX_AGE_IN_PERIODS * services.refresh_every)
    return {"store": Part(True, "The store answers."), "tables": tables}, roles


def _without_store(why: str) -> Readiness:
    return {"store": Part(False, why), "tables": Part(False, "Without the store, the list of tables is not known.")}, []


def _tables(state: InventoryState, age: timedelta | None, allowed: timedelta) -> Part:
    # A probe may be unauthenticated, and a driver's message has addresses and users.
    why = " The last listing failed; `GET /tables` has the reason." if state.problem else ""
    if age is None:
        return Part(False, f"The catalog was never listed.{why}")
    if age > allowed:
        return Part(False, f"The list of tables is {duration(age)} old, more than {duration(allowed)}.{why}")
    return Part(True, f"The list of tables is {duration(age)} old.")
