"""What was found, sent and resolved, in the store.

    records = Notifications(store)
    records.record(find_causes(store))            # opens, continues and resolves causes, in one transaction
    records.read(since=yesterday); records.undelivered()

The invariants: a cause is unsent until a receiver has accepted a message that names it, also if it was resolved in between. One
attempt at a time sends to a receiver: each draws a new fence, and only the newest attempt records its outcome.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from airflow_snowpack.backoff import backoff
from airflow_snowpack.notifications.causes import CauseKind, NotificationCause
from airflow_snowpack.store import IdMaker, Store, insert, new_id, row_mapper, storable, storable_error
from airflow_snowpack.store.retention import RetainedRows
from airflow_snowpack.store.tables.notifications import notification_receivers, notifications

DEFAULT = "*"
"""The receiver of causes without an owner, or whose owner has no receiver."""
LEASE = timedelta(minutes=5)
"""The next attempt at a receiver waits this long, also if the process was killed; far longer than an attempt may take."""
LONGEST_PAUSE = timedelta(hours=1)
QUIET = timedelta(minutes=15)
"""The time between two messages to a receiver: what an outage adds meanwhile is one message."""
UNDELIVERED_AFTER = 3
"""From so many failed attempts in a row a receiver is reported."""
FLAPS_WITHIN = timedelta(hours=1)
"""A cause that comes back so soon after it was resolved continues: flapping is one message, and part of the digest."""
FORGOTTEN_AFTER = timedelta(days=1)
"""A receiver that was not tried for so long is no longer in use."""

N, R = notifications.c, notification_receivers.c
CONTINUE = (
    sa.update(notifications)
    .where(N.cause_key == sa.bindparam("b_key"), N.resolved_at.is_(None))
    .values(last_seen_at=sa.bindparam("b_now"))
)
KINDS = (
    RetainedRows(
        notifications,
        age=N.last_seen_at,
        order=(N.last_seen_at, N.cause_key),
        unneeded=sa.and_(N.resolved_at.is_not(None), N.notified_at.is_not(None)),
    ),
)
"""Resolved causes are deleted when they are old."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A cause on record.

    :param notified_at: when a receiver accepted it; ``None`` for not yet.
    :param resolved_at: when it was first not found any more; ``None`` while it lasts.
    """

    cause_key: str
    kind: CauseKind
    owner: str
    sentence: str
    path: str
    notified_at: datetime | None
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Receiver:
    """The state of a receiver.

    :param receiver: an owner, or :data:`DEFAULT`.
    :param attempts: how many attempts in a row failed.
    :param next_attempt_at: nothing is sent before.
    :param digest_at: the end of the period of its last digest.
    :param problem: why the last attempt failed.
    """

    receiver: str
    attempts: int
    next_attempt_at: datetime
    digest_at: datetime
    problem: str | None


_notification = row_mapper(Notification, {"kind": CauseKind})
_receiver = row_mapper(Receiver)


class Notifications:
    """The notifications of a store; ``make_id`` makes the fences."""

    def __init__(self, store: Store, make_id: IdMaker = new_id) -> None:
        self.store = store
        self._make_id = make_id

    def record(self, causes: Iterable[NotificationCause]) -> None:
        """Record all causes that there are now; an open one that is not among them is resolved."""
        now, found = self.store.clock(), {cause.key: cause for cause in causes}
        # In a fixed order, so that concurrent rounds cannot deadlock.
        rows = [_row(found[key], now) for key in sorted(found) if found[key].opens]
        kept = [{"b_key": key, "b_now": now} for key in sorted(found) if not found[key].opens]
        resolved = sa.update(notifications).where(N.resolved_at.is_(None), N.last_seen_at < now).values(resolved_at=now)

        def write(conn: sa.Connection) -> None:
            for statement, values in ((_recorded(now), rows), (CONTINUE, kept)):
                if values:
                    conn.execute(statement, values)
            conn.execute(resolved)

        self.store.transact(write)

    def read(self, *, since: datetime | None = None) -> list[Notification]:
        """Return the causes that no receiver has accepted yet, oldest first.

        :param since: return also those that are open, or were resolved since then.
        """
        which = [N.notified_at.is_(None), *(() if since is None else (N.resolved_at.is_(None), N.resolved_at > since))]
        query = sa.select(notifications).where(sa.or_(*which)).order_by(N.first_seen_at, N.cause_key)
        return [_notification(row) for row in self.store.all(query)]

    def receivers(self, names: Collection[str]) -> list[Receiver]:
        """Return the states of these receivers; a new one has its first digest at the next time for one."""
        now = self.store.clock()
        new = [{"receiver": name, "attempt_id": "", "attempts": 0, "next_attempt_at": now, "digest_at": now} for name in names]
        self.store.execute(insert(notification_receivers).on_conflict_do_nothing(), new)
        rows = self.store.all(sa.select(notification_receivers).where(R.receiver.in_(names)).order_by(R.receiver))
        return [_receiver(row) for row in rows]

    def claim(self, name: str) -> tuple[str, int] | None:
        """Begin an attempt at a receiver: return its fence and its number; ``None``: another process has begun one."""
        now, fence = self.store.clock(), self._make_id()
        mine = sa.update(notification_receivers).where(R.receiver == name, R.next_attempt_at <= now).returning(R.attempts)
        row = self.store.first(mine.values(attempt_id=fence, attempts=R.attempts + 1, next_attempt_at=now + LEASE))
        return None if row is None else (fence, row.attempts)

    def delivered(self, name: str, fence: str, sent: Collection[Notification], digest_at: datetime | None = None) -> bool:
        """Record that a receiver has accepted these causes; ``False``, and nothing, if a newer attempt runs.

        :param digest_at: the end of the period of the accepted digest; ``None`` if there was none.
        """
        now = self.store.clock()
        ended = {} if digest_at is None else {"digest_at": digest_at}
        mine = sa.update(notification_receivers).where(R.receiver == name, R.attempt_id == fence)
        mine = mine.values(attempts=0, next_attempt_at=now + QUIET, problem=None, **ended)
        accepted = sa.update(notifications).where(N.cause_key == sa.bindparam("b_key")).values(notified_at=now)

        def write(conn: sa.Connection) -> bool:
            is_mine = conn.execute(mine).rowcount == 1
            if is_mine and sent:
                conn.execute(accepted, [{"b_key": key} for key in sorted(each.cause_key for each in sent)])
            return is_mine

        return self.store.transact(write)

    def failed(self, name: str, fence: str, number: int, problem: str) -> None:
        """Record that an attempt failed; the pause before the next one doubles, up to :data:`LONGEST_PAUSE`."""
        again = self.store.clock() + backoff(LEASE, number - 1, LONGEST_PAUSE)
        mine = sa.update(notification_receivers).where(R.receiver == name, R.attempt_id == fence)
        self.store.execute(mine.values(next_attempt_at=again, problem=storable_error(problem)))

    def skip_digest(self, name: str) -> None:
        """Begin the next period of a receiver whose digest would be empty."""
        mine = sa.update(notification_receivers).where(R.receiver == name)
        self.store.execute(mine.values(digest_at=self.store.clock()))

    def undelivered(self) -> list[Receiver]:
        """Return the receivers that have failed again and again; what they have to receive is sent in a later round."""
        used = R.next_attempt_at > self.store.clock() - FORGOTTEN_AFTER
        failing = sa.select(notification_receivers).where(R.attempts >= UNDELIVERED_AFTER, used)
        return [_receiver(row) for row in self.store.all(failing.order_by(R.receiver))]


def _recorded(now: datetime) -> sa.Executable:
    """Return the statement that records causes: one that comes back is unsent again, and one never sent keeps its beginning."""
    found, comes_back = insert(notifications), N.resolved_at <= now - FLAPS_WITHIN
    begins = sa.and_(comes_back, N.notified_at.is_not(None))
    return found.on_conflict_do_update(
        index_elements=[N.cause_key],
        set_={
            **{name: found.excluded[name] for name in ("owner", "sentence", "path", "last_seen_at")},
            "first_seen_at": sa.case((begins, found.excluded.first_seen_at), else_=N.first_seen_at),
            "notified_at": sa.case((comes_back, sa.null()), else_=N.notified_at),
            "resolved_at": None,
        },
    )


def _row(cause: NotificationCause, now: datetime) -> dict[str, object]:
    return {
        "cause_key": cause.key,
        "kind": cause.kind.value,
        "owner": storable(cause.owner),
        "sentence": storable_error(cause.sentence),
        "path": storable(cause.path),
        "first_seen_at": now,
        "last_seen_at": now,
    }
