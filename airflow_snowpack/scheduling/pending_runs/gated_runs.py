"""The runs that came to a gate: which of them wait there, and which have passed and take a place.

    gated = active_gates(conn, ["maintain_page_views"])
    end_gates(conn, "maintain_page_views", run_id, as_of)

A gate is a task of a DAG that lets a run continue when its constraints are met
(:mod:`airflow_snowpack.scheduling.pending_runs.gate`). The invariant: a run takes a place from when it passed the gate until it
ends. A run that waits at its gate takes no place from other runs that wait.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.pending_runs.model import Reason, reasons_from_json
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import gated_runs

is_active = gated_runs.c.ended_at.is_(None)


class GateState(StrEnum):
    """Whether a run waits at a gate, has passed it, or was turned away."""

    WAITING = "waiting"
    PASSED = "passed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class GatePlace:
    """One run at one gate.

    :param task: the gate's task id, with the index of a mapped task.
    """

    dag_id: str
    run_id: str
    task: str

    @property
    def row(self) -> sa.ColumnElement[bool]:
        """Its row in the store."""
        mine = (gated_runs.c.dag_id == self.dag_id, gated_runs.c.run_id == self.run_id, gated_runs.c.task == self.task)
        return sa.and_(*mine)


@dataclass(frozen=True, slots=True)
class GatedRun:
    """How a run stands at a gate.

    :param arrived_at: when it came to the gate.
    :param not_before: no constraint is asked again before this moment; ``None`` when nobody knows one.
    :param waits_for: the key of what it stands in line for.
    :param reasons: what the constraints said when they were last asked.
    """

    place: GatePlace
    state: GateState
    arrived_at: datetime
    not_before: datetime | None
    waits_for: str | None
    reasons: tuple[Reason, ...]
    passed_at: datetime | None

    @property
    def blocked_by(self) -> tuple[Reason, ...]:
        """The constraints that keep it, or kept it when its time was up."""
        return tuple(reason for reason in self.reasons if not reason.met)

    @property
    def says(self) -> str:
        """Why it waits, or that nothing keeps it."""
        return "; ".join(_sentence(reason) for reason in self.blocked_by) or "all constraints are met"


def gated_run_from(row: sa.Row[Any]) -> GatedRun:
    return GatedRun(
        place=GatePlace(row.dag_id, row.run_id, row.task),
        state=GateState(row.state),
        arrived_at=row.arrived_at,
        not_before=row.not_before,
        waits_for=row.waits_for,
        reasons=reasons_from_json(row.reasons),
        passed_at=row.passed_at,
    )


def waiting_at_gates(conn: sa.Connection, dag_ids: Iterable[str]) -> list[GatedRun]:
    """The runs of these DAGs that wait at a gate, in the order in which they came."""
    waiting = [row for row in active_gates(conn, dag_ids) if row.state == GateState.WAITING]
    return [gated_run_from(row) for row in sorted(waiting, key=lambda row: (row.arrived_at, row.run_id, row.task))]


def longest_at_gates(store: Store, limit: int) -> list[GatedRun]:
    """The runs of whatever DAG that wait at a gate, those first that came first."""
    waiting = sa.select(gated_runs).where(is_active, gated_runs.c.state == GateState.WAITING.value)
    in_order = (gated_runs.c.arrived_at, gated_runs.c.dag_id, gated_runs.c.run_id, gated_runs.c.task)
    rows = store.read(lambda conn: conn.execute(waiting.order_by(*in_order).limit(limit)).all())
    return [gated_run_from(row) for row in rows]


def read_gate(store: Store, place: GatePlace) -> GatedRun | None:
    """One of them; ``None`` when it has not come to this gate."""
    row = store.read(lambda conn: conn.execute(sa.select(gated_runs).where(place.row)).first())
    return None if row is None else gated_run_from(row)


def active_gates(conn: sa.Connection, dag_ids: Iterable[str]) -> Sequence[sa.Row[Any]]:
    """What there is of these DAGs' runs that have not ended."""
    return conn.execute(sa.select(gated_runs).where(gated_runs.c.dag_id.in_(sorted(set(dag_ids))), is_active)).all()


def runs_at_gates(conn: sa.Connection, dag_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """The runs of these DAGs that wait at a gate and have passed none, by DAG."""
    waiting: dict[str, set[str]] = {}
    passed: dict[str, set[str]] = {}
    for row in active_gates(conn, dag_ids):
        (passed if row.state == GateState.PASSED else waiting).setdefault(row.dag_id, set()).add(row.run_id)
    return {dag_id: frozenset(run_ids - passed.get(dag_id, set())) for dag_id, run_ids in waiting.items()}


def dags_with_gates(conn: sa.Connection) -> list[tuple[str, str]]:
    """Return each group that a gate counts by, with each DAG that has a run at, or beyond, such a gate."""
    # As text, which databases can compare: many runs of few DAGs are few rows then, and those of no group are none.
    names = sa.cast(gated_runs.c.group_names, sa.Text)
    rows = conn.execute(sa.select(gated_runs.c.dag_id, names).where(is_active, names != "[]").distinct())
    return [(group, dag_id) for dag_id, group_names in rows for group in json.loads(group_names)]


def groups_of_gates(conn: sa.Connection, dag_id: str) -> set[str]:
    """The groups that the gates of a DAG count by."""
    return {name for row in active_gates(conn, [dag_id]) for name in row.group_names}


def was_turned_away(conn: sa.Connection, dag_id: str, run_id: str) -> bool:
    """Whether the run passed no gate and was skipped at one: Airflow calls its end a success, but it has done nothing."""
    run = sa.and_(gated_runs.c.dag_id == dag_id, gated_runs.c.run_id == run_id)
    states = set(conn.execute(sa.select(gated_runs.c.state).where(run)).scalars())
    return GateState.SKIPPED in states and GateState.PASSED not in states


def end_gates(conn: sa.Connection, dag_id: str, run_id: str, as_of: datetime) -> None:
    """The run has ended: it takes no place any more.

    :param as_of: since when that is known. A run that was cleared and has come to its gate since is another one.
    """
    run = sa.and_(gated_runs.c.dag_id == dag_id, gated_runs.c.run_id == run_id, is_active, gated_runs.c.looked_at <= as_of)
    conn.execute(sa.update(gated_runs).where(run).values(ended_at=as_of, waits_for=None))


def _sentence(reason: Reason) -> str:
    return reason.says if reason.not_before is None else f"{reason.says}, until {reason.not_before:%Y-%m-%d %H:%M:%S} UTC"
