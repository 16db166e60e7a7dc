"""Images as rows of the store, and rows as values."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.runners.images.model import (
    AttemptOutcome,
    Building,
    Failed,
    ImagePolicy,
    ImageRecord,
    ImageState,
    ImageWait,
    PastAttempt,
    Ready,
)
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget
from airflow_snowpack.store import Keyset, Leases, row_mapper, storable
from airflow_snowpack.store.retention import BEFORE, RetainedRows
from airflow_snowpack.store.tables.images import image_attempts, image_builds, image_waits

IMAGE, WAIT, ATTEMPT = image_builds.c, image_waits.c, image_attempts.c
IMAGES = Leases(image_builds, key=IMAGE.key, order=[IMAGE.requested_at])
NEWEST_FIRST = Keyset(IMAGE.requested_at, IMAGE.key, descending=True)
WITHOUT_LOG = [column for column in image_builds.columns if column.name != "log"]
KEY = sa.bindparam("b_key", type_=sa.Text)
STATES = sa.select(*WITHOUT_LOG)
STATE_BY_KEY = STATES.where(IMAGE.key == KEY)
NOT_ENDED = IMAGE.state.in_([sa.literal_column("'waiting'"), sa.literal_column("'building'")])
# A task may be recorded while the build ends, and the task that builds the image may have waited before.
WAITING = sa.and_(WAIT.key == IMAGE.key, NOT_ENDED, WAIT.task.is_distinct_from(IMAGE.claimed_by))
WAITING_TASKS = sa.select(sa.func.count()).select_from(image_waits).where(WAITING).scalar_subquery().label("waiting")
RECORDS = STATES.add_columns(WAITING_TASKS)
RECORD_BY_KEY = RECORDS.where(IMAGE.key == KEY)
WAITS = sa.select(WAIT.task, WAIT.since).where(WAITING, IMAGE.key == KEY).order_by(WAIT.since, WAIT.task)
END_WAITS = sa.delete(image_waits).where(WAIT.key == KEY)
ATTEMPTS = sa.select(image_attempts).where(ATTEMPT.key == KEY).order_by(ATTEMPT.started_at.desc(), ATTEMPT.number.desc())
LOG = sa.select(IMAGE.log).where(IMAGE.key == KEY)

KINDS = (
    RetainedRows(
        image_builds,
        age=IMAGE.used_at,
        order=(IMAGE.used_at, IMAGE.key),
        # The expired lease of a process that was killed.
        unneeded=sa.or_(IMAGE.state != sa.literal_column("'building'"), IMAGE.visible_at < BEFORE),
        at_least=timedelta(days=2),  # used_at is updated once a day
        belongings=(WAIT.key, ATTEMPT.key),
    ),
)
"""The record of an image that no task has used for long is deleted; a request builds the image again. The registry keeps it."""


def _if_claimed(column: str) -> Callable[[sa.Row[Any]], Any]:
    return lambda row: getattr(row, column) if row.claimed_at is not None else None


record_from = row_mapper(
    ImageRecord,
    {"state": ImageState, "build_args": tuple},
    commit="commit_hash",
    holder="claimed_by",
    lease_until=_if_claimed("visible_at"),
    available_at=lambda row: row.visible_at if row.state == ImageState.WAITING else None,
    attempts="attempt_count",
)

wait_from = row_mapper(ImageWait)
attempt_from = row_mapper(PastAttempt, {"outcome": AttemptOutcome})


def state_from(row: sa.Row[Any], now: datetime, policy: ImagePolicy) -> Ready | Building | Failed:
    """Return what a task needs to know about an image."""
    match ImageState(row.state):
        case ImageState.READY:
            return Ready(row.key, row.commit_hash, row.reference, row.digest)
        case ImageState.FAILED:
            retry_at = row.finished_at + policy.retry_failed_after
            return Failed(row.key, row.commit_hash, row.error, row.attempt_count, retry_at)
    since = row.claimed_at or row.requested_at
    is_free = row.visible_at <= now
    return Building(row.key, row.commit_hash, since, row.claimed_by, row.visible_at, is_free, row.attempt_count)


def requested(key: str, source: ImageBuild, revision: str, target: ImageTarget, now: datetime) -> dict[str, Any]:
    """Return the row of an image that no process builds yet."""
    return {
        "key": key,
        "remote": storable(source.remote),
        "revision": storable(revision),
        "commit_hash": source.revision,
        "dockerfile": storable(source.dockerfile),
        "build_args": sorted(source.build_args),
        "platform": target.platform,
        "place": target.place,
        "tag": target.tag(key),
        "requested_at": now,
        **unbuilt(now),
    }


def unbuilt(now: datetime) -> dict[str, Any]:
    """Return the columns of a row before its first attempt."""
    nothing = dict.fromkeys(("reference", "digest", "started_at", "finished_at", "error"))
    return {"state": ImageState.WAITING.value, "used_at": now, "log": "", "attempt_count": 0, **unclaimed(now), **nothing}


def unclaimed(visible_at: datetime) -> dict[str, Any]:
    """Return the columns that end a lease; the image can be claimed again from ``visible_at`` on."""
    return {"visible_at": visible_at, "claimed_at": None, "claimed_by": None, "attempt_id": None}
