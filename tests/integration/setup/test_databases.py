"""The databases that the store's tests run on are what they claim to be."""

from __future__ import annotations

import sys

from bounded import output_of
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url


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


def test_a_database_is_dropped_although_a_session_is_still_open(postgres_database: str) -> None:
    create_engine(postgres_database).connect()  # left open on purpose
