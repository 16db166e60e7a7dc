"""The hot statements below the driver's cursor: values arrive as they were, and a connection that was lost is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from bounded import Beside
from scripted_engine import eventually
from sqlalchemy.exc import DBAPIError

from airflow_snowpack.store import Store
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.pg_prepared import PgPrepared

KINDS = {
    "words": sa.Text(),
    "flag": sa.Boolean(),
    "number": sa.Integer(),
    "moment": UtcDateTime(),
    "tree": sa.JSON(none_as_null=True),
}
ECHO = PgPrepared(sa.select(*(sa.bindparam(name, type_=kind).label(name) for name, kind in KINDS.items())))
NOTHING = dict.fromkeys(KINDS)


@pytest.fixture
def store(postgres_database: str) -> Iterator[Store]:
    with Store(open_engine(postgres_database)) as store:
        yield store


def test_values_arrive_as_they_were(store: Store) -> None:
    values = {
        "words": "Zürich 🏔 $1 ' \\ %s",
        "flag": False,
        "number": -7,
        "moment": datetime(2026, 11, 21, 5, 4, 3, 2, UTC),
        "tree": {"a": [1, None, "\x00 é"], "b": {}},
    }
    row = store.single(lambda conn: ECHO.first(conn, values))
    assert row._asdict() == values
    assert store.single(lambda conn: ECHO.first(conn, NOTHING))._asdict() == NOTHING


def test_moments_are_utc_whatever_zone_and_style_the_database_prefers(store: Store, postgres_database: str) -> None:
    name = sa.make_url(postgres_database).database
    store.single(lambda conn: conn.exec_driver_sql(f"ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'"))
    store.single(lambda conn: conn.exec_driver_sql(f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'"))
    store.close()
    moment = datetime(2026, 11, 21, 23, 59, 59, 999_999, UTC)

    row = store.single(lambda conn: ECHO.first(conn, NOTHING | {"moment": moment}))

    assert row.moment == moment
    assert row.moment.tzinfo is UTC


def test_text_that_the_server_would_cut_off_is_refused(store: Store) -> None:
    with pytest.raises(DBAPIError, match="NUL"):
        store.single(lambda conn: ECHO.first(conn, NOTHING | {"words": "a\x00b"}))


def test_a_naive_moment_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        store.single(lambda conn: ECHO.first(conn, NOTHING | {"moment": datetime(2026, 11, 21)}))  # noqa: DTZ001  that is the point


def deallocate(store: Store) -> None:
    store.single(lambda conn: conn.exec_driver_sql("DEALLOCATE ALL"))


def end_from_elsewhere(store: Store) -> None:
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with open_engine(store.engine.url).connect() as other:
        other.exec_driver_sql(f"SELECT pg_terminate_backend(pid) {others}")


def leave_a_command_in_progress(store: Store) -> None:
    """What is left of a connection whose end was only half read."""
    store.single(lambda conn: conn.connection.dbapi_connection.pgconn.send_query(b"SELECT 1"))


@pytest.mark.parametrize("damage", [deallocate, end_from_elsewhere, leave_a_command_in_progress])
def test_a_connection_that_cannot_run_a_prepared_statement_is_replaced(store: Store, damage: Callable[[Store], None]) -> None:
    store.single(lambda conn: ECHO.first(conn, NOTHING))
    damage(store)

    assert store.single(lambda conn: ECHO.first(conn, NOTHING | {"number": 5})).number == 5


def test_the_same_statement_written_twice_is_one_to_the_server(store: Store) -> None:
    again = PgPrepared(sa.select(*(sa.bindparam(name, type_=kind).label(name) for name, kind in KINDS.items())))

    def ask_both(conn: sa.Connection) -> list[int]:
        rows = (each.first(conn, NOTHING | {"number": number}) for number, each in enumerate((ECHO, again)))
        return [row.number for row in rows if row is not None]

    assert store.transact(ask_both) == [0, 1]


class TimeOver(BaseException):
    """As Airflow's for a task: none that anybody catches by the way."""


def test_a_signal_in_the_middle_leaves_neither_a_lock_nor_a_connection_that_is_busy(store: Store) -> None:
    store.single(lambda conn: conn.exec_driver_sql("CREATE TABLE counted (n integer)"))
    store.single(lambda conn: conn.exec_driver_sql("INSERT INTO counted VALUES (0)"))
    counted = sa.table("counted", sa.column("n", sa.Integer))
    count_up = PgPrepared(sa.update(counted).values(n=counted.c.n + sa.bindparam("by", type_=sa.Integer)))

    def over(_signal: int, _frame: object) -> None:
        raise TimeOver

    def signal_once_it_waits() -> None:
        try:
            with Store(open_engine(store.engine.url)) as observer:
                eventually(lambda: observer.read(lambda conn: conn.exec_driver_sql(waiting).scalar()) == 1)
                seen.append("waits")
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)

    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    seen: list[str] = []
    before = signal.signal(signal.SIGUSR1, over)
    try:
        with open_engine(store.engine.url).begin() as other:
            other.exec_driver_sql("UPDATE counted SET n = 10")
            with pytest.raises(TimeOver):
                store.transact(lambda conn: (Beside(signal_once_it_waits), count_up.count(conn, {"by": 1})))
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert seen == ["waits"]
    assert store.transact(lambda conn: count_up.count(conn, {"by": 1})) == 1
    assert store.read(lambda conn: conn.exec_driver_sql("SELECT n FROM counted").scalar()) == 11
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    eventually(lambda: store.read(lambda conn: conn.exec_driver_sql(open_ones).scalar()) == 0)


def test_it_runs_in_the_transaction_around_it(store: Store) -> None:
    store.single(lambda conn: conn.exec_driver_sql("CREATE TABLE kept (n integer)"))
    insert = PgPrepared(
        sa.insert(sa.table("kept", sa.column("n", sa.Integer))).values(n=sa.bindparam("n")).returning(sa.column("n"))
    )

    def fail(conn: sa.Connection) -> None:
        insert.first(conn, {"n": 1})
        raise LookupError

    with pytest.raises(LookupError):
        store.transact(fail)
    store.transact(lambda conn: insert.first(conn, {"n": 2}))

    assert store.read(lambda conn: conn.exec_driver_sql("SELECT n FROM kept").scalars().all()) == [2]
