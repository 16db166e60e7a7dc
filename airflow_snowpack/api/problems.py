"""Errors as problem details (RFC 9457): each says what was wrong, what is allowed, and what to do."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from airflow_snowpack.api.auth import Forbidden, NotAuthenticated
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs import JobAlreadyFinished, JobNotFound, JobStillActive, TableLocked

STATUS: dict[type[SnowpackError], int] = {
    NotAuthenticated: 401,
    Forbidden: 403,
    JobNotFound: 404,
    TableLocked: 409,
    JobAlreadyFinished: 409,
    JobStillActive: 409,
}


def install(app: FastAPI) -> None:
    """Make every error of the package a problem document."""

    @app.exception_handler(SnowpackError)
    async def refuse(request: Request, error: SnowpackError) -> JSONResponse:
        status = next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)
        body = {"type": "about:blank", "title": type(error).__name__, "status": status, "detail": str(error)}
        return JSONResponse(body, status, media_type="application/problem+json")
