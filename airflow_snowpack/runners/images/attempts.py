"""One attempt to build an image: claimed under the lease, and recorded under its fence.

    attempt = attempts.claim(key, "dag/run/task")        # None: another process has it, or it is not to be built now
    attempts.renew(attempt)                              # False: the fence has moved
    attempts.succeed(attempt, reference, digest, log)    # False: the fence has moved
    attempts.keep_unpushed(attempt, image_id, error, log)

The invariant: of all attempts at an image, only the one whose fence is in the row changes the row. A result of any other is
refused and logged as ``writeback_stale_attempt``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.runners.images.model import AttemptOutcome, ImagePolicy, ImageState
from airflow_snowpack.runners.images.records import ATTEMPT, ATTEMPTS, END_WAITS, IMAGE, IMAGES, KEY, unclaimed
from airflow_snowpack.store import IdMaker, Store, repeatable, storable
from airflow_snowpack.store.leases import NOW
from airflow_snowpack.store.tables.images import image_attempts, image_builds

log = logging.getLogger(__name__)

MAX_BACKOFF = timedelta(days=1)
ATTEMPTS_KEPT = 20
LOSE_RUNNING = (
    sa.update(image_attempts)
    .where(ATTEMPT.key == KEY, ATTEMPT.outcome == AttemptOutcome.RUNNING.value)
    .values(outcome=AttemptOutcome.LOST.value, ended_at=NOW)
)
NEWEST = ATTEMPTS.with_only_columns(ATTEMPT.attempt_id).limit(ATTEMPTS_KEPT)
DELETE_OLDEST = sa.delete(image_attempts).where(ATTEMPT.key == KEY, ATTEMPT.attempt_id.not_in(NEWEST))
LEASED: sa.Select[Any] = sa.select(
    IMAGE.state, IMAGE.visible_at, IMAGE.claimed_at, IMAGE.claimed_by, IMAGE.attempt_id, IMAGE.attempt_count, IMAGE.digest
)
UNPUSHED = (
    sa.select(sa.func.count())
    .select_from(image_attempts)
    .where(ATTEMPT.key == KEY, ATTEMPT.outcome == AttemptOutcome.UNPUSHED.value)
)


@dataclass(frozen=True, slots=True)
class ImageAttempt:
    """An attempt that has the lease.

    :param attempt_id: the fence, which every write carries.
    :param number: from 1.
    :param image_id: of the image that an earlier attempt built on its host, but could not push.
    """

    key: str
    attempt_id: str
    number: int
    image_id: str | None = None

    def __str__(self) -> str:
        return f"the image {self.key[:12]}, attempt {self.attempt_id}"


class ImageAttempts:
    """Claims images and records how the attempts end."""

    def __init__(self, store: Store, policy: ImagePolicy, make_id: IdMaker) -> None:
        self._store = store
        self._policy = policy
        self._make_id = make_id

    def claim(self, key: str, holder: str, *, is_task: bool) -> ImageAttempt | None:
        """Claim an image that waits, whose lease has expired, or that an earlier try of the same task instance builds.

        :param is_task: ``holder`` names a task instance, of which only the latest try counts.
        :returns: ``None`` if it must not be built now, or not any more.
        """
        now, attempt_id, holder = self._store.clock(), self._make_id(), storable(holder)
        values = IMAGES.claim_values(holder, attempt_id, now, now + self._policy.lease, key=key)
        begun = {"state": ImageState.BUILDING.value, "started_at": now, "used_at": now}

        def take(conn: sa.Connection) -> ImageAttempt | None:
            row = conn.execute(LEASED.where(IMAGE.key == key).with_for_update()).first()
            if row is None or row.state in (ImageState.READY, ImageState.FAILED):
                return None
            is_own = is_task and row.claimed_by == holder
            if row.visible_at > now and not is_own:
                return None
            if row.attempt_count >= self._policy.max_attempts:
                self._give_up(conn, key, row, now)
                return None
            claimed = conn.execute(IMAGES.take_over, values).one()
            lost = {} if row.claimed_at is None else {"error": _loss(row, now)}
            conn.execute(sa.update(image_builds).where(IMAGE.key == key).values(**begun, **lost))
            self._enter(conn, key, attempt_id, claimed.attempt_count, holder, now)
            return ImageAttempt(key, attempt_id, claimed.attempt_count, row.digest)

        def taken(conn: sa.Connection) -> ImageAttempt | None:
            row = conn.execute(LEASED.where(IMAGE.key == key, IMAGE.attempt_id == attempt_id)).first()
            return None if row is None else ImageAttempt(key, attempt_id, row.attempt_count, row.digest)

        return self._store.transact(repeatable(take, taken))

    def _enter(self, conn: sa.Connection, key: str, attempt_id: str, number: int, holder: str, now: datetime) -> None:
        """Record an attempt for people, replacing the oldest if there are many."""
        conn.execute(LOSE_RUNNING, {"b_key": key, "b_now": now})
        row = {"attempt_id": attempt_id, "key": key, "number": number, "holder": holder, "started_at": now}
        conn.execute(sa.insert(image_attempts).values(**row, outcome=AttemptOutcome.RUNNING.value))
        conn.execute(DELETE_OLDEST, {"b_key": key})

    def _give_up(self, conn: sa.Connection, key: str, row: sa.Row[Any], now: datetime) -> None:
        """Fail an image whose last attempt was lost."""
        values = {"state": ImageState.FAILED.value, "finished_at": now, "error": _loss(row, now), **unclaimed(now)}
        conn.execute(sa.update(image_builds).where(IMAGE.key == key).values(values))
        conn.execute(END_WAITS, {"b_key": key})
        conn.execute(LOSE_RUNNING, {"b_key": key, "b_now": now})

    def renew(self, attempt: ImageAttempt) -> bool:
        """Renew the lease; ``False`` if the fence has moved: the build must stop."""
        until = self._store.clock() + self._policy.lease
        return self._store.transact(lambda conn: IMAGES.renew(conn, attempt.key, attempt.attempt_id, until))

    def succeed(self, attempt: ImageAttempt, reference: str, digest: str, text: str) -> bool:
        """Record the image; ``False`` if the fence has moved: nothing was written."""
        now = self._store.clock()
        values = {"state": ImageState.READY.value, "reference": reference, "digest": digest, "error": None, "used_at": now}
        ended = {**values, "finished_at": now, "log": storable(text), **unclaimed(now)}
        return self._end(attempt, AttemptOutcome.SUCCEEDED, ended)

    def fail(self, attempt: ImageAttempt, error: str, text: str, *, is_final: bool) -> bool:
        """Record a failure: the image waits for its next attempt, or has failed if this was the last one or ``is_final``."""
        now = self._store.clock()
        is_last = is_final or attempt.number >= self._policy.max_attempts
        state = ImageState.FAILED if is_last else ImageState.WAITING
        values = {"state": state.value, "finished_at": now, "error": storable(error), "log": storable(text), "digest": None}
        ended = {**values, **unclaimed(now if is_last else now + backoff(self._policy.retry_base, attempt.number, MAX_BACKOFF))}
        return self._end(attempt, AttemptOutcome.FAILED, ended)

    def keep_unpushed(self, attempt: ImageAttempt, image_id: str, error: str, text: str) -> bool:
        """Record an image that the registry did not accept: its push is retried. The attempt does not count.

        The period between two pushes doubles each time, like that between two attempts.
        """
        now, before = self._store.clock(), self._store.first(UNPUSHED, {"b_key": attempt.key})
        again = now + backoff(self._policy.retry_base, 1 if before is None else before[0] + 1, MAX_BACKOFF)
        values = {"state": ImageState.WAITING.value, "attempt_count": IMAGE.attempt_count - 1, "digest": image_id}
        ended = {"finished_at": now, "error": storable(error), "log": storable(text), **unclaimed(again)}
        return self._end(attempt, AttemptOutcome.UNPUSHED, values | ended)

    def give_back(self, attempt: ImageAttempt) -> bool:
        """Return an image whose build was stopped to the queue. The attempt does not count."""
        values = {"state": ImageState.WAITING.value, "attempt_count": IMAGE.attempt_count - 1}
        return self._end(attempt, AttemptOutcome.STOPPED, {**values, **unclaimed(self._store.clock())})

    def _end(self, attempt: ImageAttempt, outcome: AttemptOutcome, values: dict[str, Any]) -> bool:
        now = self._store.clock()
        fenced = sa.and_(IMAGE.key == attempt.key, IMAGE.attempt_id == attempt.attempt_id)
        end = sa.update(image_builds).where(fenced).values(values)
        ended_at = values.get("finished_at")
        done = sa.select(IMAGE.key).where(IMAGE.key == attempt.key, IMAGE.state == values["state"], IMAGE.finished_at == ended_at)

        def write(conn: sa.Connection) -> bool:
            is_ended = conn.execute(end).rowcount == 1
            if is_ended:
                past = {"ended_at": now, "outcome": outcome.value, "error": values.get("error")}
                conn.execute(sa.update(image_attempts).where(ATTEMPT.attempt_id == attempt.attempt_id).values(past))
            if is_ended and values["state"] != ImageState.WAITING.value:
                conn.execute(END_WAITS, {"b_key": attempt.key})
            return is_ended

        step = repeatable(write, lambda conn: ended_at is not None and conn.execute(done).first() is not None)
        is_ended = self._store.transact(step)
        if not is_ended:
            log.warning("writeback_stale_attempt: %s", attempt)
        return is_ended


def _loss(row: sa.Row[Any], now: datetime) -> str:
    """Return why the attempt that had the lease is lost."""
    if row.visible_at > now:
        return f"The last attempt, by an earlier try of {row.claimed_by}, did not end."
    return f"The lease of the last attempt, by {row.claimed_by}, expired at {row.visible_at:%Y-%m-%d %H:%M} UTC."
