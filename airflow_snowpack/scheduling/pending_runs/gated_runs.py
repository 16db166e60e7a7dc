"""The runs that reached a gate: which wait there, and which have passed and count as active.

    rows = active_gates(conn, ["maintain_page_views"])
    end_gates(conn, "maintain_page_views", run_id, as_of)

A gate is a task of a DAG that lets a run continue once its constraints are met
(:mod:`airflow_snowpack.scheduling.pending_runs.gate`). The invariant: a run counts from passing the gate until it ends. A run
that waits at its gate takes no place from other runs that wait.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.pending_runs.model import Reason, reasons_from_json
from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import row_mapper
from airflow_snowpack.store.tables.schedules import gated_runs

is_active = gated_runs.c.ended_at.is_(None)
GATE_KEY = (gated_runs.c.dag_id, gated_runs.c.run_id, gated_runs.c.task)
REOPENED_LIMIT = 100
"""For how many of a DAG's latest runs Airflow is queried for cleared tasks."""


class GateState(StrEnum):
    """Whether a run waits at a gate, has passed it, or was skipped there."""

    WAITING = "waiting"
    PASSED = "passed"
    SKIPPED = "skipped"


AT_GATE = (gated_runs.c.state == GateState.WAITING.value, is_active)


@dataclass(frozen=True, slots=True)
class GatePlace:
    """One run at one gate; ``task`` is the gate's task id, with the map index of a mapped task."""

    dag_id: str
    run_id: str
    task: str

    def __str__(self) -> str:
        return f"{self.dag_id}/{self.run_id}/{self.task}"

    @property
    def row(self) -> sa.ColumnElement[bool]:
        """The condition for its row in the store."""
        return sa.and_(gated_runs.c.dag_id == self.dag_id, gated_runs.c.run_id == self.run_id, gated_runs.c.task == self.task)


@dataclass(frozen=True, slots=True)
class GatedRun:
    """A run at a gate; no constraint is evaluated before ``not_before``, and ``waits_for`` is the key of its queue."""

    place: GatePlace
    state: GateState
    arrived_at: datetime
    not_before: datetime | None
    waits_for: str | None
    reasons: tuple[Reason, ...]
    passed_at: datetime | None

    @property
    def blocked_by(self) -> tuple[Reason, ...]:
        """The constraints that are not met, or were not when its wait ended."""
        return tuple(reason for reason in self.reasons if not reason.met)

    @property
    def text(self) -> str:
        """Why it waits, or that nothing blocks it."""
        return "; ".join(_sentence(reason) for reason in self.blocked_by) or "all constraints are met"


gated_run_from = row_mapper(
    GatedRun, {"state": GateState, "reasons": reasons_from_json}, place=lambda row: GatePlace(row.dag_id, row.run_id, row.task)
)


def waiting_at_gates(conn: sa.Connection, dag_ids: Collection[str] | None = None, *, limit: int | None = None) -> list[GatedRun]:
    """Return the runs of these DAGs (default: all) that wait at a gate, in order of arrival."""
    waiting = sa.select(gated_runs).where(*AT_GATE)
    waiting = waiting if dag_ids is None else waiting.where(gated_runs.c.dag_id.in_(sorted(set(dag_ids))))
    return [gated_run_from(row) for row in conn.execute(waiting.order_by(gated_runs.c.arrived_at, *GATE_KEY).limit(limit))]


def unseen_at_gates(conn: sa.Connection, since: datetime) -> list[GatedRun]:
    """Return the runs that wait at a gate and were last seen there before this time: some tasks sleep, others are gone."""
    waiting = sa.select(gated_runs).where(*AT_GATE, gated_runs.c.seen_at <= since)
    return [gated_run_from(row) for row in conn.execute(waiting.order_by(*GATE_KEY))]


def read_gate(store: Store, place: GatePlace) -> GatedRun | None:
    """Return one run at a gate; ``None`` if it has not arrived."""
    row = store.first(sa.select(gated_runs).where(place.row))
    return None if row is None else gated_run_from(row)


def active_gates(conn: sa.Connection, dag_ids: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """Return the rows of these DAGs' active runs."""
    return conn.execute(sa.select(gated_runs).where(gated_runs.c.dag_id.in_(sorted(set(dag_ids))), is_active)).all()


def passes_since(conn: sa.Connection, place: GatePlace, moment: datetime) -> tuple[datetime, ...]:
    """Return when runs passed this gate after this time, oldest first."""
    here = (gated_runs.c.dag_id == place.dag_id, gated_runs.c.task == place.task, gated_runs.c.passed_at > moment)
    return tuple(conn.execute(sa.select(gated_runs.c.passed_at).where(*here).order_by(gated_runs.c.passed_at)).scalars())


def passed_and_ended(conn: sa.Connection, dag_ids: Iterable[str], *, but: GatePlace) -> dict[str, frozenset[str]]:
    """Return the latest runs of each DAG that passed a gate and have ended."""
    found = {}
    for dag_id in dag_ids:
        ended = (gated_runs.c.state == GateState.PASSED.value, gated_runs.c.ended_at.is_not(None))
        query = sa.select(gated_runs.c.run_id).where(gated_runs.c.dag_id == dag_id, *ended)
        latest = conn.execute(query.order_by(gated_runs.c.passed_at.desc()).limit(REOPENED_LIMIT)).scalars()
        found[dag_id] = frozenset(latest) - ({but.run_id} if dag_id == but.dag_id else set())
    return found


def dags_with_gates(conn: sa.Connection) -> list[tuple[str, str]]:
    """Return each group that a gate counts by, with each DAG that has a run at or beyond such a gate."""
    # As text, which databases can compare: many runs of few DAGs are then few rows, and runs without a group are none.
    names = sa.cast(gated_runs.c.group_names, sa.Text)
    rows = conn.execute(sa.select(gated_runs.c.dag_id, names).where(is_active, names != "[]").distinct())
    return [(group, dag_id) for dag_id, group_names in rows for group in json.loads(group_names)]


def groups_of_gates(conn: sa.Connection, dag_id: str) -> set[str]:
    """Return the groups that the gates of a DAG count by."""
    return {name for row in active_gates(conn, [dag_id]) for name in row.group_names}


def was_skipped(conn: sa.Connection, dag_id: str, run_id: str) -> bool:
    """Return whether the run was skipped at a gate and passed none: Airflow reports success, but it has done nothing."""
    run = sa.and_(gated_runs.c.dag_id == dag_id, gated_runs.c.run_id == run_id)
    states = set(conn.execute(sa.select(gated_runs.c.state).where(run)).scalars())
    return GateState.SKIPPED in states and GateState.PASSED not in states


def end_gates(conn: sa.Connection, dag_id: str, run_id: str, as_of: datetime) -> None:
    """Record that the run has ended: it counts no more, and leaves its queue.

    :param as_of: when that was known. A run that was cleared and reached its gate again since is unaffected.
    """
    run = sa.and_(gated_runs.c.dag_id == dag_id, gated_runs.c.run_id == run_id, is_active, gated_runs.c.evaluated_at <= as_of)
    conn.execute(sa.update(gated_runs).where(run).values(ended_at=as_of, waits_for=None))


def end_gate(conn: sa.Connection, place: GatePlace, as_of: datetime) -> None:
    """Record that the task of a gate has ended as of a time while its run waited, unless it was seen there since."""
    row = sa.and_(place.row, *AT_GATE, gated_runs.c.seen_at <= as_of)
    conn.execute(sa.update(gated_runs).where(row).values(ended_at=as_of, waits_for=None))


def _sentence(reason: Reason) -> str:
    return reason.text if reason.not_before is None else f"{reason.text}, until {reason.not_before:%Y-%m-%d %H:%M:%S} UTC"
