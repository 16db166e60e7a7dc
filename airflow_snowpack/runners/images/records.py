"""The records of images, for processes that build none: a triggerer, the API and the pages.

    records = ImageRecords(store)
    records.get(key).state                   # ImageState.BUILDING
    records.forget(key, actor=Actor("vera", "page"))

They need neither a builder nor the connection of the registry.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from airflow_snowpack.runners.images.errors import ImageBuildNotFound
from airflow_snowpack.runners.images.model import (
    Building,
    Failed,
    ImagePolicy,
    ImageRecord,
    ImageState,
    ImageWait,
    PastAttempt,
    Ready,
)
from airflow_snowpack.runners.images.rows import (
    ATTEMPT,
    ATTEMPTS,
    END_WAITS,
    IMAGE,
    KEY,
    LOG,
    NEWEST_FIRST,
    RECORD_BY_KEY,
    RECORDS,
    STATES,
    WAITS,
    attempt_from,
    record_from,
    state_from,
    wait_from,
)
from airflow_snowpack.store import Actor, Store, storable, write_audit
from airflow_snowpack.store.paging import Page
from airflow_snowpack.store.tables.images import image_attempts, image_builds

PAGE_SIZE = 100
WAITS_SHOWN = 20
ATTEMPTS_SHOWN = 20
DELETE = sa.delete(image_builds).where(IMAGE.key == KEY)
DELETE_ATTEMPTS = sa.delete(image_attempts).where(ATTEMPT.key == KEY)


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
