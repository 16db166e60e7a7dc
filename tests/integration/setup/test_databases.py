"""The databases that the store's tests run on are what they claim to be."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from bounded import output_of
from postgres_server import Copies
from sqlalchemy import URL, CursorResult, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from airflow_snowpack.store.migrate import VERSION_TABLE


def test_every_database_is_empty_and_takes_a_table(empty_store_url: str) -> None:
    engine = create_engine(empty_store_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE only_here (id INTEGER)"))
        assert connection.execute(text("SELECT count(*) FROM only_here")).scalar_one() == 0
    engine.dispose()


def test_postgres_is_reached_by_host_and_port_from_another_process(postgres_database: str) -> None:
    url = make_url(postgres_database)
    assert (url.host, bool(url.port)) == ("127.0.0.1", True)
    ask = "import sys, psycopg; print(psycopg.connect(sys.argv[1]).execute('SELECT current_database()').fetchone()[0])"
    dsn = url.set(drivername="postgresql").render_as_string(hide_password=False)
    answer = output_of(sys.executable, "-c", ask, dsn)
    assert answer.strip() == url.database


def test_a_database_is_emptied_for_the_next_test_unless_more_than_its_rows_has_changed(postgres_copies: Copies) -> None:
    def run(url: URL, statement: str) -> CursorResult[Any]:
        connection = create_engine(url, isolation_level="AUTOCOMMIT").connect()  # left open on purpose
        return connection.execute(text(statement))

    def oid(url: URL) -> int:
        found: int = run(url, "SELECT oid FROM pg_database WHERE datname = current_database()").scalar_one()
        return found

    with postgres_copies.one() as first:
        run(first, "INSERT INTO store_facts VALUES ('store_id', 'x')")
        emptied = oid(first)
    with postgres_copies.one() as second:
        assert oid(second) == emptied
        assert run(second, "SELECT count(*) FROM store_facts").scalar_one() == 0
        run(second, "ALTER TABLE store_facts ADD more text")
        with pytest.raises(OperationalError, match="does not exist"):
            run(first, "SELECT 1")
    with postgres_copies.one() as third:
        altered = oid(third)
        assert altered != emptied
        run(third, f"UPDATE {VERSION_TABLE} SET version_num = 'newer'")
    with postgres_copies.one() as fourth:
        assert oid(fourth) != altered
