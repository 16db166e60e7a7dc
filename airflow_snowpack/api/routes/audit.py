"""The audit trail: who did what, when and through which door."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Reader
from airflow_snowpack.api.bodies import audit_body
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.parameters import Limit, text_parameter
from airflow_snowpack.api.services import Open
from airflow_snowpack.api.shapes import AuditPageShape
from airflow_snowpack.api.strict import Strict
from airflow_snowpack.jobs import AuditTrail

router = APIRouter(route_class=Strict, tags=["audit"])


@router.get("/audit", **documented("list_audit", "See who did what, newest first", AuditPageShape))
def audit(
    user: Reader,
    services: Open,
    before: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="Only entries older than this one: the next page.")
    ] = None,
    limit: Limit = 100,
    subject: Annotated[
        str | None, text_parameter("Of one job (its id), table (with its catalog), `drain`, `queue` or `schedule:<name>`.")
    ] = None,
) -> JSONResponse:
    """Every change that was asked for through the API, the pages or the command line."""
    found = AuditTrail(services.jobs.store).latest(limit + 1, before, subject)
    shown = found[:limit]
    return JSONResponse({"entries": [audit_body(entry) for entry in shown], "next": shown[-1].id if len(found) > limit else None})
