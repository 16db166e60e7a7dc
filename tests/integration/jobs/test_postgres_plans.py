"""What keeps the lifecycle fast on Postgres: index look-ups whatever was planned when, and heartbeats that stay HOT updates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import new_database
from scripted_engine import eventually
from sqlalchemy.dialects import postgresql

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, statements as do, steps_postgres as steps
from airflow_snowpack.store import Leases, Store, open_store
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.pg_prepared import PgPrepared

FINISHED, WAITING, BEATS = 20_000, 2_000, 300


@pytest.fixture
def store(postgres_database: str) -> Iterator[Store]:
    with open_store(postgres_database) as store:
        yield store


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def filled(request: pytest.FixtureRequest, postgres_url: str, migrated_postgres: str) -> Iterator[Store]:
    """Many finished jobs and a long queue, with the statistics of ANALYZE and without any; tests only read from it."""
    with new_database(postgres_url, template=migrated_postgres) as url, Store(open_engine(url)) as store:
        fill(store)
        if request.param == "analyzed":
            store.single(lambda conn: conn.exec_driver_sql("ANALYZE"))
        yield store


def fill(store: Store) -> None:
    """Insert the finished jobs and the queue in bulk."""

    def insert(conn: sa.Connection) -> None:
        conn.exec_driver_sql(f"""
            INSERT INTO jobs (job_id, catalog, database_name, table_name, table_key, actions, options, dry_run, inline,
                              status, submitted_at, attempt)
            SELECT 'job' || i, 'lake', 'db', 't' || i, 'lake.db.t' || i, '["expire_snapshots"]', '{{}}', false, false,
                   CASE WHEN i <= {FINISHED} THEN 'completed' ELSE 'pending' END, now(), 0
              FROM generate_series(1, {FINISHED + WAITING}) i""")
        conn.exec_driver_sql(f"""
            INSERT INTO job_queue (job_id, enqueued_at, visible_at, attempt_count)
            SELECT 'job' || i, now(), now(), 0 FROM generate_series({FINISHED + 1}, {FINISHED + WAITING}) i""")
        conn.exec_driver_sql(f"""
            INSERT INTO table_locks (table_key, catalog, database_name, table_name, holder, acquired_at, expires_at)
            SELECT 'lake.db.t' || i, 'lake', 'db', 't' || i, 'job' || i, now(), now() + interval '30 min'
              FROM generate_series({FINISHED + 1}, {FINISHED + WAITING}) i""")

    store.transact(insert)


def text_of(statement: Any) -> str:
    numbered = postgresql.psycopg.dialect(paramstyle="numeric_dollar")
    return statement.text if isinstance(statement, PgPrepared) else str(statement.compile(dialect=numbered))


LEASES: Leases = do.LEASES
HOT_STATEMENTS = {
    "submit": steps.SUBMIT,
    "submit with an entry in the audit trail": steps.SUBMIT_AUDITED,
    "claim the next": steps.CLAIM_NEXT,
    "claim one by its id": steps.CLAIM_KEY,
    "take over": steps.TAKE_OVER,
    "finish": steps.FINISH,
    "renew the lease": LEASES._renew,
    "renew the lock": do.renew_lock(),
    "look at the fence": LEASES._holds,
}


@pytest.mark.parametrize("name", HOT_STATEMENTS)
def test_hot_statements_look_rows_up_by_an_index(filled: Store, name: str) -> None:
    def plan(conn: sa.Connection) -> str:
        # The generic plan is the one that a prepared statement ends with; EXPLAIN of it needs no values.
        return "\n".join(conn.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {text_of(HOT_STATEMENTS[name])}").scalars())

    found = filled.single(plan)

    reads = [line.strip() for line in found.splitlines() if "Scan" in line and "CTE Scan" not in line]
    # The switches are a handful of rows at most, in one page; a function reads the rows of a parameter.
    beside_switches = [line for line in reads if " on switches" not in line and not line.startswith("->  Function Scan")]
    assert beside_switches, found
    assert all("Index" in line and "Bitmap" not in line for line in beside_switches), found
    assert "Sort" not in found, found
    assert "Hash" not in found, found


def test_heartbeats_are_hot_updates_and_so_need_no_index_maintenance(store: Store) -> None:
    with Jobs(store) as jobs:
        job = jobs.submit(TableName("lake", "db", "t"), ["expire_snapshots"])
        claim = jobs.claim("w1", job_id=job.job_id)
        for _ in range(BEATS):
            assert jobs.renew(claim)
        store.close()  # a backend hands in its counts when it ends at the latest

        for table in ("job_queue", "table_locks"):
            eventually(lambda table=table: updates(store, table)[0] == BEATS + 1)  # the claim updates both as well
            _, hot = updates(store, table)
            assert hot >= 0.97 * BEATS, f"{table}: {hot} of {BEATS} updates were HOT"


def updates(store: Store, table: str) -> tuple[int, int]:
    """Updates of a table, and how many of them were HOT, as the server has counted them so far."""
    query = sa.text("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = :table")
    row = store.read(lambda conn: conn.execute(query, {"table": table}).one())
    return row.n_tup_upd, row.n_tup_hot_upd
