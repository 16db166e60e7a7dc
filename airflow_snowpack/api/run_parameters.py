"""What the routes of registered runs take: names, bodies, and the catalogue on behalf of whoever asks."""

from typing import Annotated

from fastapi import Depends, Path

from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.parameters import parse_body
from airflow_snowpack.api.run_shapes import StartBody
from airflow_snowpack.api.schedule_parameters import Asking, read_json
from airflow_snowpack.api.services import Open
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import InvalidRun, RegisteredRun, RegisteredRuns, RunNotFound
from airflow_snowpack.scheduling.schedule import MAX_NAME

Named = Annotated[
    str,
    Path(
        description="Matches `[A-Za-z_][A-Za-z0-9_-]*`.",
        json_schema_extra={"pattern": f"^{LEVEL.pattern}$", "maxLength": MAX_NAME, "example": "features_daily"},
    ),
]


async def _name(run: Named) -> str:
    if len(run) > MAX_NAME or not LEVEL.fullmatch(run):
        raise RunNotFound(run)
    return run


async def _runs(services: Open) -> RegisteredRuns:
    return services.registered_runs()


async def _mine(services: Open, actor: Asking) -> RegisteredRuns:
    return services.registered_runs(actor)


RegisteredName = Annotated[str, Depends(_name)]
EverybodysRuns = Annotated[RegisteredRuns, Depends(_runs)]
RunsOnBehalf = Annotated[RegisteredRuns, Depends(_mine)]


def parse_run(body: bytes, name: str | None = None) -> RegisteredRun:
    """The run that a body registers.

    :param name: the name that it must have, and gets when it says none.
    :raises InvalidRequest: it is no JSON.
    :raises InvalidRun: it is no run, or has another name.
    """
    try:
        run = RegisteredRun.from_json(read_json(body, name))
    except RecursionError:
        raise InvalidRequest.at("body", "its values are nested too deeply") from None
    if name is not None and run.name != name:
        raise InvalidRun("name", run.name, f"the address names {name!r}; a run keeps its name")
    return run


def parse_start(body: bytes) -> StartBody:
    """What one run gets; a request without a body says nothing.

    :raises InvalidRequest: it is no JSON, or not of this shape.
    """
    return parse_body(StartBody, body or b"{}")
