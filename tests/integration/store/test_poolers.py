"""A pooler in front of Postgres that gives each transaction another session: the store works, and leaves nothing in a session."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from transaction_pooler import SESSIONS, transaction_pooler

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs, JobStatus
from airflow_snowpack.store import Deadlines, PoolerRefusesTransactions, Store, open_store
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.migrate import upgrade_schema
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.prepared import PreparedStatement

LEFT_BEHIND = """
SELECT count(*) FROM pg_settings
 WHERE source = 'session' AND name NOT IN ('client_encoding', 'application_name')
UNION ALL SELECT count(*) FROM pg_prepared_statements
UNION ALL SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
"""


@pytest.fixture
def pooled(postgres_database: str) -> Iterator[str]:
    with transaction_pooler(postgres_database) as url:
        yield url


def sessions_used(store: Store) -> set[int]:
    """The sessions of a few transactions of one thread."""
    pid = sa.text("SELECT pg_backend_pid()")
    return {store.transact(lambda conn: conn.execute(pid).scalar_one()) for _ in range(2 * SESSIONS)}


def test_jobs_go_their_way_behind_a_pooler_that_changes_sessions(pooled: str) -> None:
    with open_store(pooled, of_a_task=True) as store, Jobs(store) as jobs:
        assert len(sessions_used(store)) > 1, "otherwise this shows nothing"
        names = [f"analytics.t{number}" for number in range(6)]
        for name in names:
            jobs.submit(TableName.parse(name, catalog="lake"), ["expire_snapshots"])
        with ThreadPoolExecutor(3) as workers:
            claimed = list(workers.map(lambda number: jobs.claim(f"worker-{number}"), range(6)))
        assert sorted(claim.job.table.dotted for claim in claimed if claim is not None) == names
        for claim in claimed:
            assert jobs.renew(claim)
            assert jobs.finish(claim, JobStatus.COMPLETED, [])
        assert {jobs.get(claim.job.job_id).status for claim in claimed if claim is not None} == {JobStatus.COMPLETED}


@pytest.mark.parametrize("deadlines", [None, Deadlines()])
def test_nothing_is_left_in_the_sessions_that_others_get_next(pooled: str, deadlines: Deadlines | None) -> None:
    one = PreparedStatement(sa.select(sa.bindparam("number", 1, sa.Integer).label("number")))
    with open_store(pooled, deadlines=deadlines) as store:
        for _ in range(SESSIONS):
            assert store.read(lambda conn: one.first(conn, {"number": 7})).number == 7
            assert store.transact(lambda conn: one.first(conn, {"number": 7})).number == 7
        left = [store.engine.raw_connection().driver_connection.execute(LEFT_BEHIND).fetchall() for _ in range(2 * SESSIONS)]
    assert left == [[(0,), (0,), (0,)]] * 2 * SESSIONS


def test_a_statement_has_its_settings_whatever_the_databases_defaults_are(pooled: str) -> None:
    moment = datetime(2026, 11, 3, 12, 30, tzinfo=UTC)
    hot = PreparedStatement(sa.select(sa.bindparam("at", type_=UtcDateTime).label("at")))
    with Store(open_engine(pooled)) as store:
        name = sa.make_url(pooled).database
        for setting in ("datestyle = 'SQL, DMY'", "default_transaction_isolation = 'serializable'"):
            store.transact(lambda conn, setting=setting: conn.exec_driver_sql(f'ALTER DATABASE "{name}" SET {setting}'))
    with transaction_pooler(pooled) as fresh, Store(open_engine(fresh)) as store:
        for ask in (store.read, store.transact) * SESSIONS:
            assert ask(lambda conn: hot.first(conn, {"at": moment})).at == moment
            assert ask(lambda conn: conn.exec_driver_sql("SHOW transaction_isolation").scalar_one()) == "read committed"
            assert ask(lambda conn: conn.exec_driver_sql("SHOW enable_seqscan").scalar_one()) == "off"


def test_the_tables_are_made_through_a_pooler(empty_postgres_database: str) -> None:
    with transaction_pooler(empty_postgres_database) as url:
        with Store(open_engine(url)) as store:
            upgrade_schema(store)
        open_store(url).close()


def test_a_pooler_of_statements_is_refused_with_what_to_do(postgres_database: str) -> None:
    with (
        transaction_pooler(postgres_database, statements=True) as url,
        pytest.raises(PoolerRefusesTransactions, match="Set `pool_mode = transaction` or `session`"),
    ):
        open_store(url)


def test_a_connection_to_postgres_itself_is_prepared_once(postgres_database: str) -> None:
    one = PreparedStatement(sa.select(sa.bindparam("number", 1, sa.Integer).label("number")))

    def ask(conn: sa.Connection) -> Any:
        one.first(conn, {"number": 7})
        return conn.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()

    with open_store(postgres_database) as store:
        assert [store.transact(ask), store.transact(ask)] == [1, 1]
