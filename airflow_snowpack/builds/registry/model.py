"""The values of the build registry: datasets, runs and publications, and their mapping from rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import row_mapper


@dataclass(frozen=True, slots=True)
class BuildPolicy:
    """The periods of leases and locks.

    :param run_lease: an attempt that does not renew its run within this period loses the run.
    :param lock_lease: after a crash, the dataset stays locked for this period.
    :param heartbeat: the period of renewals; a lease must fit at least three.
    :param lock_wait: how long a publication, rollback or cleanup waits for the dataset's lock.
    :param pointer_waits: the pauses before the second and third try to set the pointer.
    """

    run_lease: timedelta = timedelta(minutes=30)
    lock_lease: timedelta = timedelta(minutes=2)
    heartbeat: timedelta = timedelta(minutes=1)
    lock_wait: timedelta = timedelta(minutes=5)
    pointer_waits: tuple[timedelta, ...] = (timedelta(seconds=1), timedelta(seconds=2))


class RunStatus(StrEnum):
    """The state of a run. ``SUCCEEDED``: published, perhaps behind a newer run. ``FAILED``: never published."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BuildRun:
    """A run.

    :param holder: the attempt that holds the lease, for people.
    :param lease_until: the end of the lease unless it is renewed.
    :param losers_left: cleanup must still examine the run for losing attempts, some of which may still be writing.
    :param deleted_at: when cleanup began to delete its objects; from then on it cannot be published.
    :param owner: the task instance that began it; a later try of the same owner fails it and begins a new run.
    :param manifest: the path of its manifest, once published, even if only into history.
    """

    dataset: str
    run_id: str
    as_of: datetime
    sequence: int
    status: RunStatus
    holder: str | None
    attempt_id: str | None
    lease_until: datetime | None
    started_at: datetime
    finished_at: datetime | None
    num_shards: int
    rows: int | None
    bytes: int | None
    error: str | None
    losers_left: bool
    deleted_at: datetime | None
    owner: str | None = None
    manifest: str | None = None
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run, with the fence of the attempt that began or resumed it.

    :param sequence: counts the dataset's runs, and orders runs of the same ``as_of``.
    :param attempt_id: the fence, which every write about the run names.
    :param attempt: counts the run's attempts, from 1.
    """

    dataset: str
    run_id: str
    url: str
    as_of: datetime
    sequence: int
    num_shards: int
    owner: str | None
    attempt_id: str
    attempt: int
    lease_until: datetime

    def __str__(self) -> str:
        return f"the run {self.run_id} of {self.dataset}"


@dataclass(frozen=True, slots=True)
class BuildDataset:
    """A dataset.

    :param publication: the number of the current publication; ``None`` before the first.
    :param newest_as_of: the newest ``as_of`` that was ever current; an older run is only published into history.
    :param locked_by: the process that publishes, rolls back or cleans up, for people.
    """

    dataset: str
    url: str
    created_at: datetime
    publication: int | None
    current_run: str | None
    moved_at: datetime | None
    newest_as_of: datetime | None
    locked_by: str | None
    locked_until: datetime | None


class PublicationKind(StrEnum):
    """Why the pointer was set. ``REPAIR``: it named a missing manifest, and was set back to the current run."""

    PUBLISH = "publish"
    ROLLBACK = "rollback"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Publication:
    """A change of the pointer.

    :param number: grows with each publication, not always by one.
    :param previous: the manifest to which readers fall back.
    """

    dataset: str
    number: int
    run_id: str
    kind: PublicationKind
    manifest: str
    checksum: str
    previous: str | None
    previous_checksum: str | None
    at: datetime
    by: str | None


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """The result of a publication or rollback.

    :param moved: the run is now the current build.
    :param publication: the pointer's number; ``None`` if it was not set.
    :param reason: why the pointer was not set.
    :param recorded: ``False``: the run is current, but the registry was unreachable; the next lock holder confirms it.
    """

    dataset: str
    run_id: str
    manifest: str
    moved: bool
    publication: int | None = None
    reason: str | None = None
    recorded: bool = True


def build_id(dataset: str, run_id: str) -> str:
    """Return the key of a run's row; neither name contains a "/"."""
    return f"{dataset}/{run_id}"


def _claimed(column: str) -> Any:
    return lambda row: getattr(row, column) if row.claimed_at is not None else None


run_from = row_mapper(
    BuildRun,
    {"status": RunStatus},
    holder="claimed_by",
    lease_until=_claimed("visible_at"),
    losers_left=lambda row: row.status == RunStatus.SUCCEEDED and row.cleanup_at is not None and row.deleted_at is None,
)
dataset_from = row_mapper(BuildDataset, locked_by=_claimed("claimed_by"), locked_until=_claimed("visible_at"))
publication_from = row_mapper(Publication, {"kind": PublicationKind})


def handle_from(row: sa.Row[Any], url: str) -> RunHandle:
    """Return the handle of the attempt that owns the run; ``url`` is the dataset's root."""
    return row_mapper(RunHandle, url=lambda _: url, attempt="attempt_count", lease_until="visible_at")(row)
