"""Pending jobs: a schedule that something has happened to, on its way to a run.

The states are a table, and there is no way but these: ``PENDING_TRIGGER → PENDING_CONSTRAINT → PENDING_LAUNCH →
launched``. From the first two it may also be discarded. A pending job takes events up until it is ``PENDING_LAUNCH``;
what comes later begins a new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.errors import WrongTransition
from airflow_snowpack.store.tables.schedules import pending_jobs


class PendingState(StrEnum):
    """Where a pending job stands."""

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
"""Written out, not bound: the partial indexes on open jobs serve only a statement that says the same as they do."""


WRITTEN = (
    "triggered_at",
    "expires_at",
    "next_check_at",
    "waits_for",
    "counted_to",
    "progress",
    "reasons",
    "run_id",
)
"""What an evaluation may change beside the state."""
WRITE = (
    sa.update(pending_jobs)
    .where(pending_jobs.c.pending_id == sa.bindparam("b_job"), pending_jobs.c.state == sa.bindparam("b_was"))
    .values({name: sa.bindparam(name) for name in ("state", *WRITTEN)})
)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pending job has not launched: one of its constraints, or its trigger.

    :param what: ``trigger``, or the constraint's kind.
    :param not_before: it will not be asked again before this moment.
    """

    what: str
    says: str
    met: bool
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A run that may come.

    :param triggered_at: since when its trigger is satisfied.
    :param expires_at: until when its constraints may take.
    :param next_check_at: when it is looked at next; ``None`` when only an event can move it.
    :param reasons: what its trigger and its constraints said when they were last asked.
    :param run_id: of the DAG run that it became, or is to become.
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


def move(conn: sa.Connection, pending_id: str, was: PendingState, to: PendingState, **changes: Any) -> None:
    """Write a pending job's next state; the caller holds its row.

    :raises WrongTransition: it cannot go there from where it is.
    """
    if to not in TRANSITIONS[was]:
        raise WrongTransition(pending_id, was, to)
    mine = sa.and_(pending_jobs.c.pending_id == pending_id, pending_jobs.c.state == was.value)
    if conn.execute(sa.update(pending_jobs).where(mine).values(state=to.value, **changes)).rowcount != 1:
        raise WrongTransition(pending_id, "no longer " + was, to)


@dataclass(frozen=True, slots=True)
class Write:
    """The next state of a pending job whose row the caller holds.

    :param was: the state that its row has.
    :param values: the columns of :data:`WRITTEN`.
    """

    pending_id: str
    was: PendingState
    state: PendingState
    values: dict[str, Any]

    @classmethod
    def of(cls, row: sa.Row[Any], *, state: PendingState | None = None, was: PendingState | None = None, **changes: Any) -> Write:
        """What the row is to be; columns that are not named stay as they are.

        :param was: the state that was written since the row was read.
        :raises WrongTransition: it cannot go there from where it is.
        """
        before = was or PendingState(row.state)
        after = state or before
        # A trigger and constraints that are met at once are one write; the way is the same.
        through = TRANSITIONS[PendingState.CONSTRAINT] if before is PendingState.TRIGGER else frozenset[PendingState]()
        if after not in TRANSITIONS[before] | through:
            raise WrongTransition(row.pending_id, before, after)
        return cls(row.pending_id, before, after, {name: getattr(row, name) for name in WRITTEN} | changes)


def write_all(conn: sa.Connection, writes: Sequence[Write]) -> None:
    """Write the next states of several pending jobs in one statement.

    :raises WrongTransition: one of them is not in the state that it was in.
    """
    if not writes:
        return
    rows = [{"b_job": one.pending_id, "b_was": one.was.value, "state": one.state.value, **one.values} for one in writes]
    if conn.execute(WRITE, rows).rowcount != len(rows):
        raise WrongTransition(", ".join(one.pending_id for one in writes[:3]), "no longer as it was read", writes[0].state)


def reasons_to_json(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
    return [
        {
            "what": reason.what,
            "says": reason.says,
            "met": reason.met,
            "not_before": None if reason.not_before is None else reason.not_before.isoformat(),
        }
        for reason in reasons
    ]


def reasons_from_json(stored: list[dict[str, Any]]) -> tuple[Reason, ...]:
    return tuple(
        Reason(one["what"], one["says"], one["met"], datetime.fromisoformat(one["not_before"]) if one["not_before"] else None)
        for one in stored
    )


def pending_from(row: sa.Row[Any]) -> PendingRun:
    return PendingRun(
        pending_id=row.pending_id,
        schedule=row.schedule,
        generation=row.generation,
        dag_id=row.dag_id,
        state=PendingState(row.state),
        priority=row.priority,
        created_at=row.created_at,
        triggered_at=row.triggered_at,
        expires_at=row.expires_at,
        next_check_at=row.next_check_at,
        waits_for=row.waits_for,
        reasons=reasons_from_json(row.reasons),
        ended_at=row.ended_at,
        ended_because=row.ended_because,
        run_id=row.run_id,
    )
