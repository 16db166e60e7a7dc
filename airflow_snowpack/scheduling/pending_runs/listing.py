"""The queue of pending jobs: what waits for its trigger, for its constraints, or to be started.

    queue = PendingQueue(store)
    page = queue.page(schedule="page_views_nightly")
    queue.count_by_state()

What has ended is not in it; a schedule's history tells of that. Reading it costs what waits, not what there ever was.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import InvalidPendingCursor
from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingRun, PendingState, is_open, pending_from
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.schedule_tables import launches, pending_jobs
from airflow_snowpack.store.types import UtcDateTime

WAITING = (PendingState.TRIGGER, PendingState.CONSTRAINT, PendingState.LAUNCH)
"""The states of the queue, in the order in which a job goes through them."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A pending job, and why its run could not be started yet, if that was tried."""

    job: PendingRun
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Some of the queue, the oldest first.

    :param next: the cursor of the page after this one; ``None`` when this is the last.
    """

    jobs: tuple[QueuedRun, ...]
    next: str | None


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
    ) -> PendingPage:
        """:raises InvalidPendingCursor: ``after`` is not one that a page had."""
        where = [] if schedule is None else [pending_jobs.c.schedule == storable(schedule)]
        if after is not None:
            place = sa.tuple_(*(sa.literal(part, kind) for part, kind in zip(_place(after), (UtcDateTime, sa.Text), strict=True)))
            where.append(sa.tuple_(pending_jobs.c.created_at, pending_jobs.c.pending_id) > place)
        wanted = [state for state in WAITING if state in (states or WAITING)]
        rows = self._store.read(lambda conn: conn.execute(_query(wanted, where, limit + 1)).all())
        shown = tuple(QueuedRun(pending_from(row), row.problem) for row in rows[:limit])
        return PendingPage(shown, _cursor(shown[-1].job) if len(rows) > limit else None)

    def count_by_state(self) -> dict[PendingState, int]:
        """How many there are in each state of the queue."""
        of_open = sa.select(pending_jobs.c.state, sa.func.count()).where(is_open).group_by(pending_jobs.c.state)
        sent_off = sa.select(sa.literal(PendingState.LAUNCH.value), sa.func.count()).select_from(launches)
        rows = self._store.read(lambda conn: conn.execute(sa.union_all(of_open, sent_off)).all())
        found = {PendingState(state): number for state, number in rows}
        return {state: found.get(state, 0) for state in WAITING}

    def launches_waiting(self) -> tuple[int, datetime | None]:
        """How many runs wait to be started, and since when the oldest does."""
        query = sa.select(sa.func.count(), sa.func.min(launches.c.enqueued_at))
        number, oldest = self._store.read(lambda conn: conn.execute(query).one())
        return number, oldest


def _query(states: list[PendingState], where: list[sa.ColumnElement[bool]], limit: int) -> sa.Select[Any]:
    """Open ones by the index that holds nothing else, those that are sent off by their launches."""
    open_states = [state.value for state in states if state.value in OPEN]
    problem = sa.null().cast(sa.Text).label("problem")
    parts = []
    if open_states:
        parts.append(sa.select(pending_jobs, problem).where(is_open, pending_jobs.c.state.in_(open_states), *where))
    if PendingState.LAUNCH in states:
        sent_off = sa.select(pending_jobs, launches.c.problem).join(launches, launches.c.pending_id == pending_jobs.c.pending_id)
        parts.append(sent_off.where(pending_jobs.c.state == PendingState.LAUNCH.value, *where))
    found = sa.union_all(*parts).subquery()
    return sa.select(found).order_by(found.c.created_at, found.c.pending_id).limit(limit)


def _cursor(job: PendingRun) -> str:
    return f"{_text(job.created_at)}-{job.pending_id}"


def _place(cursor: str) -> tuple[datetime, str]:
    moment, _, pending_id = cursor.partition("-")
    try:
        created_at = datetime.strptime(moment, "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidPendingCursor(cursor) from error
    if not pending_id.isalnum() or not pending_id.isascii() or _text(created_at) != moment:
        raise InvalidPendingCursor(cursor)
    return created_at, pending_id


def _text(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S%f}"
