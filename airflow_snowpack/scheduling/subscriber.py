"""The subscriber: matches events to schedules and hands them to their pending jobs.

    Subscriber(store).step()     # how many events it took; 0 when there is nothing to do

The invariant: **an event counts exactly once for every trigger that listens to it.** Matching a batch, handing it to
pending jobs and moving the cursor is one transaction; whoever holds the cursor is the only one at it, and any number of
processes may try.

A pending job is locked before it gets an event, so that the checker cannot send it off in between: one that was sent
off takes no more, and the event begins a new one.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.pending import PendingState, is_open
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import (
    event_cursors,
    events,
    pending_events,
    pending_jobs,
    schedule_triggers,
    schedules,
)

BATCH = 10_000
CURSOR = "subscriber"

first, last = sa.bindparam("b_first", type_=sa.BigInteger), sa.bindparam("b_last", type_=sa.BigInteger)
in_batch = sa.and_(events.c.id > first, events.c.id <= last)
# By number what was recorded before does not count, and by its moment what happened before and was found out later.
listens = sa.and_(
    schedule_triggers.c.event_key == events.c.key,
    events.c.id > schedule_triggers.c.counts_after,
    events.c.at >= schedule_triggers.c.counts_from,
)
same_schedule = sa.and_(
    pending_jobs.c.schedule == schedule_triggers.c.schedule,
    pending_jobs.c.generation == schedule_triggers.c.generation,
)

MATCHED = (
    sa.select(schedule_triggers.c.schedule, schedule_triggers.c.generation)
    .select_from(events)
    .join(schedule_triggers, listens)
    .where(in_batch)
    .distinct()
    .cte("matched")
)
# In one order for everybody, so that no two that lock several can wait for each other.
LOCK_OPEN = (
    sa.select(pending_jobs.c.pending_id)
    .where(is_open, sa.tuple_(pending_jobs.c.schedule, pending_jobs.c.generation).in_(sa.select(MATCHED)))
    .order_by(pending_jobs.c.pending_id)
    .with_for_update()
)
WITHOUT_PENDING = (
    sa.select(MATCHED.c.schedule, MATCHED.c.generation, schedules.c.dag_id, schedules.c.definition)
    .join(schedules, sa.and_(schedules.c.name == MATCHED.c.schedule, schedules.c.generation == MATCHED.c.generation))
    .where(
        ~sa.exists().where(
            is_open,
            pending_jobs.c.schedule == MATCHED.c.schedule,
            pending_jobs.c.generation == MATCHED.c.generation,
        )
    )
    .order_by(MATCHED.c.schedule)
)
HAND_OVER = sa.insert(pending_events).from_select(
    ["pending_id", "event_id", "leaf"],
    sa.select(pending_jobs.c.pending_id, events.c.id, schedule_triggers.c.leaf)
    .select_from(events)
    .join(schedule_triggers, listens)
    .join(pending_jobs, sa.and_(same_schedule, is_open))
    .where(in_batch),
)
# Not those that wait for constraints: their trigger is satisfied, and more events change nothing about when they may start.
WAKE = (
    sa.update(pending_jobs)
    .where(
        pending_jobs.c.state == PendingState.TRIGGER.value,
        # Not those that are due anyway, such as those begun a moment ago: to write them again costs more than all the rest.
        sa.or_(pending_jobs.c.next_check_at.is_(None), pending_jobs.c.next_check_at > sa.bindparam("b_now")),
        sa.tuple_(pending_jobs.c.schedule, pending_jobs.c.generation).in_(sa.select(MATCHED)),
    )
    .values(next_check_at=sa.bindparam("b_now", type_=pending_jobs.c.next_check_at.type))
)


class Subscriber:
    """Takes events in the order of their numbers."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self, limit: int = BATCH) -> int:
        """One batch.

        :returns: how many events it took; 0 when there was none, or another process is at it.
        """
        return self._store.transact(lambda conn: self._take(conn, limit))

    def _take(self, conn: sa.Connection, limit: int) -> int:
        position = self._cursor(conn)
        if position is None:
            return 0
        ahead = sa.select(events.c.id).where(events.c.id > position).order_by(events.c.id).limit(limit).subquery()
        taken, upto = conn.execute(sa.select(sa.func.count(), sa.func.max(ahead.c.id))).one()
        if not taken:
            return 0
        batch = {"b_first": position, "b_last": upto, "b_now": self._store.clock()}
        conn.execute(LOCK_OPEN, batch).all()
        self._begin_missing(conn, batch)
        conn.execute(HAND_OVER, batch)
        conn.execute(WAKE, batch)
        conn.execute(sa.update(event_cursors).where(event_cursors.c.name == CURSOR).values(position=upto))
        return int(taken)

    def _cursor(self, conn: sa.Connection) -> int | None:
        """Where the last batch ended, held for this transaction; ``None`` when somebody else holds it."""
        query = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR)
        position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        if position is None and conn.execute(query).first() is None:
            insert = postgresql.insert if self._store.is_postgres else sqlite.insert
            conn.execute(insert(event_cursors).values(name=CURSOR, position=0).on_conflict_do_nothing())
            position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        return position

    def _begin_missing(self, conn: sa.Connection, batch: dict[str, object]) -> None:
        """A pending job for each schedule that has none open."""
        now = self._store.clock()
        new = "replace(gen_random_uuid()::text, '-', '')" if self._store.is_postgres else "lower(hex(randomblob(16)))"
        fields = {
            "pending_id": sa.literal_column(new),
            "schedule": WITHOUT_PENDING.selected_columns.schedule,
            "generation": WITHOUT_PENDING.selected_columns.generation,
            "dag_id": WITHOUT_PENDING.selected_columns.dag_id,
            "state": sa.literal(PendingState.TRIGGER.value),
            "priority": schedules.c.definition["priority"].as_integer(),
            "created_at": sa.literal(now, pending_jobs.c.created_at.type),
            "next_check_at": sa.literal(now, pending_jobs.c.created_at.type),
            "counted_to": sa.literal(0),
            "progress": sa.literal({}, sa.JSON),
            "reasons": sa.literal([], sa.JSON),
        }
        conn.execute(
            sa.insert(pending_jobs).from_select(list(fields), WITHOUT_PENDING.with_only_columns(*fields.values())), batch
        )
