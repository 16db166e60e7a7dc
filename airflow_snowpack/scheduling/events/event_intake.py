"""Event intake: the half of a scheduler's round that needs no Airflow. Ticks and events reach the pending runs of schedules.

    EventIntake(store).step()
    if work_is_due(store): ...     # evaluate constraints and start runs

The invariant: **an event counts exactly once for every trigger that listens to it.** One transaction matches a batch, assigns it
to pending runs and moves the cursor, under a lock on the cursor that admits one process at a time. Pending runs change only as
the checker would change them, so both may run side by side: a table with a commit each second moves a counter, and wakes no task
before its trigger is satisfied.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.events.clocks import Clocks, recover_from_set_back
from airflow_snowpack.scheduling.events.counting import count_each
from airflow_snowpack.scheduling.events.event_log import CURSOR, MATCHED_TO
from airflow_snowpack.scheduling.events.matching import AHEAD, StaleBatch, take
from airflow_snowpack.scheduling.pending_runs.model import PendingState, Reason, is_open, reasons_to_json
from airflow_snowpack.scheduling.schedule import Schedule, readable
from airflow_snowpack.store import Store, StoreError, new_id
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.signs_of_life import Role, SignOfLife
from airflow_snowpack.store.tables.schedules import event_cursors, events, launches, pending_jobs, schedules

log = logging.getLogger(__name__)

EVENT_BATCH_SIZE = 10_000
RECOVERY_INTERVAL = timedelta(minutes=10)
"""The shortest time between two recoveries: next to a host whose clock is ahead, every other clock appears to be set back."""
COUNT_LIMIT = 500
"""The most waiting pending runs that one round counts."""
COUNT_BATCH_SIZE = 100
"""How many pending runs are locked together: a process that needs one of them waits until all are written."""

COUNTED = (
    sa.update(pending_jobs)
    .where(pending_jobs.c.pending_id == sa.bindparam("b_job"))
    .values({name: sa.bindparam(name) for name in ("reasons", "next_check_at", "counted_to", "progress")} | {"waits_for": None})
)


class Subscriber:
    """Matches events to schedules in the order of their numbers, and assigns them to pending runs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def step(self) -> int:
        """Match one batch, and return its number of events; 0 if there are none, or another process is matching."""
        hold_first = False
        while True:
            try:
                return self._store.transact(partial(self._match_batch, hold_first=hold_first))
            except StaleBatch:  # with the runs locked, only if a run that a first skip left is skipped too
                hold_first = True

    def _match_batch(self, conn: sa.Connection, *, hold_first: bool) -> int:
        position = self._lock_cursor(conn)
        if position is None:
            return 0
        number, upto = conn.execute(AHEAD, {"after": position, "most": EVENT_BATCH_SIZE}).one()
        if not number:
            return 0
        take(conn, new_id(), position, upto, self._store.clock(), hold_first=hold_first)
        conn.execute(sa.update(event_cursors).where(event_cursors.c.name == CURSOR).values(position=upto))
        return int(number)

    def _lock_cursor(self, conn: sa.Connection) -> int | None:
        """Return where the last batch ended, locked for this transaction; ``None`` if another process has the lock."""
        query = sa.select(event_cursors.c.position).where(event_cursors.c.name == CURSOR)
        position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        if position is None and conn.execute(query).first() is None:
            conn.execute(insert(event_cursors).values(name=CURSOR, position=0).on_conflict_do_nothing())
            position = conn.execute(query.with_for_update(skip_locked=True)).scalar()
        return position


class EventIntake:
    """Publishes due ticks, matches events, and counts them for triggers that are not satisfied.

    :param sign: the scheduler's sign of life; ``None`` for one of this process.
    """

    def __init__(self, store: Store, sign: SignOfLife | None = None) -> None:
        self._store = store
        self._sign = sign or SignOfLife(store, Role.SCHEDULER)
        self._clocks = Clocks(store)
        self._subscriber = Subscriber(store)
        self._recover_again_at = -math.inf

    def step(self) -> int:
        """Do one round, and return the number of events that were matched."""
        if time.monotonic() >= self._recover_again_at and recover_from_set_back(self._store):
            self._recover_again_at = time.monotonic() + RECOVERY_INTERVAL.total_seconds()
        self._clocks.step()
        taken = 0
        while self._has_unread() and (batch := self._subscriber.step()):
            taken += batch
            if batch < EVENT_BATCH_SIZE:
                break
        self._count_waiting()
        self._sign.beat()
        return taken

    def _has_unread(self) -> bool:
        """Return whether there are new events, without a lock: most rounds end here."""
        return self._store.first(sa.select(events.c.id).where(events.c.id > MATCHED_TO).limit(1)) is not None

    def _count_waiting(self) -> None:
        due = (
            sa.select(pending_jobs.c.pending_id)
            .where(pending_jobs.c.state == PendingState.TRIGGER.value, is_open)
            .where(pending_jobs.c.next_check_at <= self._store.clock())
            .order_by(pending_jobs.c.priority.desc(), pending_jobs.c.next_check_at, pending_jobs.c.pending_id)
            .limit(COUNT_LIMIT)
        )
        found = self._store.scalars(due)
        for start in range(0, len(found), COUNT_BATCH_SIZE):
            self._count_batch(found[start : start + COUNT_BATCH_SIZE])

    def _count_batch(self, pending_ids: Sequence[str]) -> None:
        """Count a batch. A run whose trigger cannot be evaluated is left to the checker, which sets it aside."""
        try:
            self._store.transact(partial(self._count, pending_ids=pending_ids))
        except StoreError:
            raise  # an error of the store, not of a pending run
        except Exception:
            if len(pending_ids) == 1:
                log.exception("trigger_not_evaluated: the pending run %s is left to the checker", pending_ids[0])
                return
            middle = len(pending_ids) // 2
            self._count_batch(pending_ids[:middle])
            self._count_batch(pending_ids[middle:])

    def _count(self, conn: sa.Connection, pending_ids: Sequence[str]) -> None:
        """Write the progress of triggers. Runs with a satisfied trigger stay due for the checker."""
        now = self._store.clock()
        held = (
            sa.select(pending_jobs)
            .where(pending_jobs.c.pending_id.in_(pending_ids), pending_jobs.c.state == PendingState.TRIGGER.value)
            .where(pending_jobs.c.next_check_at <= now)
            .order_by(pending_jobs.c.schedule, pending_jobs.c.generation)  # the lock order of all processes
            .with_for_update(skip_locked=True)
        )
        readable = self._with_schedules(conn, conn.execute(held).all())
        changes = []
        for (row, schedule), counted in zip(readable, count_each(conn, readable), strict=True):
            judgement = schedule.trigger.evaluate(counted.progress, now)
            if not judgement.satisfied:
                reasons = reasons_to_json((Reason("trigger", judgement.text, met=False, not_before=judgement.next_at),))
                due_at = {"reasons": reasons, "next_check_at": judgement.next_at}
                changes.append({"b_job": row.pending_id, **due_at, **counted.to_row()})
        if changes:
            conn.execute(COUNTED, changes)

    def _with_schedules(self, conn: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[tuple[sa.Row[Any], Schedule]]:
        """Return the runs with their schedules, without those for the checker, whose schedule has changed or cannot be read."""
        query = sa.select(schedules.c.name, schedules.c.generation, schedules.c.definition)
        query = query.where(schedules.c.name.in_([row.schedule for row in rows]))
        definitions = {(one.name, one.generation): one.definition for one in conn.execute(query)}
        read = [(row, readable(definitions.get((row.schedule, row.generation)))) for row in rows]
        return [(row, schedule) for row, schedule in read if schedule is not None]


def work_is_due(store: Store) -> bool:
    """Return whether the checker or the launcher has work, by two index look-ups however much waits."""
    now = store.clock()
    to_check = sa.select(sa.literal(1)).where(pending_jobs.c.next_check_at <= now, is_open).limit(1).subquery()
    to_launch = sa.select(sa.literal(1)).where(launches.c.visible_at <= now).limit(1).subquery()
    return store.first(sa.union_all(sa.select(to_check), sa.select(to_launch))) is not None
