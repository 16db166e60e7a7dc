"""The shapes of registered runs, as ``schedule_shapes.py`` has them for schedules."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from airflow_snowpack.api.schedule_shapes import DagId, Name
from airflow_snowpack.api.shapes import Moment, Shape
from airflow_snowpack.preservation import Preservation

EXAMPLE: dict[str, Any] = {
    "name": "features_daily",
    "dag_id": "make_features",
    "conf": {"table": "analytics.page_views", "days": 7},
    "cron": "0 8 * * *",
    "tz": "Europe/Berlin",
    "preservation": "FULL",
}


class RunBody(Shape):
    """A registered run: a DAG's run under a name, with what it is given each time and, if it has a cron, when."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    dag_id: DagId
    conf: dict[str, Any] = Field(default_factory=dict, description="What each run gets as its `dag_run.conf`.")
    cron: str | None = Field(None, description="Five fields, or six with the seconds first; null for only by hand.")
    tz: str = Field("UTC", description="The IANA zone of the cron.")
    preservation: Preservation | None = Field(
        None, description="Of its runs' interim tables, unless a task or whoever starts it says another."
    )
    enabled: bool | None = Field(None, description="Whether its cron counts; null for as it is, and a new one is enabled.")
    description: str = ""


class StartBody(Shape):
    """What one run gets that others do not. All of it may be left out."""

    model_config = ConfigDict(json_schema_extra={"example": {"conf": {"days": 30}, "preservation": "NONE"}})

    conf: dict[str, Any] = Field(
        default_factory=dict,
        description="Over the registered one, key by key; a value that is an object is replaced as a whole.",
    )
    preservation: Preservation | None = Field(None, description="Of this run's interim tables; null for what is registered.")


class RegisteredRunShape(Shape):
    """A registered run as the store has it."""

    name: str
    enabled: bool = Field(description="Its cron counts; by hand it can be started in any case.")
    created_at: datetime
    updated_at: datetime = Field(description="When it was registered, changed, enabled or disabled last.")
    updated_by: str | None
    next_run_at: Moment = Field(description="When its cron comes next; null without one, and while it is disabled.")
    definition: dict[str, Any] = Field(description="What `POST /runs` and `PUT /runs/{run}` take.", examples=[EXAMPLE])


class RegisteredRunsShape(Shape):
    """Registered runs by their names."""

    runs: list[RegisteredRunShape]
    next: str | None = Field(description="What to give as `after` for the next page.")
