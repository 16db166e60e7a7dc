"""Errors as problem details (RFC 9457): what is wrong, what is allowed, and what to do.

    {"type": "urn:snowpack:problem:table_locked", "title": "The table is locked", "status": 409,
     "detail": "Table lake.demo.flights has been locked by …", "error": "table_locked", "holder": "…", …}

The invariant: every failure becomes such a document, and none reveals internals: no password, no SQL statement, no address but
the host of the store. A driver's message names users, ports, files and sometimes statements; clients, and probes without a login,
read only which of a few known problems it is. The log has what is left out.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Self

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from airflow_snowpack.api.auth import NotAuthenticated
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import duration
from airflow_snowpack.interim.errors import InterimTableInUse
from airflow_snowpack.jobs import DrainModeOn, JobAlreadyFinished, JobStillActive, KeyUsedBefore, LockInUse, TableLocked
from airflow_snowpack.maintenance import InvalidOption, NoActions, UnknownAction, action_names
from airflow_snowpack.redaction import redacted
from airflow_snowpack.scheduling import InvalidSchedule
from airflow_snowpack.store import StoreUnreachable
from airflow_snowpack.wire.shape import plain

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[Kind, int] = {
    Kind.INVALID: 422,
    Kind.NOT_FOUND: 404,
    Kind.CONFLICT: 409,
    Kind.REFUSED: 409,
    Kind.FORBIDDEN: 403,
    Kind.UNAVAILABLE: 503,
    Kind.DAMAGED: 409,
    Kind.MISCONFIGURED: 500,
    Kind.FAILED: 500,
}
# HTTP has its own status for a missing login; the specification has 400 for unusable actions.
OTHER_STATUS: Mapping[type[SnowpackError], int] = {NotAuthenticated: 401, UnknownAction: 400, NoActions: 400, InvalidOption: 400}

RETRY_AFTER_S: Mapping[Kind, int] = {Kind.CONFLICT: 30, Kind.UNAVAILABLE: 30}
STORE_RETRY_AFTER_S = 5
"""A store that does not answer is usually restarting."""

KNOWN = (
    ("refused the connection", r"connection refused"),
    ("there is no route to it", r"no route to host|network is unreachable"),
    ("its name cannot be resolved", r"could not translate host name|failed to resolve host|name or service not known"),
    ("it did not answer in time", r"timeout|timed out|did not answer in time|QueuePool limit"),
    ("it refused the login", r"password authentication failed|no pg_hba\.conf entry|role .* does not exist"),
    ("its database does not exist", r"database .* does not exist"),
    ("it is starting or stopping", r"is starting up|is shutting down|terminating connection|in recovery mode"),
    ("it has no free connection", r"too many clients|remaining connection slots"),
    ("the connection broke", r"server closed the connection|connection (reset|was closed|already closed|is lost|not open)"),
    ("its file is locked by another program", r"database is locked"),
    ("its file cannot be opened", r"unable to open database file"),
    ("its file is not a database, or damaged", r"file is not a database|malformed"),
    ("its disk is full", r"disk is full|no space left"),
    ("its disk fails or may not be written to", r"disk i/o error|readonly database|read-only"),
)
HOST = re.compile(r'connection to server at "([^"/]{1,100})"|failed to resolve host \'([^\']{1,100})\'')


class InvalidRequest(SnowpackError, kind=Kind.INVALID):
    """Malformed request.

    :ivar errors: each with where it is and what is wrong.
    """

    def __init__(self, errors: Sequence[dict[str, str]]) -> None:
        self.errors = list(errors)
        problems = "; ".join(f"{each['where']}: {each['problem']}" for each in self.errors[:5])
        super().__init__(f"Malformed request: {problems}. See /openapi.json for its schema.")

    @classmethod
    def of(cls, errors: Sequence[Any]) -> Self:
        """Return the error for what pydantic lists."""
        return cls([{"where": _place(each["loc"]), "problem": str(each["msg"])[:200]} for each in errors])

    @classmethod
    def at(cls, where: str, problem: str) -> Self:
        return cls([{"where": where, "problem": problem}])


class StoreDown(SnowpackError, kind=Kind.UNAVAILABLE):
    """The store does not answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Snowpack store does not answer: {reason}. A request without an answer changed nothing. Try again soon."
        )


class RequestTooSlow(SnowpackError, kind=Kind.UNAVAILABLE):
    """No answer in time."""

    def __init__(self, waited: timedelta, *, may_change: bool) -> None:
        effect = "The request may still take effect; check before you repeat it, or send an Idempotency-Key. "
        super().__init__(
            f"No answer within {duration(waited)}: the store or the catalog does not respond, or there are too many requests. "
            f"{effect if may_change else ''}If this happens often, raise [snowpack] request_timeout."
        )


class CatalogTooSlow(SnowpackError, kind=Kind.UNAVAILABLE):
    """The catalog took too long to answer."""

    def __init__(self, catalog: str, waited: timedelta) -> None:
        super().__init__(
            f"The Iceberg catalog {catalog!r} did not answer within {duration(waited)}. "
            "Try again later, find out why it is slow, or raise [snowpack] request_timeout."
        )


class StorageTooSlow(SnowpackError, kind=Kind.UNAVAILABLE):
    """The storage of builds took too long to answer."""

    def __init__(self, dataset: str, waited: timedelta) -> None:
        super().__init__(
            f"The storage of the dataset {dataset} did not answer within {duration(waited)}. "
            "The request may still take effect; check before you repeat it."
        )


# Where the code is not the name of the error.
CODES: Mapping[type[SnowpackError], str] = {DrainModeOn: "drain_mode", RequestTooSlow: "too_slow"}


class ProblemResponse(JSONResponse):
    """A problem document; it may quote what a client sent, half surrogate pairs too, which UTF-8 cannot hold."""

    media_type = MEDIA_TYPE

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")


def install(app: FastAPI) -> None:
    """Make every error that a route raises a problem document."""

    async def refuse(request: Request, error: Exception) -> JSONResponse:
        return problem_of(error)

    for kind in (SnowpackError, DBAPIError, PoolTimeout, RequestValidationError):
        app.add_exception_handler(kind, refuse)

    @app.exception_handler(HTTPException)
    async def no_route(request: Request, error: HTTPException) -> JSONResponse:
        status = HTTPStatus(error.status_code)
        detail = f"{request.method} {request.scope['path'][:200]!r} was refused: {error.detail}."
        if status == HTTPStatus.NOT_FOUND:
            detail = f"There is nothing at {request.scope['path'][:200]!r}. The document at /openapi.json lists every route."
        code = "no_such_route" if status == HTTPStatus.NOT_FOUND else snake_case(status.phrase.replace(" ", ""))
        return problem(status, code, status.phrase, detail, headers=error.headers)


def problem_of(error: Exception) -> JSONResponse:
    """Return the document for an error. An error that is not the package's own is logged and becomes a 500 without details."""
    if isinstance(error, StoreUnreachable):
        log.warning("%s", error)  # without its traceback: an outage raises one for each request
        error = StoreDown(reason_in_words(error))
    elif isinstance(error, DBAPIError | PoolTimeout):
        log.warning("The store failed during a request.", exc_info=error)
        error = StoreDown(reason_in_words(error))
    elif isinstance(error, RequestValidationError):
        error = InvalidRequest.of(error.errors())
    if not isinstance(error, SnowpackError):
        log.error("Unexpected error during a request.", exc_info=error)
        detail = "The request failed because of an error in the server. The server's log has the details."
        return problem(500, "internal_error", "Internal error", detail)
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and error.kind is not Kind.UNAVAILABLE:
        log.error("A request failed because of an error in the installation.", exc_info=error)
    return problem(status, _code(error), _title(error), message_for_clients(error), headers=_headers(error), **_more(error))


def status_of(error: SnowpackError) -> int:
    return next((OTHER_STATUS[cls] for cls in type(error).__mro__ if cls in OTHER_STATUS), STATUS[error.kind])


def problem(
    status: int, code: str, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
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


def _code(error: SnowpackError) -> str:
    return next((CODES[cls] for cls in type(error).__mro__ if cls in CODES), snake_case(type(error).__name__))


def _title(error: SnowpackError) -> str:
    return (type(error).__doc__ or type(error).__name__).strip().splitlines()[0].rstrip(".")


def _headers(error: SnowpackError) -> dict[str, str]:
    if isinstance(error, NotAuthenticated):
        return {"WWW-Authenticate": "Bearer"}
    seconds = STORE_RETRY_AFTER_S if isinstance(error, StoreDown | RequestTooSlow) else RETRY_AFTER_S.get(error.kind)
    return {} if seconds is None else {"Retry-After": str(seconds)}


def _more(error: SnowpackError) -> dict[str, Any]:
    """What a program would otherwise have to read out of the sentence."""
    match error:
        case TableLocked() | LockInUse():
            lock = error.lock
            return {"holder": lock.holder, "locked_since": plain(lock.acquired_at), "locked_until": plain(lock.expires_at)}
        case UnknownAction() | NoActions():
            return {"allowed": list(action_names())}
        case JobAlreadyFinished() | JobStillActive():
            return {"job_status": error.status.value}
        case KeyUsedBefore():
            return {"job_id": error.job_id}
        case DrainModeOn():
            state = error.state
            return {"since": plain(state.since), "by": state.by, "reason": state.reason}
        case InterimTableInUse():
            return {"needed_by": list(error.needed_by)}
        case InvalidSchedule():
            return {"field": error.field}
        case InvalidRequest():
            return {"errors": error.errors}
    return {}


def _place(loc: Sequence[Any]) -> str:
    return ".".join(str(part)[:60].encode("utf-8", "replace").decode() for part in loc) or "body"


def reason_in_words(error: BaseException) -> str:
    """Return why the store failed, such as ``the server at db.example: refused the connection``."""
    text = str(error)
    cause = getattr(error.__cause__, "orig", None) or getattr(error, "orig", None) or error
    found = next((reason for reason, pattern in KNOWN if re.search(pattern, text, re.IGNORECASE)), None)
    host = HOST.search(text)
    at = f"the server at {host.group(1) or host.group(2)}: " if host else ""
    return at + (found or f"it answered with {type(cause).__name__}")


def message_for_clients(error: Exception) -> str:
    """Return the error's message without secrets and without the address of the store."""
    return redacted(getattr(error, "without_address", str(error)))
