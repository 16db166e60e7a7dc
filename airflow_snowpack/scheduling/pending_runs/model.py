"""A pending run, which leads from the first event of a schedule to a DAG run; and the queue of pending runs.

    PendingQueue(store).page(schedule="page_views_nightly")

The only transitions are ``PENDING_TRIGGER → PENDING_CONSTRAINT → PENDING_LAUNCH → launched``; in each of the first three states
it may also be discarded. A pending run takes in events until it is ``PENDING_LAUNCH``; later ones begin a new pending run. The
queue has the runs that wait for their trigger, for their constraints, or to be started; reading it costs what waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.errors import error_text
from airflow_snowpack.scheduling.errors import InvalidSchedule, WrongTransition
from airflow_snowpack.scheduling.schedule import Definitions, Schedule
from airflow_snowpack.store import Store, storable
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.paging import Keyset, Page
from airflow_snowpack.store.tables.schedules import launches, pending_jobs, schedules


class PendingState(StrEnum):
    """The state of a pending run."""

    TRIGGER = "pending_trigger"
    CONSTRAINT = "pending_constraint"
    LAUNCH = "pending_launch"
    LAUNCHED = "launched"
    DISCARDED = "discarded"


TRANSITIONS: Mapping[PendingState, frozenset[PendingState]] = {
    PendingState.TRIGGER: frozenset({PendingState.TRIGGER, PendingState.CONSTRAINT, PendingState.DISCARDED}),
    PendingState.CONSTRAINT: frozenset({PendingState.CONSTRAINT, PendingState.LAUNCH, PendingState.DISCARDED}),
    PendingState.LAUNCH: frozenset({PendingState.LAUNCHED, PendingState.DISCARDED}),
    PendingState.LAUNCHED: frozenset(),
    PendingState.DISCARDED: frozenset(),
}
OPEN = (PendingState.TRIGGER.value, PendingState.CONSTRAINT.value)
is_open = pending_jobs.c.state.in_(sa.bindparam("open_states", OPEN, expanding=True, literal_execute=True))
"""Literal, not bound: the planner uses the partial indexes on open runs only for a statement with the same text."""

ERROR_LENGTH = 300
"""How many characters of an unexpected error are kept as the reason why a run waits."""

WRITTEN = ("triggered_at", "expires_at", "next_check_at", "waits_for", "counted_to", "progress", "reasons", "run_id")
"""What an evaluation may change besides the state."""
WRITE = (
    sa.update(pending_jobs)
    .where(pending_jobs.c.pending_id == sa.bindparam("b_job"), pending_jobs.c.state == sa.bindparam("b_was"))
    .values({name: sa.bindparam(name) for name in ("state", *WRITTEN)})
)


@dataclass(frozen=True, slots=True)
class Reason:
    """The last result of a constraint of a pending run, or of its trigger.

    :param what: ``trigger``, or the constraint's kind.
    :param not_before: it is not evaluated again before this time.
    """

    what: str
    text: str
    met: bool
    not_before: datetime | None = None


def reasons_to_json(reasons: Iterable[Reason]) -> list[dict[str, Any]]:
    moments = [(one, one.not_before.isoformat() if one.not_before else None) for one in reasons]
    return [{"what": one.what, "says": one.text, "met": one.met, "not_before": moment} for one, moment in moments]


def reasons_from_json(stored: Iterable[Mapping[str, Any]]) -> tuple[Reason, ...]:
    return tuple(
        Reason(one["what"], one["says"], one["met"], datetime.fromisoformat(one["not_before"]) if one["not_before"] else None)
        for one in stored
    )


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that may start.

    :param triggered_at: since when its trigger is satisfied.
    :param expires_at: until when it may wait for its constraints.
    :param next_check_at: when it is evaluated next; ``None`` if only an event can change it.
    :param waits_for: the key of the queue that it waits in.
    :param run_id: of its DAG run, once reserved.
    """

    pending_id: str
    schedule: str
    generation: str
    dag_id: str
    state: PendingState
    priority: int
    created_at: datetime
    triggered_at: datetime | None
    expires_at: datetime | None
    next_check_at: datetime | None
    waits_for: str | None
    reasons: tuple[Reason, ...]
    ended_at: datetime | None
    ended_because: str | None
    run_id: str | None


pending_from = row_mapper(PendingRun, {"state": PendingState, "reasons": reasons_from_json})


def move(conn: sa.Connection, pending_id: str, was: PendingState, to: PendingState, **changes: Any) -> None:
    """Write the next state of a pending run that the caller has locked.

    :raises WrongTransition: there is no such transition, or the run is in another state.
    """
    if to not in TRANSITIONS[was]:
        raise WrongTransition(pending_id, was, to)
    mine = sa.and_(pending_jobs.c.pending_id == pending_id, pending_jobs.c.state == was.value)
    if conn.execute(sa.update(pending_jobs).where(mine).values(state=to.value, **changes)).rowcount != 1:
        raise WrongTransition(pending_id, "no longer " + was, to)


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What happened to pending runs in a round of the scheduler, or a part of it.

    :param matched: the number of matched events; ``evaluated``: of evaluated pending runs.
    :param reserved: the ids of reserved pending runs; ``discarded``: of discarded ones.
    :param launched: the ids of the DAG runs that now exist; ``waiting``: of those that could not be started.
    """

    matched: int = 0
    evaluated: int = 0
    reserved: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()
    launched: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()

    @property
    def is_idle(self) -> bool:
        return self == RoundReport()

    def __add__(self, other: RoundReport) -> RoundReport:
        return RoundReport(*(mine + more for mine, more in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """The next state of a pending run that the caller has locked; ``row`` is as read, ``values`` has :data:`WRITTEN`."""

    row: sa.Row[Any]
    was: PendingState
    state: PendingState
    values: dict[str, Any]

    @classmethod
    def of(
        cls, row: sa.Row[Any], *, state: PendingState | None = None, was: PendingState | None = None, **changes: Any
    ) -> PendingWrite:
        """Return the change of a row; columns that are not named are unchanged.

        :param was: the state written since the row was read.
        :raises WrongTransition: there is no such transition.
        """
        before = was or PendingState(row.state)
        after = state or before
        # If trigger and constraints are met at once, one write makes both transitions.
        through = TRANSITIONS[PendingState.CONSTRAINT] if before is PendingState.TRIGGER else frozenset[PendingState]()
        if after not in TRANSITIONS[before] | through:
            raise WrongTransition(row.pending_id, before, after)
        return cls(row, before, after, {name: getattr(row, name) for name in WRITTEN} | changes)


def write_all(conn: sa.Connection, writes: Sequence[PendingWrite]) -> None:
    """Write the next states of several pending runs in one statement.

    :raises WrongTransition: the state of one of them has changed since it was read.
    """
    if not writes:
        return
    rows = [{"b_job": one.row.pending_id, "b_was": one.was.value, "state": one.state.value, **one.values} for one in writes]
    if conn.execute(WRITE, rows).rowcount != len(rows):
        raise WrongTransition(", ".join(one.row.pending_id for one in writes[:3]), "no longer as it was read", writes[0].state)


@dataclass(frozen=True, slots=True)
class Locked:
    """A locked pending run with its schedule, unless that was changed or cannot be read; ``problem``: why it is set aside."""

    row: sa.Row[Any]
    schedule: Schedule | None = None
    problem: str | None = None


def lock_batch(
    conn: sa.Connection, pending_ids: Sequence[str], now: datetime, definitions: Definitions, failed: Mapping[str, Exception]
) -> dict[str, Locked]:
    """Lock the due ones of these pending runs, with their current schedules; runs locked by another transaction are skipped.

    No change of a schedule then commits before the effect of its evaluation.

    :param failed: the errors of earlier evaluations, by pending run.
    """
    due = (pending_jobs.c.pending_id.in_(pending_ids), is_open, pending_jobs.c.next_check_at <= now)
    in_order = (pending_jobs.c.schedule, pending_jobs.c.generation)  # as in each transaction that locks several
    rows = conn.execute(sa.select(pending_jobs).where(*due).order_by(*in_order).with_for_update(skip_locked=True)).all()
    names = sorted({row.schedule for row in rows})
    named: sa.Select[Any] = sa.select(schedules.c.name, schedules.c.generation, schedules.c.definition)
    # A transaction that changes a schedule has locked its row and will need the run, which is therefore left for later.
    shared = named.where(schedules.c.name.in_(names)).order_by(schedules.c.name).with_for_update(read=True, skip_locked=True)
    current = {row.name: row for row in conn.execute(shared)} if names else {}
    missing = [name for name in names if name not in current]
    there = sa.select(schedules.c.name).where(schedules.c.name.in_(missing))
    changing = set(conn.execute(there).scalars()) if missing else set()
    return {
        row.pending_id: _with_schedule(row, current.get(row.schedule), definitions, failed.get(row.pending_id))
        for row in rows
        if row.schedule not in changing
    }


def _with_schedule(row: sa.Row[Any], current: sa.Row[Any] | None, definitions: Definitions, failure: Exception | None) -> Locked:
    if current is None or current.generation != row.generation:
        return Locked(row)
    if failure is not None:
        return Locked(row, problem=f"it cannot be evaluated ({type(failure).__name__}: {error_text(failure)[:ERROR_LENGTH]})")
    try:
        return Locked(row, definitions.read(current.name, current.definition))
    except InvalidSchedule as error:
        return Locked(row, problem=f"its definition cannot be read: {error}")


WAITING = (PendingState.TRIGGER, PendingState.CONSTRAINT, PendingState.LAUNCH)
"""The states of the queue, in the order in which a pending run passes through them."""
OLDEST_FIRST = Keyset(pending_jobs.c.created_at, pending_jobs.c.pending_id)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A pending run, and why its last start failed, if it did."""

    run: PendingRun
    problem: str | None = None


class PendingQueue:
    def __init__(self, store: Store) -> None:
        self._store = store

    def page(
        self, *, states: Collection[PendingState] = (), schedule: str | None = None, after: str | None = None, limit: int = 100
    ) -> Page[QueuedRun]:
        """Return a page of the queue, oldest first.

        :raises InvalidCursor: no page returned ``after``.
        """
        where = [] if schedule is None else [pending_jobs.c.schedule == storable(schedule)]
        wanted = [state for state in WAITING if state in (states or WAITING)]
        rows = self._store.all(_query(wanted, [*where, *OLDEST_FIRST.beyond(after)], limit + 1))
        return OLDEST_FIRST.page(rows, limit, lambda row: QueuedRun(pending_from(row), row.problem))

    def count_by_state(self) -> dict[PendingState, int]:
        of_open = sa.select(pending_jobs.c.state, sa.func.count().label("number")).where(is_open).group_by(pending_jobs.c.state)
        reserved = sa.select(sa.literal(PendingState.LAUNCH.value), sa.func.count()).select_from(launches)
        found = {PendingState(row.state): row.number for row in self._store.all(sa.union_all(of_open, reserved))}
        return {state: found.get(state, 0) for state in WAITING}

    def launches_waiting(self) -> tuple[int, datetime | None]:
        """Return how many runs wait to be started, and since when the oldest does."""
        (row,) = self._store.all(sa.select(sa.func.count().label("number"), sa.func.min(launches.c.enqueued_at).label("oldest")))
        return row.number, row.oldest


def _query(states: list[PendingState], where: list[sa.ColumnElement[bool]], limit: int) -> sa.Select[Any]:
    """Select open runs by their partial index, and reserved ones by their launches."""
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
