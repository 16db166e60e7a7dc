"""The half of a round that needs no Airflow: ticks and events are taken in, and triggers that still wait are counted.

    intake = Intake(store)
    intake.step()
    if work_is_due(store): ...     # now somebody who can ask Airflow, and start runs, has something to do

A table that gets a commit each second moves a counter here, and nobody has to be woken for it before its trigger is satisfied.
The invariant: a pending job is changed here only as the checker would change it, so that both may run side by side.
"""

from __future__ import annotations

import logging
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.clocks import Clocks
from airflow_snowpack.scheduling.counting import count_events
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.pending import PendingState, Reason, is_open, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.subscriber import BATCH, CURSOR, Subscriber
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import event_cursors, events, launches, pending_jobs, schedules

log = logging.getLogger(__name__)

AT_ONCE = 500


class Intake:
    """Takes in what has happened."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clocks = Clocks(store)
        self._subscriber = Subscriber(store)

    def step(self) -> int:
        """One round.

        :returns: how many events were handed to pending jobs.
        """
        self._clocks.step()
        taken = 0
        while self._has_unread() and (batch := self._subscriber.step()):
            taken += batch
            if batch < BATCH:
                break
        self._count_waiting()
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
        for pending_id in self._store.read(lambda conn: conn.execute(due).scalars().all()):
            self._store.transact(lambda conn, each=pending_id: self._count(conn, each))  # type: ignore[misc]  # mypy takes the default for an argument

    def _count(self, conn: sa.Connection, pending_id: str) -> None:
        """Write down how far its trigger is. One that is satisfied is left as it is: due, and the checker's."""
        now = self._store.clock()
        mine = sa.and_(pending_jobs.c.pending_id == pending_id, pending_jobs.c.state == PendingState.TRIGGER.value)
        held = sa.select(pending_jobs).where(mine, pending_jobs.c.next_check_at <= now).with_for_update(skip_locked=True)
        row = conn.execute(held).first()
        schedule = None if row is None else self._schedule_of(conn, row)
        if row is None or schedule is None:
            return
        counted = count_events(conn, row, schedule)
        judgement = schedule.trigger.judge(counted.progress, now)
        if judgement.satisfied:
            return
        reasons = reasons_to_json((Reason("trigger", judgement.says, met=False, not_before=judgement.next_at),))
        changes = {"reasons": reasons, "next_check_at": judgement.next_at, "waits_for": None, **counted.to_row()}
        conn.execute(sa.update(pending_jobs).where(mine).values(**changes))

    def _schedule_of(self, conn: sa.Connection, row: sa.Row[Any]) -> Schedule | None:
        """``None`` when it has changed or cannot be read: what becomes of the job then is the checker's to say."""
        query = sa.select(schedules.c.definition).where(schedules.c.name == row.schedule)
        definition = conn.execute(query.where(schedules.c.generation == row.generation)).scalar()
        try:
            return None if definition is None else Schedule.from_json(definition)
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
