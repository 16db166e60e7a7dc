"""The OpenAPI document, and what each route contributes to it.

    @router.get("/jobs/{job_id}", **documented("get_job", "Get a job", JobShape, 404))

FastAPI documents parameters and answers. This adds what it cannot know: which routes need a token, the media type and shape of
problems, and the bodies that routes parse themselves.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from airflow_snowpack.api.problems import MEDIA_TYPE
from airflow_snowpack.wire.build import RollbackBody
from airflow_snowpack.wire.job import SubmitBody
from airflow_snowpack.wire.operations import DrainBody, ProblemShape
from airflow_snowpack.wire.run import RunBody, StartBody
from airflow_snowpack.wire.schedule import EventBody, ScheduleBody

PROBES = ("/healthz", "/readyz")
SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "The token of the API, or one of Airflow's when mounted."}
}
DESCRIPTION = (
    "Maintenance of Apache Iceberg tables: submit and cancel jobs, and see the health of tables. "
    "Schedules: declare when DAGs run, and see why one has not run. "
    "Registered runs: start a DAG by name, with its default conf or another one. "
    "Builds: see what is published, roll back, and clean up. "
    "Images: see which images workers build, and why one is not ready. "
    "Removals: see what would be deleted, and approve, reject and run it."
)
PARSED_BY_ROUTES: Mapping[str, type[BaseModel]] = {
    "Problem": ProblemShape,
    **{body.__name__: body for body in (SubmitBody, DrainBody, ScheduleBody, EventBody, RollbackBody, RunBody, StartBody)},
}

DESCRIPTIONS: Mapping[int, str] = {
    400: "No action, an unknown action, or an option that cannot be used.",
    401: "Authentication required.",
    403: "Permission denied.",
    404: "The job, table, schedule, dataset, run, image or removal does not exist.",
    409: "The state of the job, table or dataset does not allow it, or the name exists already.",
    422: "A name, a parameter or the body is malformed.",
    500: "An error in the server; its log has the details.",
    503: "Drain mode is on, or the store, the catalog or the storage of builds does not answer.",
}
EVERYWHERE = (401, 403, 422, 500, 503)


def header(description: str, kind: str = "string", *, required: bool = False, **schema: Any) -> dict[str, Any]:
    """Return the description of a header of an answer."""
    return {"schema": {"type": kind, **schema}, "description": description, **({"required": True} if required else {})}


def created(noun: str) -> dict[str, Any]:
    """Return the header with the address of what a request created."""
    return {"Location": header(f"The address of the {noun}.", required=True)}


HEADERS: Mapping[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": header("How to authenticate.", required=True)},
    409: {"Retry-After": header("Seconds.", "integer")},
    503: {"Retry-After": header("Seconds.", "integer")},
}


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a route, including those of every route."""
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        code: {"description": DESCRIPTIONS[code], "content": body, **({"headers": HEADERS[code]} if code in HEADERS else {})}
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
    media: str | None = None,
) -> dict[str, Any]:
    """Return the arguments of a route's decorator.

    :param name: the operation's id.
    :param codes: the status codes of its problems, without those of every route.
    :param body: the shape of the request's body, which the route parses itself.
    :param media: the type of an answer that is text.
    """
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if headers:
        answer["headers"] = dict(headers)
    if shape is not None:
        answer["model"] = shape
    if media is not None:
        answer["content"] = {media: {"schema": {"type": "string"}}}
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


def document_of(app: FastAPI, root_path: str) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=DESCRIPTION,
        routes=app.routes,
        servers=[{"url": root_path or "/"}],
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, shape in PARSED_BY_ROUTES.items():
        schemas[name] = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    components["securitySchemes"] = SCHEMES
    document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _drop_impossible_answers(path, operation, probes_are_open=app.state.auth.probes_are_open)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    for schema in schemas.values():
        schema.pop("title", None)
    return document


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional parameter without null, which no URL can express."""
    given = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(given) != 1:
        return schema
    return {**given[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _drop_impossible_answers(path: str, operation: dict[str, Any], *, probes_are_open: bool) -> None:
    impossible = {"422"} if path in PROBES else set()  # they have no parameters
    if path == "/healthz":
        impossible.add("503")  # it depends on no other service
    if path in PROBES and probes_are_open:
        operation["security"] = []
        impossible |= {"401", "403"}
    for code in impossible:
        operation["responses"].pop(code, None)
