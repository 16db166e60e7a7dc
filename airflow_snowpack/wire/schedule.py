"""Schedules, pending runs and events.

The fields of a trigger or a constraint are checked by its own class; the schemas here list their names, so that the OpenAPI
document shows what there is to choose from.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.scheduling import (
    Explanation,
    LaunchBacklog,
    Missed,
    PendingState,
    QueuedRun,
    RecordedEvent,
    ScheduleEntry,
    ScheduleOrigin,
    SourceFinding,
    StoredSchedule,
)
from airflow_snowpack.scheduling.constraints.constraint import CONSTRAINTS
from airflow_snowpack.scheduling.schedule import DAG_ID, MAX_NAME, PRIORITIES
from airflow_snowpack.scheduling.triggers.trigger import TRIGGERS
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import Body, From, Moment, Shape, page_shape

EXAMPLE: dict[str, Any] = {
    "name": "page_views_nightly",
    "dag_id": "maintain_page_views",
    "trigger": {"any_of": [{"partitions_added": {"table": "analytics.page_views", "count": 5}}, {"every": {"period": "4h"}}]},
    "constraints": [{"time_window": {"start": "22:00", "end": "06:00", "tz": "America/New_York"}}],
    "timeout": {"after": "1d", "then": "discard"},
}
Waiting = Literal["pending_trigger", "pending_constraint", "pending_launch"]
WAITS_FOR = {"pending_trigger": "its trigger", "pending_constraint": "its constraints", "pending_launch": "its start"}


def _one_of(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with one name, whose value is an object of fields or the value of the first field."""
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
    """A schedule, as in Python and YAML: when a DAG runs, and under which constraints."""

    model_config = ConfigDict(json_schema_extra={"example": EXAMPLE})

    name: Name
    dag_id: DagId
    trigger: dict[str, Any] = Field(
        description="What requests a run: one trigger. `all_of` and `any_of` combine several.",
        json_schema_extra=_one_of(TRIGGERS.all()),
    )
    conf: dict[str, Any] = Field(default_factory=dict, description="The `dag_run.conf` of each run.")
    constraints: list[dict[str, Any]] = Field(
        default_factory=list,
        description="What must be true before a requested run starts; each may set `on_unmet` to `wait` or `skip`.",
        json_schema_extra={"items": _one_of(CONSTRAINTS.all())},
    )
    timeout: str | dict[str, str] = Field(
        "1d",
        description="How long a requested run waits for its constraints, and whether it is then discarded or launched.",
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
    missed: Missed = Field(Missed.ONE, description="What happens to cron ticks that passed while no scheduler ran.")
    backlog: LaunchBacklog = Field(
        LaunchBacklog.ONE,
        description="`one`: further events join a launch that waits for its DAG, such as a paused one. `all`: one run each.",
    )
    enabled: bool = Field(False, description="Whether it is created enabled; a change keeps the current value.")
    description: str = ""


class EventBody(Shape):
    """A custom event. Schedules with the trigger `custom_events` of this name count it."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"name": "orders_closed", "amounts": {"records": 900}, "source_id": "2026-11-21"}}
    )

    name: str = Field(min_length=1, max_length=500, examples=["orders_closed"])
    amounts: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict, description="What the event adds to counts.")
    detail: dict[str, Any] = Field(default_factory=dict, description="For people, and for the run that it starts.")
    source_id: str | None = Field(
        None,
        min_length=1,
        max_length=500,
        description="Your id of the event. Two requests with the same name and id are one event.",
    )
    at: str | None = Field(
        None,
        description="When it happened, such as `2026-04-25T14:35:00Z`; the default is now.",
        json_schema_extra={"format": "date-time"},
    )


def definition_of(stored: StoredSchedule) -> Body:
    """Return what a schedule was declared as, with whether it is enabled now; as it is stored when it cannot be read."""
    definition = stored.definition if stored.read is None else stored.read.to_json()
    return {**(definition if isinstance(definition, dict) else {"definition": definition}), "enabled": stored.enabled}


class ScheduleShape(Shape):
    """A schedule."""

    name: str
    enabled: bool = Field(description="Events count for it; otherwise it is suspended.")
    origin: ScheduleOrigin = Field(
        description="What declares it: a `file`, people by `hand`, people after a file: `edited`, or a registered `run`."
    )
    generation: str = Field(
        description="Changes with its trigger, constraints or DAG, and when it is resumed; earlier events do not count."
    )
    created_at: datetime
    changed_at: datetime
    changed_by: str | None
    problem: str | None = Field(description="Why this version cannot read it; its definition is then shown as it is stored.")
    definition: Annotated[dict[str, Any], From(definition_of)] = Field(
        description="The body of `POST /schedules` and `PUT /schedules/{name}`.", examples=[EXAMPLE]
    )


SchedulesShape = page_shape("SchedulesShape", "Schedules by name.", "schedules", ScheduleShape)


class JudgementShape(Shape):
    """The state of a trigger."""

    satisfied: bool
    says: Annotated[str, From("text")] = Field(examples=["3 of 5 partitions of analytics.page_views"])
    have: int | None = Field(description="The current count; null where nothing is counted.")
    want: int | None
    next_at: Moment = Field(description="When the time alone may change it.")
    problem: str | None = Field(description="Why no event can satisfy it now; null when nothing is wrong.")
    parts: list["JudgementShape"]


class ReasonShape(Shape):
    """The result of a constraint, or of the trigger, at its last evaluation."""

    what: str = Field(description="`trigger`, or the constraint's kind.", examples=["time_window"])
    says: Annotated[str, From("text")]
    met: bool
    not_before: Moment = Field(description="It is not evaluated again before this time.")


class PendingShape(Shape):
    """A pending run, or how it ended."""

    pending_id: str
    schedule: str
    dag_id: str
    state: PendingState
    priority: int
    created_at: datetime
    triggered_at: Moment = Field(description="Since when its trigger is satisfied.")
    expires_at: Moment = Field(description="When it stops waiting for its constraints.")
    next_check_at: Moment = Field(description="When it is evaluated next; null when only an event can change it.")
    waits_for: str | None
    reasons: list[ReasonShape]
    problem: Annotated[str | None, From(lambda _: None)] = Field(description="Why its run could not be started yet.")
    run_id: str | None
    ended_at: Moment
    ended_because: str | None


PendingPageShape = page_shape("PendingPageShape", "Pending runs, oldest first.", "pending", PendingShape)


class SourceShape(Shape):
    """A table, a DAG, an asset or another source that a schedule listens to."""

    kind: str = Field(description="`table`, `dag`, `asset`, or the kind of a source of another package.", examples=["table"])
    name: str = Field(examples=["analytics.page_views"])
    read_at: Moment = Field(description="When the table was last read; null for never, and for a DAG.")
    problem: str | None = Field(examples=["the table analytics.page_views does not exist"])
    confirmed_at: Moment = Field(description="When the problem was last confirmed.")


class SchedulerShape(Shape):
    """The dispatcher DAG, or `airflow snowpack scheduler`."""

    is_alive: Annotated[bool, From("scheduler_is_alive")] = Field(
        description="Whether one has worked on this store within the last five minutes."
    )
    seen_at: Annotated[Moment, From("scheduler_seen_at")] = Field(description="When one last did.")


def _launching(explanation: Explanation) -> Body | None:
    launching = explanation.launching
    return None if launching is None else PendingShape.encode(launching, problem=explanation.problem)


class ExplanationShape(Shape):
    """Why a schedule has not run."""

    name: Annotated[str, From("stored.name")]
    enabled: Annotated[bool, From("stored.enabled")]
    sentences: Annotated[list[str], From(lambda explanation: explanation.sentences())] = Field(
        description="The whole explanation as text."
    )
    trigger: JudgementShape
    pending: PendingShape | None = Field(description="The pending run.")
    launching: Annotated[PendingShape | None, From(_launching)] = Field(description="A run that is being started.")
    next_tick: Moment = Field(description="The next tick of its own clock.")
    deadline: Moment = Field(description="When it runs at the latest; null for a trigger without `at_latest`.")
    sources: list[SourceShape] = Field(description="The tables and DAGs that it listens to; empty while it is suspended.")
    scheduler: Annotated[SchedulerShape, From(lambda explanation: explanation)]
    ended: list[PendingShape] = Field(description="The newest that were launched or discarded, newest first.")


class ScheduleEntryShape(Shape):
    """An entry in a schedule's history."""

    id: int
    at: datetime
    what: str = Field(examples=["triggered"])
    pending_id: str | None
    detail: dict[str, Any]


ScheduleHistoryShape = page_shape(
    "ScheduleHistoryShape", "A schedule's history, newest first.", "entries", ScheduleEntryShape, int
)


class RecordedEventShape(Shape):
    """An event in the log."""

    id: int
    key: Annotated[str, From("event.key")] = Field(
        description="The key under which triggers find it.", examples=["event:orders_closed"]
    )
    at: Annotated[datetime, From("event.at")]
    recorded_at: datetime
    amounts: Annotated[dict[str, int], From("event.amounts")]
    detail: Annotated[dict[str, Any], From("event.detail")]
    source_id: Annotated[str | None, From("event.source_id")]


EventsShape = page_shape("EventsShape", "Events, newest first.", "events", RecordedEventShape, int)


class FindingShape(Shape):
    """A problem with the sources of a schedule, or with the scheduler."""

    schedule: str | None
    problem: str
    blocks: bool


class SyncShape(Shape):
    """What `schedules sync` changed."""

    created: list[str]
    updated: list[str]
    deleted: list[str]
    left: list[str]
    discards: int


def schedule_state(stored: StoredSchedule) -> str:
    """Return the state of a schedule for people."""
    return "enabled" if stored.enabled else "suspended"


def _blocked_by(explanation: Explanation) -> str | None:
    reasons = [reason.text for reason in explanation.blocked_by]
    return "; ".join(reasons + [why for why in (explanation.trigger.problem, explanation.problem) if why]) or None


def next_check(explanation: Explanation) -> datetime | None:
    """Return when something about a schedule is checked next."""
    waiting = explanation.pending.next_check_at if explanation.pending is not None else None
    return waiting or explanation.next_tick


def _last_launch(explanation: Explanation) -> datetime | None:
    return next((run.ended_at for run in explanation.ended if run.state.value == "launched"), None)


def _unmet(queued: QueuedRun) -> str:
    unmet = [reason.text for reason in queued.run.reasons if not reason.met]
    return "; ".join(unmet + ([queued.problem] if queued.problem else []))


def _pairs(values: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


SCHEDULES: Listing[Explanation] = Listing(
    "schedules",
    lambda explanation: ScheduleShape.encode(explanation.stored),
    (
        Column("schedule", "stored.name"),
        Column("dag", "stored.dag_id"),
        Column("state", lambda each: schedule_state(each.stored) + (", not readable" if each.stored.problem else "")),
        Column("trigger", lambda each: each.trigger.text if each.stored.enabled else None),
        Column("waits because", _blocked_by),
        Column("next check", next_check),
        Column("last launch", _last_launch),
    ),
)
HISTORY: Listing[ScheduleEntry] = Listing(
    "entries",
    ScheduleEntryShape.encode,
    (
        Column("when", "at"),
        Column("what", "what", lambda entry: entry.what.replace("_", " ")),
        Column("pending run", "pending_id", lambda entry: (entry.pending_id or "")[:12]),
        Column("detail", lambda entry: _pairs(entry.detail)),
    ),
)
PENDING: Listing[QueuedRun] = Listing(
    "pending",
    lambda queued: PendingShape.encode(queued.run, problem=queued.problem),
    (
        Column("schedule", "run.schedule"),
        Column("dag", "run.dag_id"),
        Column("waits for", "run.state", lambda queued: WAITS_FOR[queued.run.state.value]),
        Column("because", _unmet),
        Column("since", "run.created_at"),
        Column("next check", "run.next_check_at"),
        Column("expires", "run.expires_at"),
    ),
    noun="pending runs",
)
EVENTS: Listing[RecordedEvent] = Listing(
    "events",
    RecordedEventShape.encode,
    (
        Column("event", "id", lambda recorded: str(recorded.id)),
        Column("when", "event.at"),
        Column("key", "event.key"),
        Column("amounts", lambda recorded: _pairs(recorded.event.amounts)),
        Column("source id", "event.source_id"),
    ),
)
FINDINGS: Listing[SourceFinding] = Listing(
    "problems", FindingShape.encode, (Column("schedule", "schedule"), Column("problem", "problem"))
)
