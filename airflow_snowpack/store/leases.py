"""Lease and fence: one attempt at a time holds a row, in any table.

A claimable row has :func:`lease_columns`. A claim draws a new ``attempt_id``, the fence, and sets ``visible_at`` to the end of
the lease. Every later write of the holder names its fence in the WHERE clause, so a holder that was replaced, cancelled or swept
matches no row. **The fence moves on every claim, take-over and return**; no fence is used twice.

    leases = Leases(job_queue, key=job_queue.c.job_id, order=[job_queue.c.enqueued_at])
    row = conn.execute(leases.claim_next, leases.claim_values("worker-1", new_id(), now, now + lease)).first()
    alive = leases.renew(conn, key, attempt_id, until)

``FOR UPDATE SKIP LOCKED`` on Postgres keeps claimers from waiting for each other; ``BEGIN IMMEDIATE`` on SQLite (see
``opening.py``) makes them take turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.dialect import UtcDateTime

EVER = datetime(1970, 1, 1, tzinfo=UTC)
"""Earlier than every row of a queue."""

NOW = sa.bindparam("b_now", type_=UtcDateTime)
UNTIL = sa.bindparam("b_until", type_=UtcDateTime)
ATTEMPT_ID = sa.bindparam("b_attempt", type_=sa.Text)


def lease_columns() -> tuple[sa.Column[Any], ...]:
    """Return the columns that make a row claimable.

    ``visible_at``: from when the row may be claimed; once claimed, the end of the lease. ``claimed_at`` and ``claimed_by``: null
    while the row is not claimed. ``attempt_id``: the fence. ``attempt_count``: claims and take-overs so far.
    """
    return (
        sa.Column("visible_at", UtcDateTime, nullable=False),
        sa.Column("claimed_at", UtcDateTime),
        sa.Column("claimed_by", sa.Text),
        sa.Column("attempt_id", sa.Text),
        sa.Column("attempt_count", sa.Integer, nullable=False),
    )


@dataclass(frozen=True, slots=True)
class Expired:
    key: str
    attempt_id: str
    holder: str
    attempt: int


class Leases:
    """The lease-and-fence statements of one table.

    :param table: has :func:`lease_columns`.
    :param order: the order of claims; needs a partial index on these columns where ``claimed_at`` is null.
    :param group: a claim takes only rows with its value of this column, which then comes first in that index.
    :param returning: further columns that a claim returns.
    :param on_return: further columns that :meth:`give_back` sets.
    """

    def __init__(
        self,
        table: sa.Table,
        *,
        key: sa.Column[Any],
        order: Sequence[sa.ColumnElement[Any]],
        group: sa.Column[Any] | None = None,
        returning: Sequence[sa.Column[Any]] = (),
        on_return: Mapping[str, Any] | None = None,
    ) -> None:
        self.table = table
        self.key = key
        self._order = order
        row = table.c
        self._returning = (key, row.attempt_count, row.attempt_id, row.visible_at, *returning)
        self.by_key = key == sa.bindparam("b_key", type_=sa.Text)
        fenced = sa.and_(self.by_key, row.attempt_id == ATTEMPT_ID)
        mine = () if group is None else (group == sa.bindparam("b_group", type_=sa.Text),)
        self.claimable = sa.and_(*mine, row.claimed_at.is_(None), row.visible_at <= NOW)
        self.claim_next = self.claim_where(key == self.search())
        self.claim_key = self.claim_where(self.by_key, self.claimable)
        self.take_over = self.claim_where(self.by_key)
        self.release = sa.delete(table).where(fenced)
        self._renew = sa.update(table).where(fenced).values(visible_at=UNTIL)
        self._holds: sa.Select[Any] = sa.select(sa.literal_column("1")).where(fenced)
        unclaimed = {"claimed_at": sa.null(), "claimed_by": sa.null(), "attempt_id": sa.null()}
        self._return = sa.update(table).where(fenced).values(visible_at=UNTIL, **unclaimed, **(on_return or {}))
        self._expired = (
            sa.select(key.label("key"), row.attempt_id, row.claimed_by, row.attempt_count)
            .where(row.claimed_at.is_not(None), row.visible_at <= NOW)
            .order_by(row.visible_at)
            .limit(sa.bindparam("b_limit", type_=sa.Integer))
            .with_for_update(skip_locked=True)
        )

    def search(self, *where: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
        """Return a query for the key of the first claimable row that meets these conditions, in claim order."""
        due = sa.select(self.key).where(self.claimable, *where).order_by(*self._order)
        # A literal limit: with a bound one, Postgres would plan the statement again at every call.
        return due.limit(sa.literal_column("1")).with_for_update(skip_locked=True).scalar_subquery()

    def claim_where(self, *where: sa.ColumnElement[bool]) -> Any:
        """Return the statement that claims the row that meets these conditions; ``key == search(…)`` costs two index look-ups."""
        row = self.table.c
        return (
            sa.update(self.table)
            .where(*where)
            .values(
                claimed_at=NOW,
                claimed_by=sa.bindparam("b_holder", type_=sa.Text),
                attempt_id=ATTEMPT_ID,
                visible_at=UNTIL,
                attempt_count=row.attempt_count + sa.literal_column("1"),
            )
            .returning(*self._returning)
        )

    @staticmethod
    def claim_values(
        holder: str,
        attempt_id: str,
        now: datetime,
        until: datetime,
        *,
        key: str | None = None,
        group: str | None = None,
    ) -> dict[str, Any]:
        """Return the parameters of ``claim_next`` (no ``key``), ``claim_key`` and ``take_over``; the lease ends at ``until``."""
        values = {"b_holder": holder, "b_attempt": attempt_id, "b_now": now, "b_until": until}
        values = values if group is None else {**values, "b_group": group}
        return values if key is None else {**values, "b_key": key}

    def renew(self, conn: sa.Connection, key: str, attempt_id: str, until: datetime) -> bool:
        """Extend the lease; return ``False`` without a write if the fence has moved."""
        return conn.execute(self._renew, {"b_key": key, "b_attempt": attempt_id, "b_until": until}).rowcount == 1

    def holds(self, conn: sa.Connection, key: str, attempt_id: str) -> bool:
        """Return whether the fence is unchanged, without a write."""
        return conn.execute(self._holds, {"b_key": key, "b_attempt": attempt_id}).first() is not None

    def give_back(self, conn: sa.Connection, key: str, attempt_id: str, visible_at: datetime) -> bool:
        """Return the row to the queue, visible from ``visible_at`` on. The fence moves, so the old holder matches nothing."""
        return conn.execute(self._return, {"b_key": key, "b_attempt": attempt_id, "b_until": visible_at}).rowcount == 1

    def expired(self, conn: sa.Connection, now: datetime, limit: int = 100) -> list[Expired]:
        """Return rows whose lease has expired, locked for this transaction; rows locked by another sweep are skipped."""
        rows = conn.execute(self._expired, {"b_now": now, "b_limit": limit})
        return [Expired(row.key, row.attempt_id, row.claimed_by, row.attempt_count) for row in rows]
