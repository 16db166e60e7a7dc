"""The OpenAPI document: FastAPI's own, with what it cannot know.

FastAPI knows parameters and answers. That every route but the open probes wants a token, that problems have their own media type
and shape, and which bodies the routes read by themselves, is added here.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from airflow_snowpack.api.build_shapes import RollbackBody
from airflow_snowpack.api.run_shapes import RunBody, StartBody
from airflow_snowpack.api.schedule_shapes import EventBody, ScheduleBody
from airflow_snowpack.api.shapes import DrainBody, ProblemShape, SubmitBody

PROBES = ("/healthz", "/readyz")
SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "The token of the API, or one of Airflow's when mounted."}
}
DESCRIPTION = (
    "Maintenance of Apache Iceberg tables: submit it, watch it, cancel it, and see how the tables are. "
    "Schedules: declare when DAGs are to run, and ask why one has not. "
    "Registered runs: start a DAG under a name, with its usual conf or with another. "
    "Builds: see what is published, go back to an older build, and clean up."
)
READ_BY_ROUTES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Problem", ProblemShape),
    (SubmitBody.__name__, SubmitBody),
    (DrainBody.__name__, DrainBody),
    (ScheduleBody.__name__, ScheduleBody),
    (EventBody.__name__, EventBody),
    (RollbackBody.__name__, RollbackBody),
    (RunBody.__name__, RunBody),
    (StartBody.__name__, StartBody),
)


def document_of(app: FastAPI, root_path: str) -> dict[str, Any]:
    """The document of the app as it is mounted."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=DESCRIPTION,
        routes=app.routes,
        servers=[{"url": root_path or "/"}],
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, shape in READ_BY_ROUTES:
        schemas[name] = shape.model_json_schema(ref_template="#/components/schemas/{model}")
    components["securitySchemes"] = SCHEMES
    document["security"] = [{"token": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _say_only_what_happens(path, operation, probes_are_open=app.state.auth.probes_are_open)
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    for schema in schemas.values():
        schema.pop("title", None)
    return document


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional parameter: it may be left out, but a URL has no way to spell null."""
    given = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(given) != 1:
        return schema
    return {**given[0], **{key: value for key, value in schema.items() if key != "anyOf"}}


def _say_only_what_happens(path: str, operation: dict[str, Any], *, probes_are_open: bool) -> None:
    impossible = {"422"} if path in PROBES else set()  # the others know their parameters, and refuse any other
    if path == "/healthz":
        impossible.add("503")  # it asks nothing that could be away
    if path in PROBES and probes_are_open:
        operation["security"] = []
        impossible |= {"401", "403"}
    for code in impossible:
        operation["responses"].pop(code, None)
