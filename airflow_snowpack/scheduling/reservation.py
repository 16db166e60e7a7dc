"""Reserving a run: from here on it counts as active, and the launcher starts it.

    reserve_run(conn, store, Wanted.by(schedule), pending_id, run_id, told)

The invariant: a run that is reserved has its pending job, its place among the active runs, what it holds of pools, and its
launch, or nothing of it; the caller's transaction holds them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.constraint import Constraint
from airflow_snowpack.scheduling.holding import hold
from airflow_snowpack.scheduling.run_ends import SELDOM, watch_runs
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import launches, schedule_runs


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
    told: Mapping[str, Any],
    *,
    absorbs: bool = False,
) -> None:
    """Reserve it, and hand it to the launcher. The periods of its schedule are the caller's to restart.

    :param told: what the run finds in its ``conf`` under ``snowpack``, about why it runs.
    :param absorbs: whether further events of its schedule join it until a launcher claims it.
    """
    now = store.clock()
    run = {"dag_id": wanted.dag_id, "run_id": run_id, "schedule": wanted.name}
    conn.execute(sa.insert(schedule_runs).values(**run, reserved_at=now))
    hold(conn, wanted.constraints, wanted.dag_id, run_id)
    watch_runs(conn, store, [wanted.dag_id], now=now, look_at=now + SELDOM)
    conf = {**wanted.conf, "snowpack": dict(told)}
    claimable = {"enqueued_at": now, "visible_at": now, "attempt_count": 0, "absorbs": absorbs}
    conn.execute(sa.insert(launches).values(pending_id=pending_id, **run, conf=conf, **claimable))


def run_id_of(schedule: str, pending_id: str, created_at: datetime) -> str:
    """The id of the DAG run that a pending job becomes: readable, and always the same."""
    return f"snowpack__{schedule[:100]}__{created_at:%Y%m%dT%H%M%S}__{pending_id[:12]}"
