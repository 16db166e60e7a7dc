"""The queue, its locks, drain mode and the sweep."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from airflow_snowpack.humanize import ID, short_id
from airflow_snowpack.jobs import QueueState, TableLock
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import CatalogId, Database, From, Level, Moment, Shape


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

    depth: int = Field(description="Jobs that a worker could claim now.")
    oldest: Moment
    oldest_seconds: float | None
    delayed: int = Field(description="Jobs whose back-off has not elapsed.")
    running: int


class SampleShape(Shape):
    """How many jobs waited and ran at one moment."""

    at: datetime
    waiting: int
    running: int


class SweepShape(Shape):
    """The result of a sweep."""

    requeued: list[str]
    failed: list[str]
    unlocked: list[str]
    paused: bool = Field(description="Nothing was done, because drain mode is on.")


def oldest_seconds(state: QueueState, now: datetime) -> float | None:
    """Return how long the oldest job has been waiting."""
    return None if state.oldest is None else max((now - state.oldest).total_seconds(), 0.0)


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
