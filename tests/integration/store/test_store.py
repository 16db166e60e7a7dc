"""Transactions, retries and what an unreachable database says. Every way to use the store runs on both databases here."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from bounded import Beside

from airflow_snowpack.store import Store, StoreUnreachable, UnsupportedStore, open_store
from airflow_snowpack.store.deadlines import answer_by
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.errors import StoreDiskFull, StoreFileReplaced
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.retry import TRIES, is_transient

notes = sa.Table("notes", sa.MetaData(), sa.Column("text", sa.Text), sa.Column("at", UtcDateTime))


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store(open_engine(store_url), sleep=lambda _: None) as store:
        notes.create(store.engine)
        yield store


def write(conn: sa.Connection, text: str) -> None:
    conn.execute(sa.insert(notes).values(text=text))


def texts(store: Store) -> list[str]:
    return list(store.read(lambda conn: conn.execute(sa.select(notes.c.text)).scalars().all()))


def test_a_transaction_that_fails_leaves_nothing(store: Store) -> None:
    def half(conn: sa.Connection) -> None:
        write(conn, "half")
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        store.transact(half)
    assert texts(store) == []


def test_a_single_statement_is_a_transaction_of_its_own(store: Store) -> None:
    store.single(lambda conn: write(conn, "kept"))

    assert texts(store) == ["kept"]


def test_a_statement_sees_what_was_committed_before_it_whatever_the_databases_default_is(postgres_database: str) -> None:
    database = sa.make_url(postgres_database).database
    with Store(open_engine(postgres_database)) as store:
        notes.create(store.engine)
        stricter = f"ALTER DATABASE \"{database}\" SET default_transaction_isolation = 'repeatable read'"
        store.single(lambda conn: conn.exec_driver_sql(stricter))
    with Store(open_engine(postgres_database)) as store:

        def look(conn: sa.Connection) -> list[str]:
            conn.execute(sa.select(notes)).all()
            with store.engine.begin() as other:
                write(other, "meanwhile")
            return list(conn.execute(sa.select(notes.c.text)).scalars())

        assert store.transact(look) == ["meanwhile"]


def test_a_passing_error_repeats_the_whole_transaction(store: Store) -> None:
    tries = []

    def flaky(conn: sa.Connection) -> None:
        tries.append(1)
        write(conn, f"try {len(tries)}")
        if len(tries) < 3:
            raise lost_connection()

    store.transact(flaky)
    assert texts(store) == ["try 3"]


def test_an_error_that_does_not_pass_is_not_repeated(store: Store) -> None:
    tries = []

    def wrong(conn: sa.Connection) -> None:
        tries.append(1)
        conn.exec_driver_sql("SELECT * FROM no_such_table")

    with pytest.raises(sa.exc.DBAPIError):
        store.transact(wrong)
    assert len(tries) == 1


def test_after_the_last_try_the_error_says_where_the_store_is_and_what_to_check(store: Store) -> None:
    tries = []

    def never(_: sa.Connection) -> None:
        tries.append(1)
        raise lost_connection()

    with pytest.raises(StoreUnreachable, match=r"store at .* cannot be reached.*store_conn_id"):
        store.transact(never)
    assert len(tries) == 1 + TRIES


def test_a_server_that_is_not_there_is_reported_without_the_password() -> None:
    with (
        pytest.raises(StoreUnreachable, match=r"127\.0\.0\.1:1/") as caught,
        Store(open_engine("postgresql://me:s3cret@127.0.0.1:1/db"), sleep=lambda _: None) as store,
    ):
        store.read(lambda conn: conn.exec_driver_sql("SELECT 1"))
    assert "s3cret" not in str(caught.value)


def test_a_file_that_is_no_database_is_reported_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "snowpack.db"
    file.write_text("notes, and not a database. " * 100)
    with pytest.raises(StoreUnreachable, match=rf"{file} cannot be reached: file is not a database"):
        open_store(f"sqlite:///{file}")


@pytest.mark.parametrize("by", [None, "another file"])
def test_a_file_that_is_deleted_or_replaced_under_a_process_is_reported_and_nothing_is_written_to_it(
    sqlite_url: str, tmp_path: Path, by: str | None
) -> None:
    file = tmp_path / "snowpack.db"
    with open_store(sqlite_url) as store:
        store.scalar(sa.select(1))
        file.rename(tmp_path / "moved.db")
        if by is not None:
            file.write_bytes((tmp_path / "moved.db").read_bytes())
        for use in (store.transact, store.single, store.read):
            with pytest.raises(StoreFileReplaced, match="was deleted or replaced while this process used it"):
                use(lambda conn: conn.exec_driver_sql("SELECT 1"))
    with open_store(sqlite_url) as store:
        assert store.scalar(sa.select(1)) == 1, "a process that starts now uses the file that is there"


def test_a_full_disk_is_called_a_full_disk(sqlite_url: str) -> None:
    with Store(open_engine(sqlite_url)) as store:
        notes.create(store.engine)
        with pytest.raises(StoreDiskFull, match=r"The disk of the Snowpack store at .* is full"):
            store.transact(lambda conn: (conn.exec_driver_sql("PRAGMA max_page_count = 1"), write(conn, "x" * 100_000)))
        assert texts(store) == []


def test_a_server_that_accepts_a_connection_and_stays_silent_is_waited_for_until_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db"
        with Store(open_engine(url), sleep=lambda _: None) as store:
            for seconds in (-1, 0.1):
                with pytest.raises(StoreUnreachable), answer_by(time.monotonic() + seconds):
                    store.read(lambda conn: conn.exec_driver_sql("SELECT 1"))


def test_a_path_that_is_no_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreachable, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")


def test_another_kind_of_database_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(UnsupportedStore, match=r"'mysql'.*postgresql\+psycopg.*sqlite"):
        open_store("mysql://localhost/db")


def test_writers_on_an_embedded_file_wait_in_line(sqlite_url: str, tmp_path: Path) -> None:
    with open_store(sqlite_url) as store:
        notes.create(store.engine)
        threads = [Beside(lambda: store.transact(lambda conn: write(conn, "x"))) for _ in range(8)]
        for thread in threads:
            thread.join()

        assert len(texts(store)) == 8


def test_moments_come_back_aware_and_in_utc(store: Store) -> None:
    local = datetime(2026, 11, 21, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    store.transact(lambda conn: conn.execute(sa.insert(notes).values(at=local)))

    read = store.read(lambda conn: conn.execute(sa.select(notes.c.at)).scalar_one())
    assert read == local
    assert read.tzinfo is UTC


def test_a_moment_without_a_zone_is_refused(store: Store) -> None:
    naive = datetime(2026, 11, 21)  # noqa: DTZ001 - the point of the test

    with pytest.raises(sa.exc.StatementError, match="no time zone"):
        store.transact(lambda conn: conn.execute(sa.insert(notes).values(at=naive)))


@pytest.mark.parametrize(
    ("state", "transient"),
    [("40001", True), ("40P01", True), ("57P01", True), ("08006", True), ("23505", False), ("42P01", False)],
)
def test_postgres_says_by_its_state_whether_an_error_passes(state: str, transient: bool) -> None:
    cause = psycopg.errors.lookup(state)("x")

    assert is_transient(sa.exc.OperationalError("s", {}, cause)) is transient


def test_a_busy_sqlite_file_is_a_passing_error() -> None:
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY

    assert is_transient(sa.exc.OperationalError("s", {}, busy))


def lost_connection() -> sa.exc.OperationalError:
    return sa.exc.OperationalError("s", {}, psycopg.errors.ConnectionFailure("gone"))
