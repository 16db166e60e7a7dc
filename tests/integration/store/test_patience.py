"""A store for processes that answer people: it says within seconds that it is away, and it comes back by itself."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from scripted_engine import PATIENCE_S, eventually

from airflow_snowpack.hooks import SnowpackHook
from airflow_snowpack.store import Patience, Store, StoreUnreachable, open_store
from airflow_snowpack.store.engine import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postgres_server import PostgresServer

HANGS_S = 5.0
"""The one limit on time: what a server that answers people promises (issue 4), whatever hangs."""
QUICK = Patience(answer=timedelta(seconds=2.5))
"""Shorter than the default, so that a busy machine does not fail a test; libpq allows no less than two for a connection."""


@contextmanager
def nothing_hangs() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < HANGS_S


@pytest.fixture
def server(own_postgres: PostgresServer) -> Iterator[PostgresServer]:
    yield own_postgres
    own_postgres.thaw()


@pytest.fixture
def store(server: PostgresServer) -> Iterator[Store]:
    with patient(server.url) as store:
        yield store


def patient(url: str | sa.URL, patience: Patience | None = None) -> Store:
    """A store without tables, as :func:`open_store` opens it."""
    patience = patience or QUICK
    return Store(open_engine(url, patience), patience=patience)


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


def test_the_default_patience_ends_before_anything_hangs() -> None:
    patience = Patience()

    assert patience.statement < patience.answer < timedelta(seconds=HANGS_S)
    assert patience.repeat + patience.connect <= patience.answer, "the last try has time for a connection"
    assert max(patience.connection, patience.file) < patience.answer


def test_a_stopped_server_is_reported_at_once_and_found_again_when_it_is_back(server: PostgresServer, store: Store) -> None:
    assert ask(store) == 1
    server.stop()
    with nothing_hangs(), pytest.raises(StoreUnreachable):
        ask(store)
    with nothing_hangs(), pytest.raises(StoreUnreachable):
        write(store)

    server.start()
    eventually(lambda: is_back(store))
    write(store)


def test_a_server_that_answers_nothing_is_given_up_and_found_again_when_it_is_back(server: PostgresServer, store: Store) -> None:
    assert ask(store) == 1
    server.freeze()
    with nothing_hangs(), pytest.raises(StoreUnreachable, match="did not answer in time"):
        ask(store)
    with nothing_hangs(), pytest.raises(StoreUnreachable):
        write(store)
    with nothing_hangs(), pytest.raises(StoreUnreachable):
        open_store(server.url, patience=QUICK)

    server.thaw()
    eventually(lambda: is_back(store))
    write(store)


def test_a_server_that_falls_silent_within_a_transaction_is_given_up(server: PostgresServer, store: Store) -> None:
    def freeze_between(conn: sa.Connection) -> None:
        conn.exec_driver_sql("SELECT 1")
        server.freeze()
        conn.exec_driver_sql("SELECT 2")

    with nothing_hangs(), pytest.raises(StoreUnreachable):
        store.transact(freeze_between)
    server.thaw()
    eventually(lambda: is_back(store))


def test_forty_threads_that_meet_a_silent_server_do_not_wait_for_each_other(server: PostgresServer, store: Store) -> None:
    together = Barrier(40)

    def look(number: int) -> bool:
        together.wait(PATIENCE_S)
        return (ask(store) if number % 2 else write(store)) != 0

    with ThreadPoolExecutor(40) as pool:
        assert all(pool.map(look, range(40)))
        server.freeze()
        with nothing_hangs():
            unreachable = [future.exception() for future in [pool.submit(look, number) for number in range(40)]]
        assert all(isinstance(error, StoreUnreachable) for error in unreachable)
        with nothing_hangs():  # four times as many requests as threads: an outage that is known is not waited for again
            answers = [pool.submit(ask, store).exception for _ in range(160)]
            assert all(isinstance(answer(), StoreUnreachable) for answer in answers)
        server.thaw()
        eventually(lambda: is_back(store))
        assert all(pool.map(look, range(40)))


def test_forty_threads_work_at_the_same_moment_and_leave_few_connections(server: PostgresServer, store: Store) -> None:
    together = Barrier(40)

    def meet(conn: sa.Connection) -> int:
        together.wait(HANGS_S)  # every one of them has a connection now
        one: int = conn.exec_driver_sql("SELECT 1").scalar_one()
        return one

    with ThreadPoolExecutor(40) as pool:
        for work in (store.read, store.transact) * 2:
            assert list(pool.map(lambda _number, work=work: work(meet), range(40))) == [1] * 40
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with patient(server.url) as other:
        few = QUICK.idle * 2
        eventually(lambda: other.read(lambda conn: conn.exec_driver_sql(count).scalar_one()) <= few)


def test_when_all_connections_are_in_use_the_wait_for_one_ends(postgres_database: str) -> None:
    done = threading.Event()
    scarce = Patience(connections=1, connection=timedelta(milliseconds=50))
    with patient(postgres_database, scarce) as store, ThreadPoolExecutor(1) as pool:
        holding = threading.Event()
        holder = pool.submit(store.transact, lambda _conn: (holding.set(), done.wait(HANGS_S)))
        assert holding.wait(HANGS_S)
        with pytest.raises(StoreUnreachable, match="QueuePool limit"):
            ask(store)
        done.set()
        holder.result()
        assert ask(store) == 1


def test_the_server_ends_a_statement_that_takes_too_long_and_the_next_one_is_not_refused(postgres_database: str) -> None:
    with patient(postgres_database, Patience(answer=timedelta(seconds=2))) as store:
        with pytest.raises(StoreUnreachable, match="statement timeout"):
            store.read(lambda conn: conn.exec_driver_sql("SELECT pg_sleep(30)"))
        assert ask(store) == 1


def test_a_worker_waits_as_long_as_it_takes(postgres_database: str) -> None:
    with Store(open_engine(postgres_database)) as store:
        assert store.read(lambda conn: conn.exec_driver_sql("SHOW statement_timeout").scalar_one()) == "0"


def test_an_embedded_file_that_somebody_else_writes_to_is_waited_for_shortly(sqlite_url: str) -> None:
    patience = Patience(file=timedelta(milliseconds=50), repeat=timedelta(milliseconds=100))
    with patient(sqlite_url, patience) as store, sqlite3.connect(sa.make_url(sqlite_url).database or "") as other:
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

    with patient(postgres_database) as store:
        with pytest.raises(LookupError):
            store.transact(refuse)
        assert ask(store) == 1


def test_the_hook_opens_the_store_with_the_patience_that_it_was_given(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "sqlite", "host": sa.make_url(sqlite_url).database}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(connection))
    patience = Patience(file=timedelta(milliseconds=50))

    with SnowpackHook("store", patience=patience) as hook:
        timeout = hook.store().read(lambda conn: conn.exec_driver_sql("PRAGMA busy_timeout").scalar_one())
    assert timeout == 50
