"""The records of images, for processes that build none: a triggerer, the API and the pages.

    records = ImageRecords(store)
    records.get(key).state                   # ImageState.BUILDING
    records.forget(key, actor=Actor("vera", "page"))

They need neither a builder nor the connection of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.runners.images.errors import ImageBuildNotFound
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
from airflow_snowpack.store import Actor, Keyset, Leases, Store, row_mapper, storable, write_audit
from airflow_snowpack.store.paging import Page
from airflow_snowpack.store.retention import BEFORE, RetainedRows
from airflow_snowpack.store.tables.images import image_attempts, image_builds, image_waits

PAGE_SIZE = 100
WAITS_SHOWN = 20
ATTEMPTS_SHOWN = 20
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
DELETE = sa.delete(image_builds).where(IMAGE.key == KEY)
DELETE_ATTEMPTS = sa.delete(image_attempts).where(ATTEMPT.key == KEY)

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


class ImageRecords:
    """The records of images by their keys."""

    def __init__(self, store: Store, policy: ImagePolicy | None = None) -> None:
        self.store = store
        self.policy = policy or ImagePolicy()

    def states(self, keys: Collection[str]) -> dict[str, Ready | Building | Failed | None]:
        """Return the states of several images, in one statement; ``None`` for an unknown key."""
        now = self.store.clock()
        rows = self.store.all_by_key(STATES, IMAGE.key, keys)
        return {**dict.fromkeys(keys), **{row.key: state_from(row, now, self.policy) for row in rows}}

    def get(self, key: str) -> ImageRecord:
        """:raises ImageBuildNotFound: no image was requested under this key."""
        row = self.store.first(RECORD_BY_KEY, {"b_key": storable(key)})
        if row is None:
            raise ImageBuildNotFound(key)
        return record_from(row)

    def keys_beginning(self, beginning: str, *, limit: int = 10) -> Sequence[str]:
        """Return the full keys that begin with a short key."""
        return self.store.ids_beginning(IMAGE.key, beginning, limit)

    def list(self, *, limit: int = PAGE_SIZE, cursor: str | None = None, state: ImageState | None = None) -> Page[ImageRecord]:
        """List the images, the latest request first.

        :param cursor: ``next`` of the page before.
        :raises InvalidCursor: no page returned it.
        """
        query = RECORDS.where(*NEWEST_FIRST.beyond(cursor)).order_by(*NEWEST_FIRST.order()).limit(limit + 1)
        query = query if state is None else query.where(IMAGE.state == state.value)
        return NEWEST_FIRST.page(self.store.all(query), limit, record_from)

    def log(self, key: str) -> str:
        """Return the end of the log of the latest attempt that ended; empty if none did.

        :raises ImageBuildNotFound: no image was requested under this key.
        """
        row = self.store.first(LOG, {"b_key": storable(key)})
        if row is None:
            raise ImageBuildNotFound(key)
        return str(row.log)

    def waits(self, key: str, *, limit: int = WAITS_SHOWN) -> Sequence[ImageWait]:
        """Return the tasks that wait for an image, the first one first; none once its build has ended."""
        return [wait_from(row) for row in self.store.all(WAITS.limit(limit), {"b_key": storable(key)})]

    def attempts(self, key: str) -> Sequence[PastAttempt]:
        """Return the newest attempts to build an image, the latest first."""
        return [attempt_from(row) for row in self.store.all(ATTEMPTS.limit(ATTEMPTS_SHOWN), {"b_key": storable(key)})]

    def forget(self, key: str, *, actor: Actor | None = None) -> ImageRecord:
        """Delete the record of an image, so that its next request builds it again. A build in progress ends without a result.

        :param actor: recorded in the audit trail.
        :returns: the record as it was.
        :raises ImageBuildNotFound: no image was requested under this key.
        """
        values = {"b_key": storable(key)}

        def write(conn: sa.Connection) -> ImageRecord:
            row = conn.execute(RECORD_BY_KEY, values).first()
            # First: while this row is locked, no process adds rows that refer to it.
            if row is None or conn.execute(DELETE, values).rowcount == 0:
                raise ImageBuildNotFound(key)
            conn.execute(END_WAITS, values)
            conn.execute(DELETE_ATTEMPTS, values)
            write_audit(conn, self.store, actor, "forget_image", audit_subject(key), remote=row.remote, commit=row.commit_hash)
            return record_from(row)

        return self.store.transact(write)


def audit_subject(key: str) -> str:
    """Return the name of an image in the audit trail."""
    return f"image:{key}"
