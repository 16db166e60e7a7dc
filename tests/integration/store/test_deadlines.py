"""A store for processes that answer people: it says within seconds that it is away, and it comes back by itself."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from threading import Barrier

import pytest
import sqlalchemy as sa
from postgres_server import PostgresServer, running_server
from scripted_engine import PATIENCE_S, eventually

from airflow_snowpack import hooks
from airflow_snowpack.store import Deadlines, Store, StoreTooSlow, StoreUnreachable, open_store
from airflow_snowpack.store.deadlines import Outage
from airflow_snowpack.store.opening import open_engine

PROMISED_S = 5.0
"""What a server that answers people promises, whatever hangs. No test measures it: a busy machine would not keep to it."""
SHORT = Deadlines(answer=timedelta(seconds=1), repeat=timedelta(milliseconds=200), pause=timedelta(milliseconds=100))
"""Gives up soon, so what must succeed is tried until it does. libpq waits at least two seconds for a connection."""
LONG = Deadlines(answer=timedelta(minutes=2), connect=timedelta(minutes=1), connection=timedelta(minutes=1))
"""For what must succeed at once, however busy the machine is."""


@pytest.fixture(scope="module")
def only_server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def server(only_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that a test may stop or freeze, if it starts what it stopped."""
    yield only_server
    only_server.thaw()


@pytest.fixture
def store(server: PostgresServer) -> Iterator[Store]:
    with patient(server.url, SHORT) as store:
        eventually(lambda: is_back(store))
        yield store


def patient(url: str | sa.URL, deadlines: Deadlines) -> Store:
    """A store without tables, as :func:`open_store` opens it."""
    return Store(open_engine(url, deadlines), deadlines=deadlines)


def ask(store: Store) -> int:
    one: int = store.read(lambda conn: conn.exec_driver_sql("SELECT 1").scalar_one())
    return one


def write(store: Store) -> None:
    store.transact(lambda conn: conn.exec_driver_sql("CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT)"))


def is_back(store: Store) -> bool:
    try:
        return ask(store) == 1
    except StoreUnreachable:
        return False


def is_written(store: Store) -> bool:
    try:
        write(store)
    except StoreUnreachable:
        return False
    return True


def errors_of(store: Store) -> list[BaseException]:
    """The errors of the driver from now on, for connections and for statements: on a silent server each attempt ends in one."""
    errors: list[BaseException] = []
    sa.event.listen(store.engine, "handle_error", lambda context: errors.append(context.original_exception))
    return errors


@pytest.mark.parametrize("request_timeout", [timedelta(seconds=PROMISED_S), timedelta(minutes=1)])
def test_deadlines_end_before_the_request_that_they_are_for(request_timeout: timedelta) -> None:
    deadlines = Deadlines.within(request_timeout)

    assert deadlines.statement < deadlines.answer < request_timeout
    assert deadlines.repeat + deadlines.connect <= deadlines.answer, "the last try has time for a connection"
    assert max(deadlines.connection, deadlines.file) < deadlines.answer


def test_a_stopped_server_is_reported_and_found_again_when_it_is_back(server: PostgresServer, store: Store) -> None:
    server.stop()
    with pytest.raises(StoreUnreachable):
        ask(store)
    with pytest.raises(StoreUnreachable):
        write(store)

    server.start()
    eventually(lambda: is_back(store))
    eventually(lambda: is_written(store))


def test_a_server_that_answers_nothing_is_given_up_and_found_again_when_it_is_back(server: PostgresServer, store: Store) -> None:
    server.freeze()
    with pytest.raises(StoreUnreachable, match="did not answer in time"):
        ask(store)
    with pytest.raises(StoreUnreachable):
        write(store)
    with pytest.raises(StoreUnreachable):
        open_store(server.url, deadlines=SHORT)

    server.thaw()
    eventually(lambda: is_back(store))
    eventually(lambda: is_written(store))


def test_a_server_that_falls_silent_within_a_transaction_is_given_up(server: PostgresServer, store: Store) -> None:
    def freeze_between(conn: sa.Connection) -> None:
        conn.exec_driver_sql("SELECT 1")
        server.freeze()
        conn.exec_driver_sql("SELECT 2")

    with pytest.raises(StoreUnreachable):
        store.transact(freeze_between)
    server.thaw()
    eventually(lambda: is_back(store))


def test_forty_threads_that_meet_a_silent_server_do_not_wait_for_each_other(server: PostgresServer) -> None:
    together = Barrier(40)

    def works(number: int) -> bool:
        return is_back(store) if number % 2 else is_written(store)

    def look(number: int) -> bool:
        together.wait(PATIENCE_S)
        return works(number)

    with patient(server.url, replace(SHORT, answer=timedelta(seconds=5))) as store, ThreadPoolExecutor(40) as pool:
        list(pool.map(lambda number: eventually(lambda: works(number)), range(40)))
        server.freeze()
        start = time.monotonic()
        assert not any(pool.map(look, range(40)))
        assert time.monotonic() - start < 150, "one after the other they would wait for 200 seconds"
        server.thaw()
        list(pool.map(lambda number: eventually(lambda: works(number)), range(40)))


def test_an_outage_that_is_known_is_not_waited_for_again(server: PostgresServer) -> None:
    with patient(server.url, replace(SHORT, pause=timedelta(hours=1))) as store, ThreadPoolExecutor(40) as pool:
        server.freeze()
        errors = errors_of(store)
        with pytest.raises(StoreUnreachable):
            ask(store)
        assert len(errors) == 1
        refused = [pool.submit(ask if number % 2 else write, store).exception for number in range(160)]
        assert all(isinstance(error(), StoreUnreachable) for error in refused)
    assert len(errors) == 1, "the server was asked once"


def test_after_the_pause_one_caller_tries_and_the_others_are_refused_until_it_knows() -> None:
    outage = Outage(Deadlines(pause=timedelta(0), answer=timedelta(hours=1)))
    outage.begins("the server", OSError("gone"))

    outage.check()  # the one that tries
    with pytest.raises(StoreUnreachable, match="the server"):
        outage.check()
    outage.ends()
    outage.check()


def test_forty_threads_work_at_the_same_moment_and_leave_few_connections(server: PostgresServer) -> None:
    together = Barrier(40)

    def meet(conn: sa.Connection) -> int:
        together.wait(PATIENCE_S)  # every one of them has a connection now
        one: int = conn.exec_driver_sql("SELECT 1").scalar_one()
        return one

    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with patient(server.url, LONG) as store, patient(server.url, LONG) as other:
        with ThreadPoolExecutor(40) as pool:
            for work in (store.read, store.transact) * 2:
                assert list(pool.map(lambda _number, work=work: work(meet), range(40))) == [1] * 40
        few = LONG.idle * 2
        eventually(lambda: other.read(lambda conn: conn.exec_driver_sql(count).scalar_one()) <= few)


def test_when_all_connections_are_in_use_the_wait_for_one_ends(postgres_database: str) -> None:
    done, holding = threading.Event(), threading.Event()
    scarce = replace(LONG, connections=1, connection=timedelta(milliseconds=50))
    with patient(postgres_database, scarce) as store, ThreadPoolExecutor(1) as pool:
        holder = pool.submit(store.transact, lambda _conn: (holding.set(), done.wait(PATIENCE_S)))
        assert holding.wait(PATIENCE_S)
        with pytest.raises(StoreUnreachable, match="QueuePool limit"):
            ask(store)
        done.set()
        holder.result()
        assert ask(store) == 1


ENDLESS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "postgresql": "SELECT pg_sleep(300)",
}


@pytest.mark.parametrize("way", ["read", "transact"])
def test_a_statement_that_takes_too_long_is_ended_and_the_store_counts_as_up(store_url: str, way: str) -> None:
    short = replace(LONG, answer=timedelta(milliseconds=400), pause=timedelta(hours=1))
    # The limit of the Postgres server alone: on a busy machine its answer may come after the store has given up.
    deadlines = replace(short, answer=LONG.answer) if store_url.startswith("postgresql") else short
    with Store(open_engine(store_url, short), deadlines=deadlines) as store:
        endless = ENDLESS[store.engine.dialect.name]
        with pytest.raises(StoreTooSlow, match=r"is up, but .*Narrow it: name a table, a DAG, a status or a period") as caught:
            getattr(store, way)(lambda conn: conn.exec_driver_sql(endless).all())
        assert not isinstance(caught.value, StoreUnreachable)
        assert is_written(store), "no outage was recorded"


def test_a_statement_timeout_of_the_database_itself_is_no_outage_either(postgres_database: str) -> None:
    with Store(open_engine(postgres_database)) as store:

        def sleep(conn: sa.Connection) -> None:
            conn.exec_driver_sql("SET LOCAL statement_timeout = 100")
            conn.exec_driver_sql(ENDLESS["postgresql"])

        with pytest.raises(StoreTooSlow):
            store.transact(sleep)


def test_a_worker_waits_as_long_as_it_takes(postgres_database: str) -> None:
    with Store(open_engine(postgres_database)) as store:
        assert store.read(lambda conn: conn.exec_driver_sql("SHOW statement_timeout").scalar_one()) == "0"


def test_an_embedded_file_that_somebody_else_writes_to_is_waited_for_shortly(sqlite_url: str) -> None:
    short = replace(LONG, file=timedelta(milliseconds=50), repeat=timedelta(milliseconds=100))
    with patient(sqlite_url, short) as store, sqlite3.connect(sa.make_url(sqlite_url).database or "") as other:
        store.transact(lambda conn: conn.exec_driver_sql("CREATE TABLE t (a INT)"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnreachable, match="database is locked"):
            store.transact(lambda conn: conn.exec_driver_sql("INSERT INTO t VALUES (1)"))
        assert ask(store) == 1, "who only reads is not kept from it"
        other.rollback()
        store.transact(lambda conn: conn.exec_driver_sql("INSERT INTO t VALUES (1)"))


def test_work_that_refuses_does_not_count_as_an_outage(postgres_database: str) -> None:
    def refuse(_conn: sa.Connection) -> None:
        raise LookupError("no such thing")

    with patient(postgres_database, LONG) as store:
        with pytest.raises(LookupError):
            store.transact(refuse)
        assert ask(store) == 1


def test_the_hook_opens_the_store_with_its_deadlines(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "sqlite", "host": sa.make_url(sqlite_url).database}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(connection))
    deadlines = Deadlines(file=timedelta(milliseconds=50))

    with hooks.SnowpackHook("store", deadlines=deadlines) as hook:
        timeout = hook.store().read(lambda conn: conn.exec_driver_sql("PRAGMA busy_timeout").scalar_one())
    assert timeout == 50
