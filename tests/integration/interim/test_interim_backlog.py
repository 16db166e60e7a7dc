"""A collector that was away for long meets many runs with many consumers, and says to the store what that can take at once."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest
import sqlalchemy as sa
from clocks import MovedClock
from interim_lake import DAG, RUN, InterimLake, ReportedRuns

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.rows import run_key, touch
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.interim import interim_pins

FILL = """INSERT INTO interim_pins (table_id, run_key, task_id)
    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < :tasks - 1) SELECT :key, :key, 'task' || i FROM n"""


def fill(store: Store, clock: MovedClock, *, runs: int, tasks: int) -> list[str]:
    """Runs that are due, and the consumers in each; gives the runs' ids."""
    run_ids = [f"{RUN}_{number}" for number in range(runs)]

    def write(conn: sa.Connection) -> None:
        for run_id in run_ids:
            conn.execute(sa.text(FILL), {"tasks": tasks, "key": run_key(DAG, run_id)})
            touch(conn, TaskRef(DAG, run_id, ""), look_at=clock())

    store.transact(write)
    return run_ids


def pins(store: Store) -> int:
    return int(store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(interim_pins)).scalar_one()))


@pytest.mark.one_database
def test_more_consumers_of_ended_runs_than_a_statement_takes_values_are_foreseen(
    interim_store: Store, lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    for run_id in fill(interim_store, clock, runs=300, tasks=255):
        reported.end(run_id)

    assert lake_of_tables.collect(reported, dry_run=True).runs == 300
    assert pins(interim_store) == 76_500, "nothing was changed"


@pytest.mark.one_database
def test_consumers_of_runs_that_go_on_never_need_more_values_than_a_database_takes(
    interim_store: Store, lake_of_tables: InterimLake, reported: ReportedRuns, clock: MovedClock
) -> None:
    def small(connection: Any, *_: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 7_000)

    sa.event.listen(interim_store.engine, "checkout", small)
    for run_id in fill(interim_store, clock, runs=101, tasks=80):
        reported.finish(*(f"task{number}" for number in range(80)), run_id=run_id)

    assert lake_of_tables.collect(reported, dry_run=True).runs == 101
    assert pins(interim_store) == 101 * 80
    assert lake_of_tables.collect(reported).runs == 101
    assert pins(interim_store) == 0
