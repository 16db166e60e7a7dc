"""Errors as problem details (RFC 9457): each says what was wrong, what is allowed, and what to do.

    {"type": "urn:snowpack:problem:table_locked", "title": "Somebody else holds the table", "status": 409,
     "detail": "The table lake.demo.flights is locked by …", "error": "table_locked", "holder": "…", …}

The invariant: whatever goes wrong, the answer is such a document, and it tells nothing of the inside: no password, no statement,
no address but the host of the store. What was left out stands in the log.
"""

import json
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from airflow_snowpack.api.auth import Forbidden, NotAuthenticated
from airflow_snowpack.api.errors import CatalogTooSlow, InvalidRequest, StorageTooSlow, StoreDown
from airflow_snowpack.api.reasons import reason_in_words, told_outside
from airflow_snowpack.builds.errors import (
    BuildError,
    BuildNotFound,
    DatasetBusy,
    DatasetNotFound,
    InvalidBuild,
    ManifestDamaged,
    PointerMoved,
    PublishFailed,
    StaleBuild,
    StorageFailed,
)
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import CatalogUnreachable, InvalidTableName, TableNotFound, TableUnreadable, WrongCatalog
from airflow_snowpack.interim.errors import InterimTableInUse, InterimTableNotFound, InvalidInterimCursor
from airflow_snowpack.jobs import (
    DrainModeOn,
    InvalidCursor,
    InvalidKey,
    JobAlreadyFinished,
    JobNotFound,
    JobStillActive,
    KeyUsedBefore,
    LockInUse,
    TableLocked,
)
from airflow_snowpack.maintenance import Action, InvalidOption, NoActions, UnknownAction
from airflow_snowpack.scheduling import (
    InvalidEvent,
    InvalidSchedule,
    KeptByRun,
    RunExists,
    RunNotFound,
    ScheduleExists,
    ScheduleNotFound,
    ScheduleNotReadable,
)
from airflow_snowpack.store import StoreError, StoreTooSlow, StoreUnreachable

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SOON, RETRY_LATER = 5, 30

STATUS: Mapping[type[SnowpackError], int] = {
    NotAuthenticated: 401,
    Forbidden: 403,
    JobNotFound: 404,
    TableNotFound: 404,
    TableLocked: 409,
    WrongCatalog: 409,
    JobAlreadyFinished: 409,
    JobStillActive: 409,
    LockInUse: 409,
    UnknownAction: 400,
    NoActions: 400,
    InvalidOption: 400,
    InvalidTableName: 422,
    InvalidCursor: 422,
    InvalidKey: 422,
    KeyUsedBefore: 422,
    InvalidRequest: 422,
    ScheduleNotFound: 404,
    ScheduleExists: 409,
    ScheduleNotReadable: 409,
    KeptByRun: 409,
    RunNotFound: 404,
    RunExists: 409,
    InvalidSchedule: 422,
    InvalidEvent: 422,
    DatasetNotFound: 404,
    BuildNotFound: 404,
    DatasetBusy: 409,
    StaleBuild: 409,
    ManifestDamaged: 409,
    InvalidBuild: 422,
    PointerMoved: 409,
    PublishFailed: 503,
    StorageFailed: 503,
    StorageTooSlow: 503,
    BuildError: 409,
    InterimTableNotFound: 404,
    InterimTableInUse: 409,
    InvalidInterimCursor: 422,
    DrainModeOn: 503,
    CatalogUnreachable: 503,
    CatalogTooSlow: 503,
    TableUnreadable: 503,
    StoreDown: 503,
    StoreTooSlow: 503,
    StoreError: 503,
}

# Where the specification's word is not the name of the error.
CODES: Mapping[type[SnowpackError], str] = {DrainModeOn: "drain_mode"}

RETRY_AFTER: Mapping[type[SnowpackError], int] = {
    TableLocked: RETRY_LATER,
    DatasetBusy: RETRY_LATER,
    StorageFailed: RETRY_LATER,
    StorageTooSlow: RETRY_LATER,
    DrainModeOn: RETRY_LATER,
    CatalogUnreachable: RETRY_LATER,
    CatalogTooSlow: RETRY_LATER,
    StoreDown: RETRY_SOON,
    StoreTooSlow: RETRY_LATER,
    StoreError: RETRY_SOON,
}


class ProblemResponse(JSONResponse):
    """A problem document; it may quote what a client sent, half surrogate pairs too, which UTF-8 cannot hold."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def install(app: FastAPI) -> None:
    """Make every error that a route raises a problem document."""

    @app.exception_handler(SnowpackError)
    async def refuse(request: Request, error: SnowpackError) -> JSONResponse:
        return problem_of(error)

    @app.exception_handler(DBAPIError)
    @app.exception_handler(PoolTimeout)
    async def store_is_down(request: Request, error: DBAPIError | PoolTimeout) -> JSONResponse:
        return problem_of(error)

    @app.exception_handler(RequestValidationError)
    async def not_valid(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem_of(InvalidRequest.of(error.errors()))

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        words = {404: f"There is nothing at {request.scope['path'][:200]!r}. The document at /openapi.json lists every route."}
        detail = words.get(status, f"{request.method} is refused: {error.detail}.")
        code = "no_such_route" if status == HTTPStatus.NOT_FOUND else snake_case(status.phrase.replace(" ", ""))
        return problem(status, code, status.phrase, detail, headers=error.headers)


def problem_of(error: Exception) -> JSONResponse:
    """The document for an error; anything that nobody expected is logged and gives a 500 that tells nothing else."""
    if isinstance(error, StoreUnreachable):
        log.warning("%s", error)  # it says all, and in an outage there is one for each request
        error = StoreDown(reason_in_words(error))
    elif isinstance(error, DBAPIError | PoolTimeout):
        log.warning("The store failed while a request was answered.", exc_info=error)
        error = StoreDown(reason_in_words(error))
    kind = _known(error)
    if kind is None and isinstance(error, SnowpackError):
        log.error("A request met an error of the installation.", exc_info=error)
        return problem(500, _code(error), _title(error), str(error))
    if kind is None:
        log.error("A request failed in a way that nobody expected.", exc_info=error)
        detail = "The request failed for a reason that is not its own. The log of the server tells which."
        return problem(500, "internal_error", "Internal error", detail)
    headers = {"Retry-After": str(RETRY_AFTER[kind])} if kind in RETRY_AFTER else {}
    if kind is NotAuthenticated:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(STATUS[kind], _code(error), _title(error), told_outside(error), headers=headers, **_more(error))


def problem(
    status: int, code: str, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """A problem document.

    :param code: what a program looks at.
    :param detail: what a person reads.
    :param more: further members.
    """
    body = {
        "type": f"urn:snowpack:problem:{code}",
        "title": title,
        "status": int(status),
        "detail": detail,
        "error": code,
        **more,
    }
    return ProblemResponse(body, int(status), dict(headers or {}))


def snake_case(name: str) -> str:
    """``TableLocked`` as ``table_locked``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _known(error: Exception) -> type[SnowpackError] | None:
    return next((kind for kind in type(error).__mro__ if kind in STATUS), None)


def _code(error: Exception) -> str:
    return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), snake_case(type(error).__name__))


def _title(error: Exception) -> str:
    return (type(error).__doc__ or type(error).__name__).strip().splitlines()[0].rstrip(".")


def _more(error: Exception) -> dict[str, Any]:
    """What a program would otherwise have to read out of the sentence."""
    match error:
        case TableLocked() | LockInUse():
            lock = error.lock
            return {"holder": lock.holder, "locked_since": _moment(lock.acquired_at), "locked_until": _moment(lock.expires_at)}
        case UnknownAction() | NoActions():
            return {"allowed": [action.value for action in Action]}
        case JobAlreadyFinished() | JobStillActive():
            return {"job_status": error.status.value}
        case KeyUsedBefore():
            return {"job_id": error.job_id}
        case DrainModeOn():
            state = error.state
            return {"since": _moment(state.since), "by": state.by, "reason": state.reason}
        case InterimTableInUse():
            return {"needed_by": list(error.needed_by)}
        case InvalidSchedule():
            return {"field": error.field}
        case InvalidRequest():
            return {"errors": error.errors}
    return {}


def _moment(moment: Any) -> str | None:
    text: str | None = None if moment is None else moment.isoformat(timespec="microseconds")
    return text
