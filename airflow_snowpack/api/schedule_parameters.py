"""What the routes of schedules take: names, bodies, and the schedules on behalf of whoever asks."""

import json
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from airflow_snowpack.api.auth import Editor
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.services import Open, door_of
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import InvalidSchedule, Schedule, ScheduleNotFound, Schedules
from airflow_snowpack.scheduling.schedule import MAX_NAME
from airflow_snowpack.store import Actor

Named = Annotated[
    str,
    Path(
        description="Matches `[A-Za-z_][A-Za-z0-9_-]*`.",
        json_schema_extra={"pattern": f"^{LEVEL.pattern}$", "maxLength": MAX_NAME, "example": "page_views_nightly"},
    ),
]


async def _name(name: Named) -> str:
    if len(name) > MAX_NAME or not LEVEL.fullmatch(name):
        raise ScheduleNotFound(name)
    return name


async def _schedules(services: Open) -> Schedules:
    return services.schedules()


async def _actor(request: Request, user: Editor) -> Actor:
    return Actor(user.name, door_of(request))


async def _mine(services: Open, actor: "Asking") -> Schedules:
    return services.schedules(actor)


ScheduleName = Annotated[str, Depends(_name)]
Everybodys = Annotated[Schedules, Depends(_schedules)]
Asking = Annotated[Actor, Depends(_actor)]
OnBehalf = Annotated[Schedules, Depends(_mine)]


def parse_schedule(body: bytes, name: str | None = None) -> Schedule:
    """The schedule that a body declares.

    :param name: the name that it must have, and gets when it says none.
    :raises InvalidRequest: it is no JSON.
    :raises InvalidSchedule: it is no schedule, or has another name.
    """
    try:
        schedule = Schedule.from_json(read_json(body, name))
    except RecursionError:
        raise InvalidRequest.at("body", "its values are nested too deeply") from None
    if name is not None and schedule.name != name:
        raise InvalidSchedule("name", schedule.name, f"the address names {name!r}; a schedule keeps its name")
    return schedule


def read_json(body: bytes, name: str | None) -> Any:
    """What a body says.

    :param name: what it gets as its ``name`` when it says none.
    :raises InvalidRequest: it is no JSON.
    """
    try:
        said = json.loads(body, parse_constant=_refuse)
    except ValueError as error:
        raise InvalidRequest.at("body", f"it is no JSON: {error}"[:200]) from None
    return {"name": name, **said} if name is not None and isinstance(said, dict) else said


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")
