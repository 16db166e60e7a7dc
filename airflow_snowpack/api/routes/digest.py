"""The digest: what maintenance did in the last 24 hours."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from airflow_snowpack.api.openapi import documented
from airflow_snowpack.api.routing import Strict
from airflow_snowpack.api.services import Open
from airflow_snowpack.inventory import TableScores
from airflow_snowpack.maintenance.digest import read_digest
from airflow_snowpack.wire.digest import DigestShape

router = APIRouter(route_class=Strict, tags=["digest"])


@router.get("/digest", **documented("get_digest", "Get what maintenance did in the last 24 hours", DigestShape))
def digest(services: Open) -> JSONResponse:
    """The jobs that ended, the failures by cause, and the tables by their condition. `text` is ready for a notifier."""
    return JSONResponse(DigestShape.encode(read_digest(services.jobs, TableScores(services.jobs.store, services.inventory))))
