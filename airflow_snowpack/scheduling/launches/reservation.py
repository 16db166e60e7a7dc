"""Reserving a run: from here on it counts as active, and the launcher starts it.

    reserve_run(conn, store, Wanted.by(schedule), pending_id, run_id, why)

The invariant: a run that is reserved has its pending job, its place among the active runs, what it holds of pools, and its
launch, or nothing of it; the caller's transaction holds them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraints.constraint import Constraint
from airflow_snowpack.scheduling.launches.run_ends import SELDOM, watch_runs
from airflow_snowpack.scheduling.launches.slot_reservations import amounts_of, hold
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.schedules import launches, schedule_runs


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run.

    :param name: of the schedule, or of the registered run, that wants it.
    :param constraints: what it takes of pools and loads while Airflow does not show it.
    """

    name: str
    dag_id: str
    conf: Mapping[str, Any]
    constraints: Sequence[Constraint] = ()
    priority: int = 0

    @classmethod
    def by(cls, schedule: Schedule) -> Wanted:
        """What a schedule wants."""
        return cls(schedule.name, schedule.dag_id, schedule.conf, schedule.constraints, schedule.priority)


def reserve_run(
    conn: sa.Connection,
    store: Store,
    wanted: Wanted,
    pending_id: str,
    run_id: str,
    why: Mapping[str, Any],
    *,
    absorbs: bool = False,
) -> None:
    """Reserve it, and hand it to the launcher. The periods of its schedule are the caller's to restart.

    :param why: what the run finds in its ``conf`` under ``snowpack``, about why it runs.
    :param absorbs: whether further events of its schedule join it until a launcher claims it.
    """
    reserve_runs(conn, store, [Reservation(wanted, pending_id, run_id, why, absorbs)])


@dataclass(frozen=True, slots=True)
class Reservation:
    """One run to reserve, with what :func:`reserve_run` takes."""

    wanted: Wanted
    pending_id: str
    run_id: str
    why: Mapping[str, Any]
    absorbs: bool = False

    @property
    def run(self) -> dict[str, str]:
        """The columns that name the run, among the active runs and in its launch."""
        return {"dag_id": self.wanted.dag_id, "run_id": self.run_id, "schedule": self.wanted.name}


def reserve_runs(conn: sa.Connection, store: Store, reservations: Sequence[Reservation]) -> None:
    """Reserve several runs, in as many statements as one; each that takes slots of a pool or adds to a load needs more."""
    now = store.clock()
    conn.execute(sa.insert(schedule_runs), [{**one.run, "reserved_at": now} for one in reservations])
    for one in reservations:
        if amounts_of(one.wanted.constraints):
            hold(conn, one.wanted.constraints, one.wanted.dag_id, one.run_id)
    watch_runs(conn, store, {one.wanted.dag_id for one in reservations}, now=now, look_at=now + SELDOM)
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
    """The id of the DAG run that a pending job becomes: readable, and always the same."""
    return f"snowpack__{schedule[:100]}__{created_at:%Y%m%dT%H%M%S}__{pending_id[:12]}"
