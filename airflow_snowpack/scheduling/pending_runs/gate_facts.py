"""What constraints are told at a gate.

Of a DAG that has a gate, a run counts from when it has passed: all of its runs come to the gate, and none may wait for another
that waits itself, or that has yet to come. So neither the run that asks counts, nor any that waits, nor any that is on its way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import dag_wait_key
from airflow_snowpack.scheduling.launches.active_runs import dags_of_group
from airflow_snowpack.scheduling.launches.slot_reservations import held
from airflow_snowpack.scheduling.pending_runs.facts import StoredFacts
from airflow_snowpack.scheduling.pending_runs.gated_runs import GatePlace, GateState, active_gates
from airflow_snowpack.store.schedule_tables import gated_runs

MAY_BE_REOPENED = 100
"""Of so many of a DAG's latest runs Airflow is asked whether somebody cleared them."""


@dataclass
class GateFacts(StoredFacts):
    """The facts for one run at its gate; see :class:`~airflow_snowpack.scheduling.constraints.constraint.ConstraintContext`.

    :param reopened: by DAG, how many runs that had passed and ended are active again.
    """

    place: GatePlace
    reopened: Mapping[str, int] = field(default_factory=dict)

    def active_runs(self, dag_id: str) -> int:
        gated = active_gates(self.conn, [dag_id])
        if not gated and dag_id != self.place.dag_id:
            return super().active_runs(dag_id)
        passed = passed_runs(gated, but=self.place).get(dag_id, frozenset())
        return len(passed) + self.reopened.get(dag_id, 0)

    def active_runs_of_group(self, group: str) -> int:
        return sum(self.active_runs(dag_id) for dag_id in dags_of_group(self.conn, group))

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        """When runs passed this gate."""
        here = (gated_runs.c.dag_id == self.place.dag_id, gated_runs.c.task == self.place.task)
        query = sa.select(gated_runs.c.passed_at).where(*here, gated_runs.c.passed_at > moment).order_by(gated_runs.c.passed_at)
        return tuple(self.conn.execute(query).scalars())

    def held(self, key: str) -> int:
        own = (self.place.dag_id, self.place.run_id)
        return held(self.conn, key, self.snapshot.taken_at or self.now, but=own)

    def more_urgent(self, key: str) -> int:
        """None that wait for runs of this DAG: a schedule counts them from their start, and would wait for this very run."""
        return 0 if key == dag_wait_key(self.place.dag_id) else super().more_urgent(key)


def passed_runs(gated: Iterable[sa.Row[Any]], *, but: GatePlace) -> dict[str, frozenset[str]]:
    """The runs that have passed a gate, by DAG; a DAG with a gate but no such run is there too."""
    found: dict[str, set[str]] = {}
    for row in gated:
        passed = found.setdefault(row.dag_id, set())
        if row.state == GateState.PASSED and (row.dag_id, row.run_id) != (but.dag_id, but.run_id):
            passed.add(row.run_id)
    return {dag_id: frozenset(run_ids) for dag_id, run_ids in found.items()}


def runs_that_passed_and_ended(conn: sa.Connection, dag_ids: Iterable[str], *, but: GatePlace) -> dict[str, frozenset[str]]:
    """The latest of them, by DAG."""
    found = {}
    for dag_id in dag_ids:
        ended = (gated_runs.c.state == GateState.PASSED.value, gated_runs.c.ended_at.is_not(None))
        query = sa.select(gated_runs.c.run_id).where(gated_runs.c.dag_id == dag_id, *ended)
        latest = conn.execute(query.order_by(gated_runs.c.passed_at.desc()).limit(MAY_BE_REOPENED)).scalars()
        found[dag_id] = frozenset(latest) - ({but.run_id} if dag_id == but.dag_id else set())
    return found
