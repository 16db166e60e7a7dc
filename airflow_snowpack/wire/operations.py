"""Operations: the queue, locks, drain mode, the sweep, the audit trail, probes and problems."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_snowpack.humanize import ID, short_id
from airflow_snowpack.jobs import QueueSample, TableLock, WorkerReport, WorkerState
from airflow_snowpack.store import AuditEntry
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import CatalogId, Database, From, Level, Moment, Shape, page_shape


class DrainBody(Shape):
    """Whether drain mode is on."""

    model_config = ConfigDict(json_schema_extra={"example": {"on": True, "reason": "Postgres moves to its new host"}})

    on: bool
    reason: str | None = Field(None, max_length=1000, description="Shown to users whose submissions are refused.")


class DrainShape(Shape):
    """Drain mode."""

    on: bool
    since: Moment
    by: str | None
    reason: str | None


class LockShape(Shape):
    """A lock on a table."""

    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    catalog: Annotated[str, From("table.catalog")] = Field(
        description="The name of the catalog in the installation's settings when the lock was acquired."
    )
    catalog_id: Annotated[CatalogId, From("table.catalog_id")]
    holder: str = Field(description="A job's id, or the name that an operator gave.")
    acquired_at: datetime
    expires_at: datetime


class ReleaseShape(Shape):
    """Whether a lock was released. It is not an error when the named holder does not have the lock."""

    released: bool
    lock: LockShape | None = Field(description="The lock that was released.")


class QueueShape(Shape):
    """The queue at one moment."""

    depth: int = Field(description="Jobs that a worker could claim now: none while drain mode is on.")
    held: int = Field(description="Jobs that a worker could claim if drain mode were off.")
    oldest: Moment
    oldest_seconds: float | None
    delayed: int = Field(description="Jobs whose back-off has not elapsed.")
    running: int


class SampleShape(Shape):
    """How many jobs waited and ran at one moment, and what happened since the sample before it."""

    at: datetime
    waiting: int
    running: int
    completed: int = Field(description="Jobs that completed since the sample before.")
    failed: int = Field(description="Jobs that failed since the sample before.")
    median_wait_seconds: Annotated[float | None, From("median_wait")] = Field(
        description="Of the jobs whose first attempt began since the sample before; null without any."
    )
    longest_wait_seconds: Annotated[float | None, From("longest_wait")]


class WorkerClaimShape(Shape):
    """A job that a worker has claimed."""

    job_id: str
    database: Annotated[Database, From("table.database")]
    table_name: Annotated[Level, From("table.table")]
    claimed_at: datetime
    lease_until: datetime = Field(description="Without a heartbeat until then, the job returns to the queue.")


class WorkerShape(Shape):
    """A worker; a task that runs its own job has no host and no sign of life."""

    name: str = Field(description="As in its claims; of a DAG's task, that of the DAG and the task.")
    state: WorkerState
    host: str | None
    started_at: Moment
    seen_at: Moment
    jobs_ended: int | None = Field(description="Since it started, as of `seen_at`; null if it runs only one.")
    claims: list[WorkerClaimShape]


class SweepShape(Shape):
    """The result of a sweep."""

    requeued: list[str]
    failed: list[str]
    unlocked: list[str]
    cancelled: list[str] = Field(
        description="Jobs whose tasks have ended in Airflow. Always empty in the API, which does not query Airflow."
    )
    paused: bool = Field(description="Nothing was done, because drain mode is on.")


class AuditShape(Shape):
    """A change and who made it."""

    id: int
    at: datetime
    actor: str
    via: str = Field(examples=["api"])
    change: str = Field(examples=["cancel"])
    subject: str = Field(
        description="A job's id, a table with its catalog, `drain`, `queue`, or a name behind `schedule:`, `run:`, `event:`, "
        "`build:`, `interim:` or `image:`."
    )
    detail: dict[str, Any]


AuditPageShape = page_shape("AuditPageShape", "Who changed what, newest first.", "entries", AuditShape, int)


class HealthzShape(Shape):
    """The process is alive."""

    status: Literal["ok"]


class ReadyShape(Shape):
    """Each part that must be ready, and the background roles, which need not run."""

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
    detail: str = Field(description="For people: what happened, what is allowed, and what to do.")
    error: str = Field(description="For programs.", examples=["table_locked"])


def locked_by_job(lock: TableLock) -> bool:
    """Return whether the holder is a job, and not a name that an operator gave."""
    return ID.fullmatch(lock.holder) is not None


LOCKS: Listing[TableLock] = Listing(
    "locks",
    LockShape.encode,
    (
        Column("table", "table.dotted"),
        Column("locked by", "holder", lambda lock: f"{'job ' if locked_by_job(lock) else ''}{short_id(lock.holder)}"),
        Column("since", "acquired_at"),
        Column("expires", "expires_at"),
    ),
)


SAMPLES: Listing[QueueSample] = Listing(
    "samples",
    SampleShape.encode,
    (
        Column("until", "at"),
        Column("waiting", "waiting"),
        Column("running", "running"),
        Column("completed", "completed"),
        Column("failed", "failed"),
        Column("median wait", "median_wait"),
        Column("longest wait", "longest_wait"),
    ),
)


WORKERS: Listing[WorkerReport] = Listing(
    "workers",
    WorkerShape.encode,
    (
        Column("worker", "name"),
        Column("state", "state", state="state"),
        Column("host", "host"),
        Column("started", "started_at"),
        Column("seen", "seen_at"),
        Column("jobs ended", "jobs_ended"),
        Column(
            "runs",
            lambda worker: ",".join(claim.job_id for claim in worker.claims),
            lambda worker: ", ".join(f"{short_id(claim.job_id)} on {claim.table.dotted}" for claim in worker.claims),
        ),
    ),
)


def _detail(entry: AuditEntry) -> str:
    shown = {name: value for name, value in entry.detail.items() if value not in (None, "", [], False)}
    return ", ".join(f"{name}={','.join(value) if isinstance(value, list) else value}" for name, value in shown.items())


AUDIT: Listing[AuditEntry] = Listing(
    "entries",
    AuditShape.encode,
    (
        Column("when", "at"),
        Column("who", "actor"),
        Column("via", "via"),
        Column("change", "change"),
        Column("subject", "subject", lambda entry: short_id(entry.subject)),
        Column("detail", _detail),
    ),
    noun="changes",
)
