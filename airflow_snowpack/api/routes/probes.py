"""What a supervisor asks: does the process live, and can it serve.

A probe of Kubernetes sends no token, so an :class:`Auth` may leave these two open.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Auth
from airflow_snowpack.api.documented import documented
from airflow_snowpack.api.problems import STORE_RETRY_AFTER_S, problem
from airflow_snowpack.api.readiness import look
from airflow_snowpack.api.shapes import HealthzShape, ReadyShape
from airflow_snowpack.api.threads import in_thread

router = APIRouter(tags=["probes"])


async def _open_to_probes(request: Request) -> None:
    auth: Auth = request.app.state.auth
    if not auth.probes_are_open:
        await auth.authenticate(request)


Probe = Annotated[None, Depends(_open_to_probes)]


@router.get("/healthz", **documented("healthz", "Does the process live", HealthzShape))
async def healthz(probe: Probe) -> JSONResponse:
    """Nothing else is asked: a store that is away is no reason to start this process anew."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", **documented("readyz", "Can it serve", ReadyShape))
async def readyz(request: Request, probe: Probe) -> JSONResponse:
    """Ready while the store answers and the list of tables is not older than two periods of its refresh.

    `roles` says how each background role stands, and `missing_roles` names those that have work and do not run. They leave the
    status at 200, since this process can serve without them.
    """
    found = await in_thread(look, request.app.state.services)
    wrong = {name: part.says for name, part in found.parts.items() if not part.ready}
    says: dict[str, Any] = {name: part.says for name, part in found.parts.items()}
    says["roles"] = {report.role.value: str(report) for report in found.roles}
    says["missing_roles"] = [report.role.value for report in found.roles if report.is_missing]
    if not wrong:
        return JSONResponse({"status": "ready", **says})
    detail = " ".join(wrong.values())
    return problem(
        503, "not_ready", "Not ready", detail, headers={"Retry-After": str(STORE_RETRY_AFTER_S)}, not_ready=list(wrong), **says
    )
