"""What a route says of itself in the OpenAPI document: its answers with their headers, and its problems.

@router.get("/jobs/{job_id}", **documented("get_job", "Get a job", JobShape, 404))
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from airflow_snowpack.api.problems import MEDIA_TYPE

SAYS: Mapping[int, str] = {
    400: "The list of actions is empty or has an unknown one, or an option cannot be used.",
    401: "Nobody that can be believed asks.",
    403: "The user may not do this.",
    404: "There is no such job, table, schedule, dataset or run.",
    409: "The job, table or dataset is in a state that does not allow it, or the name is taken.",
    422: "A name, a parameter or the body has not the right shape.",
    500: "A fault of the server; its log says more.",
    503: "Drain mode is on, or the store, the catalog or the storage of builds does not answer.",
}
EVERYWHERE = (401, 403, 422, 500, 503)
SECONDS = {"schema": {"type": "integer"}, "description": "Seconds."}
HEADERS: Mapping[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to authenticate.", "required": True}},
    409: {"Retry-After": SECONDS},
    503: {"Retry-After": SECONDS},
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route may answer with, those of every route among them."""
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        code: {"description": SAYS[code], "content": body, **({"headers": HEADERS[code]} if code in HEADERS else {})}
        for code in sorted({*codes, *EVERYWHERE})
    }


def documented(
    name: str,
    summary: str,
    shape: type[BaseModel] | Any,
    *codes: int,
    status: int = 200,
    headers: Mapping[str, Any] | None = None,
    body: type[BaseModel] | None = None,
    example: Any = None,
) -> dict[str, Any]:
    """The arguments of a route's decorator.

    :param name: the operation's id.
    :param shape: of its answer.
    :param codes: of its problems, besides those that every route has.
    :param headers: of its answer.
    :param body: the shape of what it is sent, which it reads itself.
    """
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if headers:
        answer["headers"] = dict(headers)
    if shape is not None:
        answer["model"] = shape
    if example is not None:
        answer["content"] = {"application/json": {"example": example}}
    extra: dict[str, Any] = {}
    if body is not None:
        reference = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        extra["openapi_extra"] = {"requestBody": {"required": True, "content": {"application/json": reference}}}
    return {
        "operation_id": name,
        "summary": summary,
        "status_code": status,
        "response_model": None,
        "responses": {status: answer, **problems(*codes)},
        **extra,
    }
