"""What the routes of builds take: names, what cleanup keeps, and the desk on behalf of whoever asks."""

from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from airflow_snowpack.api.auth import editor_of, reader_of
from airflow_snowpack.api.errors import InvalidRequest
from airflow_snowpack.api.parameters import text_parameter
from airflow_snowpack.api.services import Open, door_of
from airflow_snowpack.builds import layout
from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound
from airflow_snowpack.builds.model import Retention
from airflow_snowpack.durations import parse_duration
from airflow_snowpack.store import Actor

MOST_RUNS = 1_000_000

Dataset = Annotated[
    str,
    Path(
        description="Matches `[A-Za-z_][A-Za-z0-9_-]*`.",
        json_schema_extra={"pattern": f"^{layout.DATASET.pattern}$", "maxLength": layout.MAX_NAME, "example": "flights_by_tail"},
    ),
]
Run = Annotated[
    str,
    Path(
        description="Matches `[A-Za-z0-9_][A-Za-z0-9_.+-]*`.",
        json_schema_extra={"pattern": f"^{layout.RUN.pattern}$", "maxLength": layout.MAX_NAME, "example": "20260425T000000Z"},
    ),
]


async def _dataset(dataset: Dataset) -> str:
    if len(dataset) > layout.MAX_NAME or not layout.DATASET.fullmatch(dataset):
        raise DatasetNotFound(dataset)
    return dataset


async def _run(dataset: "DatasetName", run_id: Run) -> str:
    return checked_run(dataset, run_id)


async def _actor(request: Request, services: Open) -> Actor:
    user = await editor_of(request)
    return Actor(user.name, door_of(request))


async def _actor_unless_dry(
    request: Request,
    dry_run: Annotated[bool, Query(description="Only tell what would be deleted; whoever may read may ask that.")] = False,
) -> Actor | None:
    user = await (reader_of(request) if dry_run else editor_of(request))
    return None if dry_run else Actor(user.name, door_of(request))


async def _retention(
    keep_runs: Annotated[int, Query(ge=1, le=MOST_RUNS, description="Published runs that are kept, the newest first.")] = 7,
    stale_attempt_age: Annotated[
        str, text_parameter("From which age on a run that nobody holds is taken for dead, such as `1d` or `PT12H`.")
    ] = "1d",
) -> Retention:
    return Retention(keep_runs, read_age(stale_attempt_age))


DatasetName = Annotated[str, Depends(_dataset)]
RunName = Annotated[str, Depends(_run)]
Asking = Annotated[Actor, Depends(_actor)]
AskingUnlessDry = Annotated[Actor | None, Depends(_actor_unless_dry)]
Keeping = Annotated[Retention, Depends(_retention)]


def checked_run(dataset: str, run_id: str) -> str:
    """:raises BuildNotFound: no run can be called so."""
    if len(run_id) > layout.MAX_NAME or not layout.RUN.fullmatch(run_id):
        raise BuildNotFound(dataset, run_id)
    return run_id


def read_age(text: str) -> timedelta:
    """:raises InvalidRequest: it is no duration."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidRequest.at("query.stale_attempt_age", f"it {error}") from None
