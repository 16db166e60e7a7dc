"""The shapes of schedules, events and the queue of pending jobs, as ``shapes.py`` has them for jobs and tables.

What a trigger or a constraint may hold, its own class says and checks; here stand their names and fields, so that the document
tells what there is to choose from.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from airflow_snowpack.api.shapes import Moment, Shape
from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import LaunchBacklog, Missed, Origin, PendingState
from airflow_snowpack.scheduling.constraints.constraint import CONSTRAINTS
from airflow_snowpack.scheduling.schedule import DAG_ID, MAX_NAME, PRIORITIES
from airflow_snowpack.scheduling.triggers.trigger import TRIGGERS

EXAMPLE: dict[str, Any] = {
    "name": "page_views_nightly",
    "dag_id": "maintain_page_views",
    "trigger": {"any_of": [{"partitions_added": {"table": "analytics.page_views", "count": 5}}, {"every": {"period": "4h"}}]},
    "constraints": [{"time_window": {"start": "22:00", "end": "06:00", "tz": "America/New_York"}}],
    "timeout": {"after": "1d", "then": "discard"},
}


def _one_of(kinds: dict[str, Any]) -> dict[str, Any]:
    """One name with its fields, or with the value of the first field alone."""
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
        "properties": {name: kind.schema() for name, kind in kinds.items()},
    }


Name = Annotated[str, Field(pattern=f"^{LEVEL.pattern}$", max_length=MAX_NAME, examples=["page_views_nightly"])]
DagId = Annotated[str, Field(json_schema_extra={"pattern": f"^{DAG_ID.pattern}$"}, examples=["maintain_page_views"])]


class ScheduleBody(Shape):
    """A schedule, as it is declared in Python and in YAML: when a DAG is to run, and under which constraints."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    dag_id: DagId
    trigger: dict[str, Any] = Field(
        description="When a run is wanted: one trigger; `all_of` and `any_of` hold several.",
        json_schema_extra=_one_of(TRIGGERS.all()),
    )
    conf: dict[str, Any] = Field(default_factory=dict, description="What each run gets as its `dag_run.conf`.")
    constraints: list[dict[str, Any]] = Field(
        default_factory=list,
        description="Under what a run that is wanted may start; each may say `on_unmet`: `wait` or `skip`.",
        json_schema_extra={"items": _one_of(CONSTRAINTS.all())},
    )
    timeout: str | dict[str, str] = Field(
        "1d",
        description="How long a wanted run may wait for its constraints, and whether it is then discarded or launched.",
        json_schema_extra={
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"after": {"type": "string"}, "then": {"enum": ["discard", "launch"]}},
                    "additionalProperties": False,
                },
            ]
        },
    )
    priority: int = Field(0, ge=PRIORITIES.start, le=PRIORITIES.stop - 1)
    missed: Missed = Field(Missed.ONE, description="What becomes of cron ticks that nobody was there to see.")
    backlog: LaunchBacklog = Field(
        LaunchBacklog.ONE,
        description="`one`: further events join a launch that waits for its DAG, such as a paused one. `all`: one run each.",
    )
    enabled: bool = Field(False, description="Whether it is created enabled; a change leaves that as it is.")
    description: str = ""


class EventBody(Shape):
    """Something that happened elsewhere; schedules with the trigger `custom_events` of this name count it."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "orders_closed", "amounts": {"records": 900}, "source_id": "2026-11-21"}}
    )

    name: str = Field(min_length=1, max_length=500, examples=["orders_closed"])
    amounts: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict, description="What it brought.")
    detail: dict[str, Any] = Field(default_factory=dict, description="For people and for the run that it starts.")
    source_id: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="What you know it by; the same one again, under the same name, is the same event.",
    )
    at: str | None = Field(
        None,
        description="When it happened, such as `2026-04-25T14:35:00Z`; now, when nothing is said.",
        json_schema_extra={"format": "date-time"},
    )


class ScheduleShape(Shape):
    """A schedule as the store has it."""

    name: str
    enabled: bool = Field(description="Events count for it; otherwise it is suspended.")
    origin: Origin = Field(
        description="Who keeps it: a `file`, people by `hand`, people after a file: `edited`, or a registered `run`."
    )
    generation: str = Field(description="Another one after each change; what was before it does not count.")
    created_at: datetime
    changed_at: datetime
    changed_by: str | None
    problem: str | None = Field(description="Why this version cannot read it; its definition is then shown as it is stored.")
    definition: dict[str, Any] = Field(description="What `POST /schedules` and `PUT /schedules/{name}` take.", examples=[EXAMPLE])


class SchedulesShape(Shape):
    """Schedules by their names."""

    schedules: list[ScheduleShape]
    next: str | None = Field(description="What to give as `after` for the next page.")


class JudgementShape(Shape):
    """What a trigger is worth now."""

    satisfied: bool
    says: str = Field(examples=["3 of 5 partitions of analytics.page_views"])
    have: int | None = Field(description="How much there is of what is counted; null where nothing is.")
    want: int | None
    next_at: Moment = Field(description="When time alone may change it.")
    problem: str | None = Field(description="Why no event can satisfy it as things are; null when nothing is wrong.")
    parts: list["JudgementShape"]


class ReasonShape(Shape):
    """What a constraint, or the trigger, said when it was last asked."""

    what: str = Field(description="`trigger`, or the constraint's kind.", examples=["time_window"])
    says: str
    met: bool
    not_before: Moment = Field(description="It is not asked again before this moment.")


class PendingShape(Shape):
    """A run that may come, or came, or never will."""

    pending_id: str
    schedule: str
    dag_id: str
    state: PendingState
    priority: int
    created_at: datetime
    triggered_at: Moment = Field(description="Since when its trigger is satisfied.")
    expires_at: Moment = Field(description="Until when its constraints may take.")
    next_check_at: Moment = Field(description="When it is looked at next; null when only an event can move it.")
    waits_for: str | None
    reasons: list[ReasonShape]
    problem: str | None = Field(description="Why its run could not be started yet.")
    run_id: str | None
    ended_at: Moment
    ended_because: str | None


class PendingPageShape(Shape):
    """The queue, the oldest first."""

    pending: list[PendingShape]
    next: str | None = Field(description="What to give as `cursor` for the next page.")


class SourceShape(Shape):
    """A table or a DAG that a schedule listens to."""

    kind: Literal["table", "dag"]
    name: str = Field(examples=["analytics.page_views"])
    read_at: Moment = Field(description="When the table was last read; null for never, and for a DAG.")
    problem: str | None = Field(examples=["the table analytics.page_views does not exist"])
    asked_at: Moment = Field(description="When the problem was last confirmed.")


class SchedulerShape(Shape):
    """The dispatcher DAG, or `airflow snowpack scheduler`."""

    is_alive: bool = Field(description="Whether one has worked on this store within the last five minutes.")
    seen_at: Moment = Field(description="When one last did.")


class ExplanationShape(Shape):
    """Why a schedule has not run."""

    name: str
    enabled: bool
    sentences: list[str] = Field(description="All of it in words.")
    trigger: JudgementShape
    pending: PendingShape | None = Field(description="The job that is on its way to a run.")
    launching: PendingShape | None = Field(description="A job whose run is being started.")
    next_tick: Moment = Field(description="When its own clock comes next.")
    deadline: Moment = Field(description="When it runs at the latest; null for a trigger without `at_latest`.")
    sources: list[SourceShape] = Field(description="The tables and DAGs that it listens to; empty while it is suspended.")
    scheduler: SchedulerShape
    ended: list[PendingShape] = Field(description="The newest that were launched or discarded, newest first.")


class ScheduleEntryShape(Shape):
    """One line of a schedule's life."""

    id: int
    at: datetime
    what: str = Field(examples=["triggered"])
    pending_id: str | None
    detail: dict[str, Any]


class ScheduleHistoryShape(Shape):
    """What became of a schedule's wishes, newest first."""

    entries: list[ScheduleEntryShape]
    next: int | None = Field(description="What to give as `before` for the next page.")


class RecordedEventShape(Shape):
    """An event in the log."""

    id: int
    key: str = Field(description="What triggers look it up by.", examples=["event:orders_closed"])
    at: datetime
    recorded_at: datetime
    amounts: dict[str, int]
    detail: dict[str, Any]
    source_id: str | None


class EventsShape(Shape):
    """The log, newest first."""

    events: list[RecordedEventShape]
    next: int | None = Field(description="What to give as `before` for the next page.")


Waiting = Literal["pending_trigger", "pending_constraint", "pending_launch"]
