"""Errors of requests and of the services behind the API, and what of an error a client may read.

A database driver's message names users, ports, files and sometimes statements. Clients, and probes without a login, read only
which of a few known problems it is, and the name of the host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import duration
from airflow_snowpack.store import PoolerRefusesTransactions, SchemaOutOfDate, StoreFolderMissing, StoreTooSlow, UnknownRevision

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

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
    def of(cls, errors: Sequence[Any]) -> InvalidRequest:
        """Return the error for the errors that pydantic lists."""
        return cls([{"where": _place(each["loc"]), "problem": str(each["msg"])[:200]} for each in errors])

    @classmethod
    def at(cls, where: str, problem: str) -> InvalidRequest:
        return cls([{"where": where, "problem": problem}])


class StoreDown(SnowpackError, kind=Kind.UNAVAILABLE):
    """The store does not answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Snowpack store does not answer: {reason}. A request without an answer changed nothing. Try again soon."
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
    """Return the error's message without the address of the store."""
    known = PoolerRefusesTransactions | SchemaOutOfDate | StoreFolderMissing | StoreTooSlow | UnknownRevision
    return error.without_address if isinstance(error, known) else str(error)
