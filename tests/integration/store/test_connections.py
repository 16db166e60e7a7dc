"""How many connections to Postgres the process of a task holds: one for all of its threads, and none while it uses none."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S
from scripted_engine import eventually

from airflow_snowpack.settings import Settings
from airflow_snowpack.store import Deadlines, Store, connections as pool, open_store
from airflow_snowpack.store.keep_alive import KeepAlive
from airflow_snowpack.worker.__main__ import open_installation
from airflow_snowpack.worker.environment import Environment

OPEN = sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
TASKS = 6


@pytest.fixture
def watcher(postgres_database: str) -> Iterator[Store]:
    with open_store(postgres_database) as store:
        store.transact(ask)
        yield store


@pytest.fixture
def task(postgres_database: str) -> Iterator[Store]:
    with open_store(postgres_database, of_a_task=True) as store:
        yield store


def ask(conn: sa.Connection) -> int:
    one: int = conn.exec_driver_sql("SELECT 1").scalar_one()
    return one


def count(watcher: Store) -> int:
    """How many connections others have open; in a transaction, whose connection is the only one of the watcher."""
    found: int = watcher.transact(lambda conn: conn.execute(OPEN).scalar_one())
    return found


def test_a_worker_without_airflow_holds_one_connection(postgres_database: str, watcher: Store) -> None:
    url = sa.make_url(postgres_database)
    address = {"host": url.host, "port": url.port, "schema": url.database, "login": url.username, "password": url.password}
    environment = Environment({"AIRFLOW_CONN_S": json.dumps({"conn_type": "postgres", "extra": dict(url.query), **address})})
    settings = replace(Settings.load(environment), store_conn_id="s")
    before, together = count(watcher), threading.Barrier(2)
    with closing(open_installation(settings, environment)) as worker, ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: together.wait(PATIENCE_S) < 2 and worker.store.transact(ask), range(2))) == [1, 1]
        assert worker.store.transact(lambda conn: ask(conn) and count(watcher)) == before + 1


def test_a_task_with_a_heartbeat_holds_one_connection(
    postgres_database: str, watcher: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pool.ONE_CONNECTION, "pool_timeout", PATIENCE_S)  # a turn may take long on a busy machine
    before = count(watcher)
    beats: list[int] = []

    def beat(store: Store) -> bool:
        beats.append(store.single(ask) + store.transact(ask))
        return True

    tasks = [open_store(postgres_database, of_a_task=True) for _ in range(TASKS)]
    hearts = [
        KeepAlive(lambda store=store: beat(store), every=timedelta(milliseconds=5), lost_after=None, what="a task")
        for store in tasks
    ]
    try:
        for heart in hearts:
            heart.__enter__()
        open_ones = []
        while len(beats) < 10 * TASKS:
            for store in tasks:
                assert store.transact(ask) == store.single(ask) == 1
            open_ones.append(count(watcher) - before)
        assert max(open_ones) <= TASKS
    finally:
        for heart in hearts:
            heart.__exit__(None)
        for store in tasks:
            store.close()


def test_a_task_that_uses_no_connection_holds_none(
    postgres_database: str, watcher: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE", timedelta(milliseconds=20))
    before = count(watcher)
    with open_store(postgres_database, of_a_task=True) as task:
        for _ in range(2):
            assert task.transact(ask) == 1
            eventually(lambda: count(watcher) == before, PATIENCE_S)


def test_a_renewal_does_not_wait_for_a_long_transaction(
    postgres_database: str, watcher: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pool.ONE_CONNECTION, "pool_timeout", 0.02)
    before = count(watcher)
    begun, over = threading.Event(), threading.Event()

    def work(conn: sa.Connection) -> int:
        begun.set()
        assert over.wait(PATIENCE_S)
        return ask(conn)

    with open_store(postgres_database, of_a_task=True) as task, ThreadPoolExecutor(1) as elsewhere:
        long = elsewhere.submit(task.transact, work)
        assert begun.wait(PATIENCE_S)
        assert [task.single(ask), task.transact(ask)] == [1, 1]
        assert not long.done()
        over.set()
        assert long.result(PATIENCE_S) == 1
        eventually(lambda: count(watcher) - before == 1, PATIENCE_S)


def test_a_thread_does_not_wait_for_itself(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pool.ONE_CONNECTION, "pool_timeout", 2 * PATIENCE_S)
    with open_store(postgres_database, of_a_task=True) as task:
        assert task.transact(lambda _conn: task.read(ask)) == 1


def test_a_process_leaves_the_connection_of_its_parent_alone(task: Store) -> None:
    pid_of_session = sa.text("SELECT pg_backend_pid()")

    def session(conn: sa.Connection) -> Any:
        return conn.execute(pid_of_session).scalar_one()

    parents, read_end, write_end = task.transact(session), *os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write_end, json.dumps([task.transact(session), task.read(session)]).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    childs = json.loads(os.read(read_end, 1_000))
    os.close(read_end), os.close(write_end)
    assert len(set(childs)) == 1
    assert parents not in childs
    assert task.transact(session) == parents


def test_the_hook_of_a_task_opens_such_a_store_and_a_process_that_answers_people_does_not(
    postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.hooks import SnowpackHook

    url = sa.make_url(postgres_database)
    said = {"conn_type": "postgres", "host": url.host, "port": url.port, "schema": url.database, "login": url.username}
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(said))
    with SnowpackHook("store") as hook, SnowpackHook("store", deadlines=Deadlines()) as answering:
        assert isinstance(hook.store().engine.pool, pool.OneConnection)
        assert not isinstance(answering.store().engine.pool, pool.OneConnection)
