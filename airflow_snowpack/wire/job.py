"""Jobs, the requests that submit them, and their results."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from airflow_snowpack.humanize import short_id
from airflow_snowpack.jobs import DEFAULT_PRIORITY, PRIORITIES, ActionResult, Job, JobStatus, shown_status
from airflow_snowpack.maintenance import Action, action_names
from airflow_snowpack.maintenance.planning import TablePlan
from airflow_snowpack.wire.listing import Column, Elapsed, Listing
from airflow_snowpack.wire.operations import AuditShape
from airflow_snowpack.wire.plan import PlanShape
from airflow_snowpack.wire.shape import CatalogId, Database, From, Level, Moment, Shape

JOB_ID = "a1b2c3d4e5f678901234567890abcdef"
ERROR_SHOWN = 60


def _options(schema: dict[str, Any]) -> None:
    from airflow_snowpack.maintenance.options import defaults, usable_actions

    schema["properties"] = {
        action: {
            "type": "object",
            "properties": {name: {} if value is None else {"default": value} for name, value in defaults(action).items()},
            "additionalProperties": False,
        }
        for action in usable_actions()
    }
    schema["additionalProperties"] = False


class SubmitBody(Shape):
    """The maintenance of a table. Only the actions are required."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"actions": ["rewrite_data_files", "expire_snapshots"], "dry_run": False}}
    )

    actions: list[str] = Field(
        description="The actions to run, at least one. They run in the installation's order, whatever the order here. "
        "`auto` alone: those that the plan of the table runs, with the options of its policy.",
        json_schema_extra={"items": {"type": "string", "enum": [*action_names(), "auto"]}, "minItems": 1},
    )
    dry_run: bool = Field(False, description="Only report what each action would do, from the table's metadata, at once.")
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description='Options by the name of their action, such as `{"expire_snapshots": {"retain_last": 10}}`.',
        json_schema_extra=_options,
    )
    where: str | None = Field(None, description="A Spark predicate that limits each rewrite to the matching rows.")
    only_if_needed: bool = Field(
        True,
        description="Skip, without Spark, each action that has nothing to do by the table's metadata; `false` runs each one. "
        "A dry run ignores this.",
    )
    priority: int = Field(
        DEFAULT_PRIORITY,
        ge=PRIORITIES[0],
        le=PRIORITIES[-1],
        description="Of the jobs that wait, those with the highest priority run first.",
    )


class ResultShape(Shape):
    """What one action did."""

    action: str
    success: bool
    message: str = Field(description="For people.", examples=["Compacted 87 files into 12"])
    error: str | None = Field(description="The whole error, unless the action succeeded.")
    elapsed_seconds: float
    gb_hours: float | None = Field(description="GB of memory times hours of Spark work; null where that is not known.")


def plan_of(job: Job) -> TablePlan | None:
    """Return the plan that a job runs; ``None`` if its actions were requested."""
    return None if job.plan is None else TablePlan.from_json(job.table, job.plan)


class JobShape(Shape):
    """A job."""

    job_id: str = Field(examples=[JOB_ID])
    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    actions: list[str] = Field(description="In the order in which they run.")
    dry_run: bool
    status: JobStatus
    submitted_at: datetime
    started_at: Moment
    completed_at: Moment
    results: Annotated[list[ResultShape] | None, From(lambda job: job.results or None)] = Field(
        description="One entry for each action that ran; null until there is one."
    )
    error: str | None
    plan: Annotated[PlanShape | None, From(plan_of)] = Field(
        description="Why each action runs or is skipped, and what that was estimated to take; null if the actions were "
        "requested. The options of the actions are those of the job."
    )


class PlaceShape(Shape):
    """Where an active job is: in the queue, or with a worker."""

    enqueued_at: datetime
    visible_at: Annotated[Moment, From(lambda place: None if place.claimed_at else place.visible_at)] = Field(
        description="When a worker may claim it; null while it is claimed."
    )
    claimed_at: Moment
    claimed_by: str | None
    lease_until: Annotated[Moment, From(lambda place: place.visible_at if place.claimed_at else None)] = Field(
        description="When its worker's lease expires unless the worker renews it; null while it is not claimed."
    )


class EventShape(Shape):
    """An event in a job's history."""

    at: datetime
    event: str
    attempt_id: str | None
    detail: dict[str, Any]


def _finite(result: ActionResult) -> Mapping[str, int | float]:
    return {name: value for name, value in result.metrics.items() if math.isfinite(value)}  # JSON has no others


class ActionOutcomeShape(ResultShape):
    """What one action did, with its metrics."""

    outcome: Literal["succeeded", "partial", "conflict", "failed", "interrupted", "skipped"]
    metrics: Annotated[dict[str, int | float], From(_finite)]


class TimelineShape(Shape):
    """Everything that is known about a job."""

    job: JobShape
    catalog: Annotated[str, From("table.catalog")] = Field(
        description="The name of the catalog in the installation's settings when the job was submitted."
    )
    catalog_id: Annotated[CatalogId, From("table.catalog_id")]
    priority: int = Field(description="Of the jobs that wait, those with the highest priority run first.")
    attempt: int
    submitted_by: str | None
    cancelled_by: str | None
    owner: str | None = Field(description="The Airflow task instance that it belongs to: `dag_id/run_id/task_id`.")
    options: dict[str, Any]
    explanation: str = Field(description="What it waits for, what it is doing, or how it ended.")
    queue: PlaceShape | None
    results: list[ActionOutcomeShape]
    history: list[EventShape] = Field(description="Oldest first.")
    audit: list[AuditShape] = Field(description="Oldest first.")


class RefusedShape(Shape):
    """A job that a batch could not change."""

    job_id: str
    detail: str


class BatchShape(Shape):
    """The result of a batch."""

    done: int
    refused: list[RefusedShape]
    next: str | None = Field(description="The cursor to continue with; null when the batch is complete.")


def status_text(job: Job) -> str:
    """Return the status of a job for people."""
    return f"{shown_status(job)}{' (dry run)' if job.dry_run else ''}"


def _actions(job: Job) -> str:
    return "all" if job.plan is None and set(job.actions) == set(Action) else job.work


def _first_line(error: str | None) -> str:
    line = next(iter((error or "").splitlines()), "")
    return line if len(line) <= ERROR_SHOWN else f"{line[: ERROR_SHOWN - 1]}…"


JOBS: Listing[Job] = Listing(
    "jobs",
    JobShape.encode,
    (
        Column("job", "job_id", lambda job: short_id(job.job_id)),
        Column("table", "table.dotted"),
        Column("status", "status", status_text, state="status"),
        Column("actions", lambda job: ",".join(job.actions), _actions),
        Column("submitted", "submitted_at"),
        Column("took", lambda job: elapsed(job), lambda job: None if job.dry_run else elapsed(job)),
        Column("by", "submitted_by"),
        Column("error", "error", lambda job: _first_line(job.error), state=lambda _: JobStatus.FAILED),
    ),
)
RESULTS: Listing[ActionResult] = Listing(
    "results",
    ResultShape.encode,
    (
        Column("action", "action"),
        Column("outcome", "outcome"),
        Column("took", "elapsed_seconds", lambda result: timedelta(seconds=result.elapsed_seconds)),
        Column("message", "message"),
        Column("error", "error"),
    ),
)


def elapsed(job: Job) -> Elapsed | None:
    """Return how long the job ran, or has been running."""
    return None if job.started_at is None else Elapsed(job.started_at, job.completed_at)
