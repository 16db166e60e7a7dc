"""How far the subscriber is behind the log of events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.scheduling.events.event_log import CURSOR
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import event_cursors, events


@dataclass(frozen=True, slots=True)
class Backlog:
    """The log at one moment.

    :param newest: the number of the newest event; it only ever grows.
    :param taken: the number up to which the subscriber has taken them.
    :param unread: how many events the subscriber has not taken, and ``oldest``: since when the oldest of them stands there.
    """

    newest: int
    taken: int
    unread: int
    oldest: datetime | None


def read_backlog(store: Store) -> Backlog:
    """What is unread, by the numbers that come after the cursor."""
    passed = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery()
    ahead = events.c.id > sa.func.coalesce(passed, 0)
    unread = sa.select(sa.func.count(), sa.func.min(events.c.recorded_at)).where(ahead).subquery()
    newest = sa.select(sa.func.max(events.c.id)).scalar_subquery()
    row = store.read(lambda conn: conn.execute(sa.select(newest, passed, unread)).one())
    return Backlog(row[0] or 0, row[1] or 0, row[2], row[3])
