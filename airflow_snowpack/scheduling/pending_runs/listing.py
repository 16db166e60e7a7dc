"""The queue of pending runs: what waits for its trigger, for its constraints, or to be started.

    queue = PendingQueue(store)
    page = queue.page(schedule="page_views_nightly")
    queue.count_by_state()

Runs that have ended are in the history of their schedule instead. A read costs what waits, not what there ever was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingRun, PendingState, is_open, pending_from
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.tables.schedules import launches, pending_jobs

WAITING = (PendingState.TRIGGER, PendingState.CONSTRAINT, PendingState.LAUNCH)
"""The states of the queue, in the order in which a pending run goes through them."""
OLDEST_FIRST = Keyset(pending_jobs.c.created_at, pending_jobs.c.pending_id)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A pending run, and why its last start failed, if there was one."""

    run: PendingRun
    problem: str | None = None


class PendingQueue:
    """Reads the queue."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def page(
        self,
        *,
        states: Collection[PendingState] = (),
        schedule: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[QueuedRun]:
        """Return a part of the queue, the oldest first.

        :raises InvalidCursor: no page returned ``after``.
        """
        where = [] if schedule is None else [pending_jobs.c.schedule == storable(schedule)]
        wanted = [state for state in WAITING if state in (states or WAITING)]
        rows = self._store.all(_query(wanted, [*where, *OLDEST_FIRST.beyond(after)], limit + 1))
        return OLDEST_FIRST.page(rows, limit, lambda row: QueuedRun(pending_from(row), row.problem))

    def count_by_state(self) -> dict[PendingState, int]:
        """Return how many there are in each state of the queue."""
        of_open = sa.select(pending_jobs.c.state, sa.func.count().label("number")).where(is_open).group_by(pending_jobs.c.state)
        reserved = sa.select(sa.literal(PendingState.LAUNCH.value), sa.func.count()).select_from(launches)
        found = {PendingState(row.state): row.number for row in self._store.all(sa.union_all(of_open, reserved))}
        return {state: found.get(state, 0) for state in WAITING}

    def launches_waiting(self) -> tuple[int, datetime | None]:
        """Return how many runs wait to be started, and since when the oldest does."""
        (row,) = self._store.all(sa.select(sa.func.count().label("number"), sa.func.min(launches.c.enqueued_at).label("oldest")))
        return row.number, row.oldest


def _query(states: list[PendingState], where: list[sa.ColumnElement[bool]], limit: int) -> sa.Select[Any]:
    """Select open ones by the index that has nothing else, and reserved ones by their launches."""
    open_states = [state.value for state in states if state.value in OPEN]
    problem = sa.null().cast(sa.Text).label("problem")
    parts = []
    if open_states:
        parts.append(sa.select(pending_jobs, problem).where(is_open, pending_jobs.c.state.in_(open_states), *where))
    if PendingState.LAUNCH in states:
        reserved = sa.select(pending_jobs, launches.c.problem).join(launches, launches.c.pending_id == pending_jobs.c.pending_id)
        parts.append(reserved.where(pending_jobs.c.state == PendingState.LAUNCH.value, *where))
    found = sa.union_all(*parts).subquery()
    return sa.select(found).order_by(*OLDEST_FIRST.order(found)).limit(limit)
