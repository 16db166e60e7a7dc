"""What the run registry hands out beside :class:`BuildRun`: the run that one holds, the datasets, and what was published when.

handle = registry.begin("flights", "s3://lake/builds/flights", as_of=interval_end, num_shards=8, owner="dag/run/task")
outcome = publish(registry, storage, handle, manifest)
outcome.moved or print(outcome.reason)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.builds.model import BuildRun, RunStatus


@dataclass(frozen=True, slots=True)
class BuildPolicy:
    """How long what is held is held.

    :param run_lease: a run that is not renewed for this long counts as left by its attempt.
    :param lock_lease: the same for a dataset's lock; so long a crash keeps others from it.
    :param heartbeat: how often a lease is renewed; never less than three times a lease.
    :param lock_wait: how long a publication or rollback waits for a dataset that somebody else holds.
    :param pointer_waits: before the second and third try to set the pointer.
    """

    run_lease: timedelta = timedelta(minutes=30)
    lock_lease: timedelta = timedelta(minutes=2)
    heartbeat: timedelta = timedelta(minutes=1)
    lock_wait: timedelta = timedelta(minutes=5)
    pointer_waits: tuple[timedelta, ...] = (timedelta(seconds=1), timedelta(seconds=2))


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run, held by the attempt that began or resumed it.

    :param url: the dataset's root.
    :param sequence: counts the dataset's runs; it decides between two runs of the same moment.
    :param attempt_id: the fence: every write about the run carries it.
    :param attempt: counts the attempts that had the run, from 1.
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


@dataclass(frozen=True, slots=True)
class BuildDataset:
    """A dataset as the registry knows it.

    :param publication: the number of the pointer as it was last set; ``None`` before the first.
    :param newest_as_of: the newest moment that was ever current; an older run is published into history only.
    :param held_by: who publishes, rolls back or cleans up right now.
    """

    dataset: str
    url: str
    created_at: datetime
    publication: int | None
    current_run: str | None
    moved_at: datetime | None
    newest_as_of: datetime | None
    held_by: str | None
    held_until: datetime | None


class PublicationKind(StrEnum):
    """Why the pointer was moved. ``REPAIR``: it stood on something that is not there, and went back to the current run."""

    PUBLISH = "publish"
    ROLLBACK = "rollback"
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Publication:
    """One move of the pointer.

    :param number: grows with each move, not always by one.
    :param previous: the manifest that readers fall back to.
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
    """How a publication or a rollback ended.

    :param moved: whether ``_CURRENT`` stands on this run now.
    :param publication: the pointer's number; ``None`` when it was not moved.
    :param reason: why it was not moved.
    :param recorded: ``False``: the run is served, but the registry could not be reached to note it; the next one who publishes or
        cleans up does so.
    """

    dataset: str
    run_id: str
    manifest: str
    moved: bool
    publication: int | None = None
    reason: str | None = None
    recorded: bool = True


def build_id(dataset: str, run_id: str) -> str:
    """The key of a run's row; neither name has a "/"."""
    return f"{dataset}/{run_id}"


def run_from(row: sa.Row[Any]) -> BuildRun:
    status = RunStatus(row.status)
    return BuildRun(
        dataset=row.dataset,
        run_id=row.run_id,
        as_of=row.as_of,
        sequence=row.sequence,
        status=status,
        holder=row.claimed_by,
        attempt_id=row.attempt_id,
        lease_until=row.visible_at if row.claimed_at is not None else None,
        started_at=row.started_at,
        finished_at=row.finished_at,
        num_shards=row.num_shards,
        rows=row.rows,
        bytes=row.bytes,
        error=row.error,
        losers_left=status is RunStatus.SUCCEEDED and row.cleanup_at is not None and row.deleted_at is None,
        deleted_at=row.deleted_at,
        owner=row.owner,
        manifest=row.manifest,
        checksum=row.checksum,
    )


def handle_from(row: sa.Row[Any], url: str) -> RunHandle:
    """The run of a row that this attempt holds."""
    return RunHandle(
        dataset=row.dataset,
        run_id=row.run_id,
        url=url,
        as_of=row.as_of,
        sequence=row.sequence,
        num_shards=row.num_shards,
        owner=row.owner,
        attempt_id=row.attempt_id,
        attempt=row.attempt_count,
        lease_until=row.visible_at,
    )


def dataset_from(row: sa.Row[Any]) -> BuildDataset:
    held = row.claimed_at is not None
    return BuildDataset(
        dataset=row.dataset,
        url=row.url,
        created_at=row.created_at,
        publication=row.publication,
        current_run=row.current_run,
        moved_at=row.moved_at,
        newest_as_of=row.newest_as_of,
        held_by=row.claimed_by if held else None,
        held_until=row.visible_at if held else None,
    )


def publication_from(row: sa.Row[Any]) -> Publication:
    return Publication(
        dataset=row.dataset,
        number=row.number,
        run_id=row.run_id,
        kind=PublicationKind(row.kind),
        manifest=row.manifest,
        checksum=row.checksum,
        previous=row.previous,
        previous_checksum=row.previous_checksum,
        at=row.at,
        by=row.by,
    )
