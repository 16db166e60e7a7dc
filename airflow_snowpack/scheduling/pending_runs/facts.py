"""What constraints are told: from what Airflow said before the transaction, and from the store within it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.scheduling.airflow_port import DagRuns, FreeSlots, Snapshot, Unavailable
from airflow_snowpack.scheduling.constraints.constraint import FactUnavailable
from airflow_snowpack.scheduling.launches.active_runs import dags_of_group, reserved_runs
from airflow_snowpack.scheduling.launches.slot_reservations import held
from airflow_snowpack.scheduling.pending_runs.gated_runs import runs_at_gates
from airflow_snowpack.scheduling.pending_runs.model import is_open
from airflow_snowpack.store.schedule_tables import dag_successes, pending_jobs, schedule_runs


@dataclass
class StoredFacts:
    """The facts for one pending job; see :class:`~airflow_snowpack.scheduling.constraints.constraint.ConstraintContext`."""

    conn: sa.Connection
    snapshot: Snapshot
    now: datetime
    dag_id: str
    schedule: str
    priority: int
    triggered_at: datetime

    def active_runs(self, dag_id: str) -> int:
        return self.count_of_dag(dag_id, reserved_runs(self.conn, [dag_id]))

    def active_runs_of_group(self, group: str) -> int:
        dag_ids = dags_of_group(self.conn, group)
        return self.count_of_group(dag_ids, reserved_runs(self.conn, dag_ids), runs_at_gates(self.conn, dag_ids))

    def count_of_dag(self, dag_id: str, reserved: Mapping[str, frozenset[str]]) -> int:
        """Count the active runs of a DAG.

        :param reserved: the runs that are active as far as the store knows, by DAG.
        :raises FactUnavailable: Airflow does not say how many runs it has.
        """
        known = self._told(dag_id)
        return known.others + len(reserved[dag_id] - known.ended.keys())

    def count_of_group(
        self, dag_ids: Iterable[str], reserved: Mapping[str, frozenset[str]], waiting: Mapping[str, frozenset[str]]
    ) -> int:
        """Count the active runs of a group's DAGs, as :meth:`count_of_dag` does for one.

        :param waiting: the runs that wait at a gate of their own: until they pass it, they take no place from other DAGs.
        """
        known = {dag_id: self._told(dag_id) for dag_id in dag_ids}
        return sum(
            runs.others + len(reserved[dag_id] - runs.ended.keys() - waiting.get(dag_id, frozenset()))
            for dag_id, runs in known.items()
        )

    def _told(self, dag_id: str) -> DagRuns:
        runs = self.snapshot.dag_runs.get(dag_id, DagRuns())
        if isinstance(runs, Unavailable):
            raise FactUnavailable(f"the runs of {dag_id} are not known: {runs.why}")
        return runs

    def last_success(self, dag_id: str) -> datetime | None:
        query = sa.select(dag_successes.c.ended_at).where(dag_successes.c.dag_id == dag_id)
        return self.conn.execute(query).scalar()

    def launches_since(self, moment: datetime) -> tuple[datetime, ...]:
        mine = sa.and_(schedule_runs.c.schedule == self.schedule, schedule_runs.c.reserved_at > moment)
        query = sa.select(schedule_runs.c.reserved_at).where(mine).order_by(schedule_runs.c.reserved_at)
        return tuple(self.conn.execute(query).scalars())

    def free_slots(self, pool: str) -> int | None:
        slots = self.snapshot.free_slots.get(pool)
        if isinstance(slots, Unavailable):
            raise FactUnavailable(f"the free slots of pool {pool} are not known: {slots.why}")
        return slots.free if isinstance(slots, FreeSlots) else slots

    def load(self, probe: str) -> float:
        return self.snapshot.loads[probe]

    def held(self, key: str) -> int:
        return held(self.conn, key, self.snapshot.taken_at or self.now)

    def more_urgent(self, key: str) -> int:
        waiting = sa.and_(pending_jobs.c.waits_for == key, is_open)
        query = sa.select(sa.func.count()).select_from(pending_jobs)
        return self.conn.execute(query.where(waiting, pending_jobs.c.priority > self.priority)).scalar_one()
