"""When a scheduler last worked on this store: the dispatcher's task, its trigger, or ``airflow snowpack scheduler``.

beat(store)                  # in the intake of events
last_beat(conn)              # for explanations
"""

from __future__ import annotations

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import scheduler_beats

BEAT = timedelta(seconds=30)
GONE_AFTER = timedelta(minutes=5)
"""The gap between two runs of the dispatcher DAG is shorter, also on a busy Airflow."""
NAME = "scheduler"


def beat(store: Store) -> None:
    """Record that a scheduler works. A round that follows another within :data:`BEAT` writes nothing."""
    now = store.clock()
    seen_at = store.read(last_beat)
    if seen_at is not None and seen_at > now - BEAT:  # also one from a host whose clock is ahead
        return
    insert = postgresql.insert if store.is_postgres else sqlite.insert
    statement = insert(scheduler_beats).values(name=NAME, seen_at=now)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"seen_at": now})
    store.transact(lambda conn: conn.execute(statement))


def last_beat(conn: sa.Connection) -> datetime | None:
    """Return when a scheduler last worked on this store; ``None`` for never."""
    seen_at: datetime | None = conn.execute(sa.select(scheduler_beats.c.seen_at).where(scheduler_beats.c.name == NAME)).scalar()
    return seen_at


def is_alive(seen_at: datetime | None, now: datetime) -> bool:
    """Whether a scheduler that worked then counts as running now."""
    return seen_at is not None and now - seen_at < GONE_AFTER
