"""The half of a round that needs no Airflow: ticks and events are taken in, and triggers that still wait are counted.

    intake = Intake(store)
    intake.step()
    if work_is_due(store): ...     # now somebody who can ask Airflow, and start runs, has something to do

A table that gets a commit each second moves a counter here, and nobody has to be woken for it before its trigger is satisfied.
The invariant: a pending job is changed here only as the checker would change it, so that both may run side by side.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.scheduling.clock_recovery import recover_from_set_back
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.events.clocks import Clocks
from airflow_snowpack.scheduling.events.counting import count_each
from airflow_snowpack.scheduling.events.event_log import CURSOR
from airflow_snowpack.scheduling.events.matching import Batch, Overtaken, look_ahead, take
from airflow_snowpack.scheduling.pending_runs.model import PendingState, Reason, is_open, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store, new_id
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.schedules import event_cursors, events, launches, pending_jobs, schedules

RECOVER_EVERY = timedelta(minutes=10)
"""Beside a host whose clock stays ahead, the clock of every other one looks as if it had been set back, in each round."""
BATCH = 10_000
AT_ONCE = 500
A_TRANSACTION = 100
"""So many jobs are held together at most: who wants one of them waits until all are written."""

COUNTED = (
    sa.update(pending_jobs)
    .where(pending_jobs.c.pending_id == sa.bindparam("b_job"))
    .values({name: sa.bindparam(name) for name in ("reasons", "next_check_at", "counted_to", "progress")} | {"waits_for": None})
)


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


class Intake:
    """Takes in what has happened.

    :param sign: the sign of life of the scheduler that this is a part of; ``None``: of this process.
    """

    def __init__(self, store: Store, sign: SignOfLife | None = None) -> None:
        self._store = store
        self._sign = sign or SignOfLife(store, Role.SCHEDULER)
        self._clocks = Clocks(store)
        self._subscriber = Subscriber(store)
        self._recover_from = -math.inf

    def step(self) -> int:
        """One round.

        :returns: how many events were handed to pending jobs.
        """
        if time.monotonic() >= self._recover_from and recover_from_set_back(self._store):
            self._recover_from = time.monotonic() + RECOVER_EVERY.total_seconds()
        self._clocks.step()
        taken = 0
        while self._has_unread() and (batch := self._subscriber.step()):
            taken += batch
            if batch < BATCH:
                break
        self._count_waiting()
        self._sign.beat()
        return taken

    def _has_unread(self) -> bool:
        """A look that writes nothing: most rounds end here."""
        position = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR).scalar_subquery()
        unread = sa.select(events.c.id).where(events.c.id > sa.func.coalesce(position, 0)).limit(1)
        return self._store.read(lambda conn: conn.execute(unread).first()) is not None

    def _count_waiting(self) -> None:
        due = (
            sa.select(pending_jobs.c.pending_id)
            .where(pending_jobs.c.state == PendingState.TRIGGER.value, is_open)
            .where(pending_jobs.c.next_check_at <= self._store.clock())
            .order_by(pending_jobs.c.priority.desc(), pending_jobs.c.next_check_at, pending_jobs.c.pending_id)
            .limit(AT_ONCE)
        )
        found = self._store.read(lambda conn: conn.execute(due).scalars().all())
        for start in range(0, len(found), A_TRANSACTION):
            some = found[start : start + A_TRANSACTION]
            self._store.transact(lambda conn, some=some: self._count(conn, some))  # type: ignore[misc]  # mypy takes the default for an argument

    def _count(self, conn: sa.Connection, pending_ids: Sequence[str]) -> None:
        """Write down how far their triggers are. One that is satisfied is left as it is: due, and the checker's."""
        now = self._store.clock()
        held = (
            sa.select(pending_jobs)
            .where(pending_jobs.c.pending_id.in_(pending_ids), pending_jobs.c.state == PendingState.TRIGGER.value)
            .where(pending_jobs.c.next_check_at <= now)
            .order_by(pending_jobs.c.schedule, pending_jobs.c.generation)  # in one order for everybody
            .with_for_update(skip_locked=True)
        )
        readable = self._with_schedules(conn, conn.execute(held).all())
        changes = []
        for (row, schedule), counted in zip(readable, count_each(conn, readable), strict=True):
            judgement = schedule.trigger.evaluate(counted.progress, now)
            if not judgement.satisfied:
                reasons = reasons_to_json((Reason("trigger", judgement.says, met=False, not_before=judgement.next_at),))
                changes.append(
                    {"b_job": row.pending_id, "reasons": reasons, "next_check_at": judgement.next_at, **counted.to_row()}
                )
        if changes:
            conn.execute(COUNTED, changes)

    def _with_schedules(self, conn: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[tuple[sa.Row[Any], Schedule]]:
        """Without those whose schedule has changed or cannot be read: what becomes of them then is the checker's to say."""
        query = sa.select(schedules.c.name, schedules.c.generation, schedules.c.definition)
        query = query.where(schedules.c.name.in_([row.schedule for row in rows]))
        definitions = {(one.name, one.generation): one.definition for one in conn.execute(query)}
        current = [(row, definition) for row in rows if (definition := definitions.get((row.schedule, row.generation)))]
        return [(row, schedule) for row, definition in current if (schedule := _readable(definition)) is not None]


def _readable(definition: object) -> Schedule | None:
    try:
        return Schedule.from_json(definition)
    except InvalidSchedule:
        return None


def work_is_due(store: Store) -> bool:
    """Whether the checker or the launcher has something to do now. Two index look-ups, however much waits."""
    now = store.clock()
    to_check = sa.select(sa.literal(1)).where(pending_jobs.c.next_check_at <= now, is_open).limit(1)
    to_launch = sa.select(sa.literal(1)).where(launches.c.visible_at <= now).limit(1)
    return store.read(
        lambda conn: (
            conn.execute(sa.union_all(sa.select(to_check.subquery()), sa.select(to_launch.subquery()))).first() is not None
        )
    )
