"""The subscriber: matches events to schedules and hands them to their pending jobs.

    Subscriber(store).step()     # how many events it took; 0 when there is nothing to do

The invariant: **an event counts exactly once for every trigger that listens to it.** Matching a batch, handing it to
pending jobs and moving the cursor is one transaction; whoever holds the cursor is the only one at it, and any number of
processes may try.

A pending job is locked before it gets an event, so that the checker cannot send it off in between: one that was sent
off takes no more, and the event begins a new one. The SQL stands in ``matching.py``.
"""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.matching import Batch, Overtaken, look_ahead, take
from airflow_snowpack.store import Store, new_id
from airflow_snowpack.store.schedule_tables import event_cursors

BATCH = 10_000
CURSOR = "subscriber"


class Subscriber:
    """Takes events in the order of their numbers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self, limit: int = BATCH) -> int:
        """One batch.

        :returns: how many events it took; 0 when there was none, or another process is at it.
        """
        hold_first = False
        while True:
            try:
                return self._store.transact(partial(self._take, limit=limit, hold_first=hold_first))
            except Overtaken:  # with the jobs held, only by a second skip of a job that a first one left in between
                hold_first = True

    def _take(self, conn: sa.Connection, *, limit: int, hold_first: bool) -> int:
        position = self._cursor(conn)
        if position is None:
            return 0
        ahead = look_ahead(conn, position, most=limit)
        if ahead.upto is None:
            return 0
        take(conn, Batch(new_id(), position, ahead.upto, self._store.clock()), hold_first=hold_first)
        conn.execute(sa.update(event_cursors).where(event_cursors.c.name == CURSOR).values(position=ahead.upto))
        return ahead.number

    def _cursor(self, conn: sa.Connection) -> int | None:
        """Where the last batch ended, held for this transaction; ``None`` when somebody else holds it."""
        query = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR)
        position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        if position is None and conn.execute(query).first() is None:
            insert = postgresql.insert if self._store.is_postgres else sqlite.insert
            conn.execute(insert(event_cursors).values(name=CURSOR, position=0).on_conflict_do_nothing())
            position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        return position
