"""The shapes of bodies: what comes in is checked against them, what goes out is documented by them.

    SubmitBody.model_validate_json(b'{"actions": ["expire_snapshots"]}')

The invariant: no shape takes a field that it does not name, and no value is bent into a type: ``"yes"`` is not a boolean.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_snowpack.iceberg.names import LEVEL
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.maintenance import action_names
from airflow_snowpack.maintenance.options import defaults

JOB_ID = "a1b2c3d4e5f678901234567890abcdef"
Moment = Annotated[datetime | None, Field(examples=["2026-04-25T14:35:00.000000+00:00"])]
Level = Annotated[str, Field(pattern=f"^{LEVEL.pattern}$", examples=["page_views"])]
Database = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}(\.{LEVEL.pattern})*$", examples=["analytics"])]

CatalogId = Annotated[
    str,
    Field(description="The fingerprint of the catalog's address; empty for jobs of older releases.", examples=["3f2a91bc04de"]),
]


_OPTIONS: dict[str, Any] = {
    action: {
        "type": "object",
        "properties": {name: {} if value is None else {"default": value} for name, value in defaults(action).items()},
        "additionalProperties": False,
    }
    for action in action_names()
}


class Shape(BaseModel):
    """What all of them have in common."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SubmitBody(Shape):
    """What to do to a table. Write it as in the example; everything but the actions may be left out."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"actions": ["rewrite_data_files", "expire_snapshots"], "dry_run": False}}
    )

    actions: list[str] = Field(
        description="What to run, at least one. The installation says in which order they run, whatever the order here.",
        json_schema_extra={"items": {"type": "string", "enum": list(action_names())}, "minItems": 1},
    )
    dry_run: bool = Field(False, description="Only tell what each action would do, from the table's metadata, at once.")
    options: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description='Options by the name of their action, such as `{"expire_snapshots": {"retain_last": 10}}`.',
        json_schema_extra={"properties": _OPTIONS, "additionalProperties": False},
    )
    where: str | None = Field(None, description="A Spark predicate for each action that can be narrowed to some rows.")
    only_if_needed: bool = Field(
        True,
        description="Skip, without Spark, each action that has nothing to do by the table's metadata; `false` runs each one. "
        "It makes no difference to a dry run.",
    )


class DrainBody(Shape):
    """How drain mode shall be."""

    model_config = ConfigDict(json_schema_extra={"example": {"on": True, "reason": "Postgres moves to its new host"}})

    on: bool
    reason: str | None = Field(None, max_length=1000, description="For the people who are refused meanwhile.")


class ResultShape(Shape):
    """What one action did."""

    action: str
    success: bool
    message: str = Field(description="For people.", examples=["Compacted 87 files into 12"])
    error: str | None = Field(description="The cause in full, when it did not succeed.")
    elapsed_seconds: float


class JobShape(Shape):
    """A job."""

    job_id: str = Field(examples=[JOB_ID])
    database: Database
    table_name: Level
    actions: list[str] = Field(description="In the order in which they run.")
    dry_run: bool
    status: JobStatus
    submitted_at: datetime
    started_at: Moment
    completed_at: Moment
    results: list[ResultShape] | None = Field(description="One entry for each action that ran; null until there is one.")
    error: str | None


class PlaceShape(Shape):
    """Where an active job stands: in the queue, or in the hands of a worker."""

    enqueued_at: datetime
    visible_at: Moment = Field(description="When a worker may take it; null while one has it.")
    claimed_at: Moment
    claimed_by: str | None
    lease_until: Moment = Field(description="Until when its worker has it without another heartbeat; null while none has it.")


class EventShape(Shape):
    """One line of a job's life."""

    at: datetime
    event: str
    attempt_id: str | None
    detail: dict[str, Any]


class OutcomeShape(ResultShape):
    """What one action did, in numbers too."""

    outcome: Literal["succeeded", "partial", "conflict", "failed", "interrupted", "skipped"]
    metrics: dict[str, int | float]


class AuditShape(Shape):
    """One change that somebody made."""

    id: int
    at: datetime
    actor: str
    via: str = Field(examples=["api"])
    change: str = Field(examples=["cancel"])
    subject: str = Field(
        description="A job's id, a table with its catalog, `drain`, `queue`, or a name behind `schedule:`, `event:` or `build:`."
    )
    detail: dict[str, Any]


class TimelineShape(Shape):
    """All that is known of a job."""

    job: JobShape
    catalog: str = Field(description="What the installation called the catalog when the job was submitted.")
    catalog_id: CatalogId
    attempt: int
    submitted_by: str | None
    cancelled_by: str | None
    owner: str | None = Field(description="The Airflow task instance that it belongs to: `dag_id/run_id/task_id`.")
    options: dict[str, Any]
    explanation: str = Field(description="What it waits for, what it does, or how it ended.")
    queue: PlaceShape | None
    results: list[OutcomeShape]
    history: list[EventShape] = Field(description="Oldest first.")
    audit: list[AuditShape] = Field(description="Oldest first.")


class RefusedShape(Shape):
    """A job that a batch could not change."""

    job_id: str
    detail: str


class BatchShape(Shape):
    """What a batch did."""

    done: int
    refused: list[RefusedShape]
    next: str | None = Field(description="The cursor to go on with; null when the batch is through.")


class TableShape(Shape):
    """A table and what comes next for it."""

    database: Database
    table_name: Level
    next_step: str
    last_job: JobShape | None
    locked_by: str | None


class LeftOutShape(Shape):
    """A table that the list does not have, or a namespace, as `namespace.*`."""

    name: str = Field(examples=["sales.2024 totals"])
    reason: str


class InventoryShape(Shape):
    """How well the list of tables knows the catalog."""

    refreshed_at: Moment
    age_seconds: float | None
    problem: str | None = Field(description="Why the last look at the catalog failed.")
    left_out_count: int = Field(description="How many tables and namespaces have names that no request could name.")
    left_out: list[LeftOutShape] = Field(description="The first 50 of them.")


class InventoryCountShape(InventoryShape):
    """The same, and how many tables there are."""

    tables: int


class TablesShape(InventoryShape):
    """Tables by their names."""

    tables: list[TableShape]
    next: str | None = Field(description="What to give as `after` for the next page.")


class PartitionShape(Shape):
    """One partition."""

    partition: str
    data_files: int
    small_files: int
    delete_files: int
    bytes: int


class HealthShape(Shape):
    """A table in numbers, from its metadata."""

    location: str
    format_version: int
    data_files: int
    delete_files: int
    bytes: int
    records: int
    position_deletes: int
    equality_deletes: int
    snapshots: int
    manifests: int
    small_files: int
    small_files_bytes: int
    small_files_ratio: float
    average_file_bytes: float
    target_file_size_bytes: int
    position_delete_files: int
    equality_delete_files: int
    deletion_vectors: int
    manifests_bytes: int
    oldest_snapshot_age_seconds: float | None
    partitions: list[PartitionShape] = Field(description="The ten with most to do.")


class TableHealthShape(TableShape):
    """A table, what comes next for it, and how it is."""

    health: HealthShape | None
    problem: str | None = Field(description="Why there are no numbers.")


class LockShape(Shape):
    """A lock on a table."""

    database: Database
    table_name: Level
    catalog: str = Field(description="What the installation called the catalog when the lock was taken.")
    catalog_id: CatalogId
    holder: str = Field(description="A job's id, or the name that an operator gave.")
    acquired_at: datetime
    expires_at: datetime


class ReleaseShape(Shape):
    """Whether a lock was released; a holder who does not have it releases nothing, which is no error."""

    released: bool
    lock: LockShape | None = Field(description="The lock that was released.")


class QueueShape(Shape):
    """The queue at one moment."""

    depth: int = Field(description="Jobs that a worker could claim now.")
    oldest: Moment
    oldest_seconds: float | None
    delayed: int = Field(description="Jobs that wait out a back-off.")
    running: int


class SampleShape(Shape):
    """How many jobs waited and ran at one moment."""

    at: datetime
    waiting: int
    running: int


class DrainShape(Shape):
    """Drain mode."""

    on: bool
    since: Moment
    by: str | None
    reason: str | None


class SweepShape(Shape):
    """What a sweep did."""

    requeued: list[str]
    failed: list[str]
    unlocked: list[str]
    paused: bool = Field(description="Nothing was done, because drain mode is on.")


class AuditPageShape(Shape):
    """Who did what, newest first."""

    entries: list[AuditShape]
    next: int | None = Field(description="What to give as `before` for the next page.")


class HealthzShape(Shape):
    """The process lives."""

    status: Literal["ok"]


class ReadyShape(Shape):
    """Each part that must be ready, and the background roles, which need not be."""

    status: Literal["ready"]
    store: str
    tables: str
    roles: dict[str, str] = Field(examples=[{"sweeper": "No sweeper for 40 min: DAG snowpack_sweep is paused. Unpause it."}])
    missing_roles: list[str]


class ProblemShape(BaseModel):
    """A problem detail (RFC 9457); some have further members."""

    type: str = Field(examples=["urn:snowpack:problem:table_locked"])
    title: str
    status: int
    detail: str = Field(description="For people: what was wrong, what is allowed, and what to do.")
    error: str = Field(description="For programs.", examples=["table_locked"])
