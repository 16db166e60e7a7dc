"""Reserves runs: from here on they count as active, and the launcher starts them.

    reserve_runs(conn, store, [Reservation(schedule, pending_id, run_id, why)])

The invariant: a reserved run has its pending run, its place among the active runs, its slots of pools and its launch, or
nothing of these: the caller's transaction writes them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.launches.active_runs import amounts_of, reserve_slots
from airflow_snowpack.scheduling.launches.run_ends import LAUNCHED_INTERVAL, watch_runs
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import launches, schedule_runs


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run to start, or to let continue at a gate, that is not described by a schedule.

    :param name: of its registered run, or of the task of its gate.
    :param constraints: what it waits for; they name what it takes of pools and loads while Airflow does not show it.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any]
    constraints: Sequence[Constraint] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """One run to reserve.

    :param why: what the run finds in its ``conf`` under ``snowpack``, about why it runs.
    :param absorbs: whether further events of its schedule join it until a launcher claims it.
    """

    wanted: Schedule | Wanted
    pending_id: str
    run_id: str
    why: Mapping[str, Any]
    absorbs: bool = False

    @property
    def run(self) -> dict[str, str]:
        """The columns that name the run, among the active runs and in its launch."""
        return {"dag_id": self.wanted.dag_id, "run_id": self.run_id, "schedule": self.wanted.name}


def reserve_runs(conn: sa.Connection, store: Store, reservations: Sequence[Reservation]) -> None:
    """Reserve runs for the launcher, in as many statements as one; each that takes slots of a pool or adds to a load needs more.

    The caller restarts the periods of their schedules.
    """
    now = store.clock()
    conn.execute(sa.insert(schedule_runs), [{**one.run, "reserved_at": now} for one in reservations])
    for one in reservations:
        if amounts_of(one.wanted.constraints):
            reserve_slots(conn, one.wanted.constraints, one.wanted.dag_id, one.run_id)
    watch_runs(conn, store, {one.wanted.dag_id for one in reservations}, now=now, look_at=now + LAUNCHED_INTERVAL)
    claimable = {"enqueued_at": now, "visible_at": now, "attempt_count": 0}
    conn.execute(
        sa.insert(launches),
        [
            {
                "pending_id": one.pending_id,
                **one.run,
                "conf": {**one.wanted.conf, "snowpack": dict(one.why)},
                **claimable,
                "absorbs": one.absorbs,
            }
            for one in reservations
        ],
    )


def run_id_of(schedule: str, pending_id: str, created_at: datetime) -> str:
    """Return the id of the DAG run that a pending run becomes: readable, and always the same."""
    return f"snowpack__{schedule[:100]}__{created_at:%Y%m%dT%H%M%S}__{pending_id[:12]}"
