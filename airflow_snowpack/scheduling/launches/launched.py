"""The runs that a schedule started, and how they ended.

for run in read_runs(store, "page_views_nightly"):
    print(run.run_id, run.state)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import schedule_runs


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A run of a schedule's DAG.

    :param reserved_at: when it was decided.
    :param launched_at: since when Airflow has it; ``None`` while it is being started.
    :param state: how it ended, ``success`` or ``failed``; ``None`` while that is not known.
    """

    dag_id: str
    run_id: str
    reserved_at: datetime
    launched_at: datetime | None
    ended_at: datetime | None
    state: str | None


def read_runs(store: Store, schedule: str, *, limit: int = 20) -> list[LaunchedRun]:
    """The newest first."""
    query = sa.select(schedule_runs).where(schedule_runs.c.schedule == schedule)
    query = query.order_by(schedule_runs.c.reserved_at.desc(), schedule_runs.c.run_id).limit(limit)
    rows = store.read(lambda conn: conn.execute(query).all())
    return [LaunchedRun(row.dag_id, row.run_id, row.reserved_at, row.launched_at, row.ended_at, row.state) for row in rows]
