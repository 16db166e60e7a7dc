"""Opens the database, an embedded SQLite file or Postgres, with the transaction rules that the store relies on.

SQLite: write-ahead log, every commit synced to disk, and every transaction ``BEGIN IMMEDIATE``, so that writers queue at the
start instead of failing in the middle. Postgres: psycopg 3. Both drivers are in autocommit and transactions begin with our
``BEGIN``, so a single statement needs neither a mode switch nor an empty rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from airflow_snowpack.store.clock_and_ids import Clock, utc_now
from airflow_snowpack.store.connections import ONE_CONNECTION, STATEMENT_BY_STATEMENT
from airflow_snowpack.store.deadlines import Deadlines, is_overdue
from airflow_snowpack.store.errors import SchemaOutOfDate, StoreFolderMissing, UnsupportedStore
from airflow_snowpack.store.migrate import check_schema, upgrade_schema
from airflow_snowpack.store.store import Store

SQLITE_BUSY_TIMEOUT_MS = 10_000
POSTGRES_CONNECT_TIMEOUT_S = 10
SQLITE_STEPS_BETWEEN_LOOKS = 20_000
"""How many steps of SQLite's virtual machine (about a millisecond) run between two checks of the statement's time limit."""


def open_engine(
    url: str | sa.URL,
    deadlines: Deadlines | None = None,
    *,
    of_a_task: bool = False,
    renewed: Callable[[], sa.URL] | None = None,
) -> sa.Engine:
    """Return an engine for the store.

    :param url: ``sqlite:////absolute/path`` or ``postgresql://…`` (psycopg 3 replaces any other driver).
    :param deadlines: the limits of a process that serves requests; ``None`` for a worker, which waits.
    :param of_a_task: share one connection to Postgres between all threads, and hold it only while it is used.
    :param renewed: reads the address again when Postgres refuses the credentials, which may have been changed since.
    :raises UnsupportedStore: another database.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    """
    parsed = sa.make_url(url)
    match parsed.get_backend_name():
        case "sqlite":
            return _open_sqlite(parsed, deadlines)
        case "postgresql" | "postgres":
            return _open_postgres(parsed, deadlines, ONE_CONNECTION if of_a_task else _pool(deadlines), renewed)
        case other:
            raise UnsupportedStore(other)


def _pool(deadlines: Deadlines | None) -> dict[str, Any]:
    if deadlines is None:
        return {}
    idle = deadlines.idle
    return {
        "pool_size": idle,
        "max_overflow": deadlines.connections - idle,
        "pool_timeout": deadlines.connection.total_seconds(),
    }


def _open_sqlite(url: sa.URL, deadlines: Deadlines | None) -> sa.Engine:
    check_folder(url)
    busy = SQLITE_BUSY_TIMEOUT_MS / 1000 if deadlines is None else deadlines.file.total_seconds()
    engine = sa.create_engine(url, connect_args={"timeout": busy}, **_pool(deadlines))
    sa.event.listen(engine, "connect", _configure_sqlite)
    if deadlines is not None:
        sa.event.listen(engine, "connect", _limit_sqlite)
    _begin_with(engine, "BEGIN IMMEDIATE")
    return engine


def check_folder(url: sa.URL) -> None:
    """Check the folder of an SQLite file: a mistyped path would open a second store, with different locks.

    :raises StoreFolderMissing: the folder does not exist.
    """
    if url.get_backend_name() == "sqlite" and url.database and not url.database.startswith("file:"):
        path = Path(url.database)
        if not path.parent.is_dir():
            raise StoreFolderMissing(path)


def _configure_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    # Otherwise the driver would begin transactions itself: deferred, and too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _limit_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    # SQLite has no statement timeout: this interrupts a statement once the deadline of the current work has passed.
    connection.set_progress_handler(is_overdue, SQLITE_STEPS_BETWEEN_LOOKS)


def _open_postgres(
    url: sa.URL, deadlines: Deadlines | None, pool: Mapping[str, Any], renewed: Callable[[], sa.URL] | None
) -> sa.Engine:
    # Imported here because a store in a file does not need psycopg.
    from airflow_snowpack.store.pg_connection import Login, begin_behind_pooler, configure, session_settings

    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "autocommit": True,
            # psycopg deallocates prepared statements at every rollback; ``pg_prepared.py`` prepares those that are worth it.
            "prepare_threshold": None,
            "connect_timeout": POSTGRES_CONNECT_TIMEOUT_S if deadlines is None else int(deadlines.connect.total_seconds()),
            "client_encoding": "utf8",
            # Detects within half a minute a connection that a firewall dropped: a heartbeat must not wait longer.
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        },
        # The store has no hstore columns, and SQLAlchemy would query for the type in an extra transaction on each new connection.
        use_native_hstore=False,
        # Prefer the connection used last: the hot statements are prepared on it, and its memory is warm.
        pool_use_lifo=True,
        # Every transaction ends with its block (SQLAlchemy rolls back what was not committed), so there is nothing to reset.
        pool_reset_on_return=None,
        **pool,
    )
    sa.event.listen(engine, "do_connect", Login(renewed).connect)
    settings = session_settings(deadlines)
    sa.event.listen(engine, "connect", partial(configure, settings))
    _begin_with(engine, "BEGIN", pooled=begin_behind_pooler(settings))
    return engine


def _begin_with(engine: sa.Engine, command: str, pooled: str | None = None) -> None:
    def begin(conn: sa.Connection) -> None:
        if pooled is not None and conn.connection.dbapi_connection.behind_pooler:  # type: ignore[union-attr]  # ours
            conn.exec_driver_sql(pooled)
        elif not conn.get_execution_options().get(STATEMENT_BY_STATEMENT):
            conn.exec_driver_sql(command)

    sa.event.listen(engine, "begin", begin)


def open_store(
    url: str | sa.URL,
    *,
    clock: Clock = utc_now,
    deadlines: Deadlines | None = None,
    of_a_task: bool = False,
    renewed: Callable[[], sa.URL] | None = None,
) -> Store:
    """Open the store and ensure that its schema is up to date.

    The embedded SQLite file is created and upgraded automatically. Postgres is only checked: many processes share it, and the
    operator decides when to upgrade it.

    :param deadlines: the limits of a process that serves requests; ``None`` for a worker, which waits.
    :param of_a_task: share one connection to Postgres between all threads, and hold it only while it is used.
    :param renewed: reads the address again when Postgres refuses the credentials, which may have been changed since.
    :raises UnsupportedStore: neither SQLite nor Postgres.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    :raises SchemaOutOfDate: Postgres lacks tables that this version needs.
    :raises UnknownRevision: the tables are from a development version.
    :raises StoreUnreachable: the database does not answer.
    """
    store = Store(open_engine(url, deadlines, of_a_task=of_a_task, renewed=renewed), clock, deadlines=deadlines)
    try:
        _ensure_schema(store)
    except BaseException:
        store.close()
        raise
    return store


def _ensure_schema(store: Store) -> None:
    try:
        check_schema(store)
    except SchemaOutOfDate:
        if store.is_postgres:
            raise
        # Without deadlines: a migration of a large file may take longer than a request may.
        with Store(open_engine(store.engine.url), store.clock) as unhurried:
            upgrade_schema(unhurried)
