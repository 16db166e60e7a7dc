"""Registered runs."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from airflow_snowpack.preservation import Preservation
from airflow_snowpack.scheduling import StoredRun
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.schedule import DagId, Name
from airflow_snowpack.wire.shape import From, Moment, Shape, page_shape, plain

EXAMPLE: dict[str, Any] = {
    "name": "features_daily",
    "dag_id": "make_features",
    "conf": {"table": "analytics.page_views", "days": 7},
    "cron": "0 8 * * *",
    "tz": "Europe/Berlin",
    "preservation": "FULL",
}


class RunBody(Shape):
    """A registered run: a named DAG run with default values and, if it has a cron, a schedule."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    dag_id: DagId
    conf: dict[str, Any] = Field(default_factory=dict, description="The `dag_run.conf` of each run.")
    cron: str | None = Field(None, description="Five fields, or six with the seconds first; null to start it by hand only.")
    tz: str = Field("UTC", description="The IANA time zone of the cron.")
    preservation: Preservation | None = Field(
        None, description="Whether its runs keep their interim tables, unless a task or the start of a run sets it."
    )
    enabled: bool | None = Field(
        None, description="Whether its cron starts runs; null keeps the current value, and a new one is enabled."
    )
    description: str = ""


class StartBody(Shape):
    """The values of one run. All of them are optional."""

    model_config = ConfigDict(json_schema_extra={"example": {"conf": {"days": 30}, "preservation": "NONE"}})

    conf: dict[str, Any] = Field(
        default_factory=dict,
        description="Overrides the registered values key by key; a value that is an object is replaced as a whole.",
    )
    preservation: Preservation | None = Field(
        None, description="Whether this run keeps its interim tables; null for the registered value."
    )


def _definition(stored: StoredRun) -> dict[str, Any]:
    return {name: plain(getattr(stored, name)) for name in RunBody.model_fields}


class RegisteredRunShape(Shape):
    """A registered run."""

    name: str
    enabled: bool = Field(description="Its cron starts runs. It can be started by hand in any case.")
    created_at: datetime
    updated_at: datetime = Field(description="When it was last registered, changed, enabled or disabled.")
    updated_by: str | None
    next_run_at: Moment = Field(description="The next tick of its cron; null without one, and while it is disabled.")
    definition: Annotated[dict[str, Any], From(_definition)] = Field(
        description="The body of `POST /runs` and `PUT /runs/{run}`.", examples=[EXAMPLE]
    )


RegisteredRunsShape = page_shape("RegisteredRunsShape", "Registered runs by name.", "runs", RegisteredRunShape)


def run_state(stored: StoredRun) -> str:
    """Return the state of a registered run for people."""
    return "enabled" if stored.enabled else "disabled"


RUNS: Listing[StoredRun] = Listing(
    "runs",
    RegisteredRunShape.encode,
    (
        Column("run", "name"),
        Column("dag", "dag_id"),
        Column("state", run_state),
        Column("cron", "cron", lambda stored: stored.cron and f"{stored.cron} ({stored.tz})"),
        Column("tz", "tz", lambda _: None),
        Column("preservation", "preservation"),
        Column("next run", "next_run_at"),
    ),
    noun="registered runs",
)
