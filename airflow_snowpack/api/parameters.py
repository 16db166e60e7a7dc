"""Parameters and bodies of requests, checked and converted to values of the domain.

The invariant: both databases can store every value that is returned here; a NUL character is refused with its place.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request
from pydantic import ValidationError

from airflow_snowpack.api.problems import InvalidRequest
from airflow_snowpack.api.services import Open
from airflow_snowpack.bounded_text import MAX_DEPTH, is_too_deep
from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import TableName
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.jobs import JobFilter, JobNotFound, JobStatus
from airflow_snowpack.store import InvalidCursor
from airflow_snowpack.wire.job import JOB_ID
from airflow_snowpack.wire.shape import Shape

MAX_LIMIT = 1000
MAX_BODY = 256 * 1024
MAX_TEXT = 500
DOTTED = rf"^{LEVEL.pattern}(\.{LEVEL.pattern})+$"
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
CURSOR = re.compile(r"[A-Za-z0-9_-]{1,400}")
# The offset's plus sign is a space when the client did not encode it.
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(?:([Zz])|([+\- ]\d\d:\d\d))", re.ASCII)

Model = TypeVar("Model", bound=Shape)

Database = Annotated[
    str,
    Path(
        description="One level or several with dots between; each matches `[A-Za-z_][A-Za-z0-9_-]*`.",
        json_schema_extra={"pattern": rf"^{LEVEL.pattern}(\.{LEVEL.pattern})*$", "example": "analytics", "maxLength": 100},
    ),
]
Table = Annotated[
    str,
    Path(
        description="Matches `[A-Za-z_][A-Za-z0-9_-]*`.",
        json_schema_extra={"pattern": f"^{LEVEL.pattern}$", "example": "page_views", "maxLength": 100},
    ),
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="How many at most.")]
NEXT_PAGE = "The `next` of the page before."
FREE_TEXT: Mapping[str, Any] = {"min_length": 1, "max_length": MAX_TEXT, "pattern": "^[^\\x00]*$"}


def text_parameter(description: str, **schema: Any) -> Any:
    """Return a query parameter of free text without NUL. An empty one is refused, because it would match everything."""
    return Query(description=description, json_schema_extra=schema or None, **FREE_TEXT)


def cursor_formerly(name: str, kind: type = str, bounds: Mapping[str, Any] = FREE_TEXT) -> Any:
    """Return the parameter ``cursor`` of a list, which is accepted under its former name too."""

    given = Query(description=NEXT_PAGE, **bounds)
    former = Query(alias=name, description="The same as `cursor`.", deprecated=True, **bounds)

    async def read(
        cursor: Annotated[kind | None, given] = None,  # type: ignore[valid-type]  # mypy takes no types from values
        earlier: Annotated[kind | None, former] = None,  # type: ignore[valid-type]
    ) -> Any:
        return earlier if cursor is None else cursor

    return Depends(read)


NextPage = Annotated[str | None, text_parameter(NEXT_PAGE)]
After = Annotated[str | None, cursor_formerly("after")]
Before = Annotated[int | None, cursor_formerly("before", int, {"ge": 1, "le": 2**63 - 1})]


def name_parameter(
    pattern: re.Pattern[str], longest: int, example: str, alias: str | None = None, about: str | None = None
) -> Any:
    """Return a path parameter of a name. Its route checks it, so that an impossible name is a 404."""
    schema = {"pattern": f"^{pattern.pattern}$", "maxLength": longest, "example": example}
    return Path(alias=alias, description=about or f"Matches `{pattern.pattern}`.", json_schema_extra=schema)


def checked_name(
    alias: str,
    pattern: re.Pattern[str],
    longest: int,
    example: str,
    missing: Callable[[str], SnowpackError],
    about: str | None = None,
) -> Any:
    """Return a path parameter of a name that raises ``missing`` for an impossible name."""

    async def check(name: Annotated[str, name_parameter(pattern, longest, example, alias, about)]) -> str:
        if len(name) > longest or not pattern.fullmatch(name):
            raise missing(name)
        return name

    return Depends(check)


async def _table(database: Database, table: Table, services: Open) -> TableName:
    return services.inventory.table(database, table)


async def _job_filter(
    services: Open,
    table: Annotated[str | None, text_parameter("Of this table: `database.table_name`.", pattern=DOTTED)] = None,
    status: Annotated[list[JobStatus] | None, Query(description="With this status; repeat it for any of several.")] = None,
    search: Annotated[
        str | None, text_parameter("Part of a table's name, a job's id, its submitter, its owner or its error.")
    ] = None,
    dag: Annotated[str | None, text_parameter("Of this DAG's task instances.")] = None,
    dry_run: Annotated[bool | None, Query(description="Only dry runs, or none.")] = None,
    since: Annotated[str | None, Query(description="Submitted since.", json_schema_extra={"format": "date-time"})] = None,
    until: Annotated[str | None, Query(description="Submitted before.", json_schema_extra={"format": "date-time"})] = None,
) -> JobFilter:
    return JobFilter(
        table=None if table is None else TableName.parse(table, catalog=services.inventory.catalog_name),
        statuses=frozenset(status or ()),
        search=search,
        dag_id=dag,
        dry_run=dry_run,
        since=None if since is None else read_moment("since", since),
        until=None if until is None else read_moment("until", until),
    )


async def _cursor(
    cursor: Annotated[str | None, Query(description="From the `Link` header or the `next` of the page before.")] = None,
) -> str | None:
    if cursor is not None and not CURSOR.fullmatch(cursor):
        raise InvalidCursor(cursor)
    return cursor


JobId = Annotated[str, checked_name("job_id", ID, 64, JOB_ID, JobNotFound, "The id of a job.")]
NamedTable = Annotated[TableName, Depends(_table)]
Filter = Annotated[JobFilter, Depends(_job_filter)]
Cursor = Annotated[str | None, Depends(_cursor)]


def read_moment(where: str, text: str) -> datetime:
    """Return an RFC 3339 time in UTC.

    :raises InvalidRequest: it is not one, or has no offset.
    """
    match = MOMENT.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        offset = "+00:00" if match[2] else match[3].replace(" ", "+")
        return datetime.fromisoformat(match[1] + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        problem = f"{text[:40]!r} is not a time with an offset, such as 2026-04-25T14:35:00Z"
        raise InvalidRequest.at(where, problem) from None


async def read_body(request: Request) -> bytes:
    """Return the body of a request. Its shape is checked later, after drain mode and the names.

    :raises InvalidRequest: it is too long.
    """
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY:
            raise InvalidRequest.at("body", f"it has more than {MAX_BODY} bytes")
    return b"".join(parts)


async def _json_body(request: Request) -> bytes:
    body = await read_body(request)
    if is_too_deep(body):
        raise InvalidRequest.at("body", f"its values are nested more than {MAX_DEPTH} levels deep")
    return body


RawBody = Annotated[bytes, Depends(_json_body)]


def parse_body(model: type[Model], body: bytes) -> Model:
    """:raises InvalidRequest: the body is not valid JSON, or not of this shape."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise InvalidRequest.of(error.errors(include_url=False, include_context=False, include_input=False)) from None
