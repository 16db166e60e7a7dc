"""Opens the database: an embedded SQLite file or Postgres, both with the transaction rules that the store relies on.

SQLite: write-ahead log, every commit synced to disk, and every transaction ``BEGIN IMMEDIATE``, so that writers wait in
line at the start instead of failing in the middle. Postgres: psycopg 3. On both the driver itself commits statement by
statement, and a transaction begins with our own ``BEGIN``: so a single statement pays for no mode switch and no empty
rollback.
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""After so many steps of its virtual machine, about a millisecond, SQLite looks whether the statement's time is over."""


def open_engine(url: str | sa.URL, deadlines: Deadlines | None = None, *, of_a_task: bool = False) -> sa.Engine:
    """An engine for the store.

    :param url: ``sqlite:////absolute/path`` or ``postgresql://…`` (whatever its driver, psycopg 3 is used).
    :param deadlines: the limits of a process that answers people; ``None`` for a worker, which waits.
    :param of_a_task: one connection to Postgres for all threads of the process, held only while it is used.
    :raises UnsupportedStore: another database.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    """
    parsed = sa.make_url(url)
    match parsed.get_backend_name():
        case "sqlite":
            return _open_sqlite(parsed, deadlines)
        case "postgresql" | "postgres":
            return _open_postgres(parsed, deadlines, ONE_CONNECTION if of_a_task else _pool(deadlines))
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
    """Check that an SQLite file can be where the URL names it. A mistyped path would be a second store, with locks of its own.

    :raises StoreFolderMissing: its folder does not exist.
    """
    if url.get_backend_name() == "sqlite" and url.database and not url.database.startswith("file:"):
        path = Path(url.database)
        if not path.parent.is_dir():
            raise StoreFolderMissing(path)


def _configure_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    # The driver must not begin transactions on its own: it would begin them deferred, and late.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _limit_sqlite(connection: DBAPIConnection, _record: Any) -> None:
    # SQLite has no timeout for statements: this ends one with SQLITE_INTERRUPT once the time of the present work is over.
    connection.set_progress_handler(is_overdue, SQLITE_STEPS_BETWEEN_LOOKS)


def _open_postgres(url: sa.URL, deadlines: Deadlines | None, pool: Mapping[str, Any]) -> sa.Engine:
    # Imported here: psycopg is not needed for a store in a file.
    from airflow_snowpack.store.pg_connection import begin_behind_pooler, configure, connect, session_settings

    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "autocommit": True,
            # psycopg forgets what is prepared at every rollback; ``pg_prepared.py`` prepares the statements that are worth it.
            "prepare_threshold": None,
            "connect_timeout": POSTGRES_CONNECT_TIMEOUT_S if deadlines is None else int(deadlines.connect.total_seconds()),
            "client_encoding": "utf8",
            # A connection that a firewall dropped is found dead in half a minute: a heartbeat must not wait on it for longer.
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        },
        # The store has none, and SQLAlchemy would query it in a transaction of its own on each new connection.
        use_native_hstore=False,
        # The connection used last comes first: the hot statements are prepared on it, and its memory is warm.
        pool_use_lifo=True,
        # Every transaction ends with its block (SQLAlchemy rolls back what was not committed), so nothing is left to reset.
        pool_reset_on_return=None,
        **pool,
    )
    sa.event.listen(engine, "do_connect", connect)
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
    url: str | sa.URL, *, clock: Clock = utc_now, deadlines: Deadlines | None = None, of_a_task: bool = False
) -> Store:
    """Open the store and make sure that its tables are there.

    The embedded SQLite file creates and upgrades itself. Postgres is checked only: many processes share it, and when it
    changes is the operator's decision.

    :param deadlines: the limits of a process that answers people; ``None`` for a worker, which waits.
    :param of_a_task: one connection to Postgres for all threads of the process, held only while it is used.
    :raises UnsupportedStore: neither SQLite nor Postgres.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    :raises SchemaOutOfDate: Postgres without the tables that this version needs.
    :raises UnknownRevision: tables of a development version.
    :raises StoreUnreachable: no answer.
    """
    store = Store(open_engine(url, deadlines, of_a_task=of_a_task), clock, deadlines=deadlines)
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
