"""Opens the database: an embedded SQLite file or Postgres, both with the transaction rules that the store relies on.

SQLite: write-ahead log, every commit synced to disk, and every transaction ``BEGIN IMMEDIATE``, so that writers wait in
line at the start instead of failing in the middle. Postgres: psycopg 3. On both the driver itself commits statement by
statement, and a transaction begins where we say ``BEGIN``: so a single statement pays for no mode switch and no empty
rollback.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from airflow_snowpack.store.errors import StoreFolderMissing, UnsupportedStore
from airflow_snowpack.store.one_connection import OneConnection
from airflow_snowpack.store.patience import Patience, is_overdue
from airflow_snowpack.store.pooler import begin_behind_pooler, check_transactions, is_behind_pooler, session_settings

SQLITE_BUSY_TIMEOUT_MS = 10_000
POSTGRES_CONNECT_TIMEOUT_S = 10
SQLITE_STEPS_BETWEEN_LOOKS = 20_000
"""After so many steps of its virtual machine, about a millisecond, SQLite looks whether the statement's time is over."""
STATEMENT_BY_STATEMENT = "snowpack_statement_by_statement"


def open_engine(url: str | sa.URL, patience: Patience | None = None, *, of_a_task: bool = False) -> sa.Engine:
    """An engine for the store.

    :param url: ``sqlite:////absolute/path`` or ``postgresql://…`` (whatever its driver, psycopg 3 is used).
    :param patience: the limits of a process that answers people; ``None`` for a worker, which waits.
    :param of_a_task: one connection to Postgres for all threads of the process, held only while it is used.
    :raises UnsupportedStore: another database.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    """
    parsed = sa.make_url(url)
    match parsed.get_backend_name():
        case "sqlite":
            return _open_sqlite(parsed, patience)
        case "postgresql" | "postgres":
            return _open_postgres(parsed, patience, OneConnection.OPTIONS if of_a_task else _pool(patience))
        case other:
            raise UnsupportedStore(other)


def _pool(patience: Patience | None) -> dict[str, Any]:
    if patience is None:
        return {}
    idle = patience.idle
    return {
        "pool_size": idle,
        "max_overflow": patience.connections - idle,
        "pool_timeout": patience.connection.total_seconds(),
    }


def _open_sqlite(url: sa.URL, patience: Patience | None) -> sa.Engine:
    check_folder(url)
    busy = SQLITE_BUSY_TIMEOUT_MS / 1000 if patience is None else patience.file.total_seconds()
    engine = sa.create_engine(url, connect_args={"timeout": busy}, **_pool(patience))
    sa.event.listen(engine, "connect", _configure_sqlite)
    if patience is not None:
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


def statement_by_statement(engine: sa.Engine) -> sa.Engine:
    """The same engine, and the same connections, where each statement is a transaction of its own."""
    return engine.execution_options(**{STATEMENT_BY_STATEMENT: True})


def _open_postgres(url: sa.URL, patience: Patience | None, pool: Mapping[str, Any]) -> sa.Engine:
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "autocommit": True,
            # psycopg forgets what is prepared at every rollback; the statements that are worth it are prepared in ``direct.py``.
            "prepare_threshold": None,
            "connect_timeout": POSTGRES_CONNECT_TIMEOUT_S if patience is None else int(patience.connect.total_seconds()),
            "client_encoding": "utf8",
            # A connection that a firewall dropped is found dead in half a minute: a heartbeat must not wait on it for longer.
            "keepalives_idle": 15,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 30_000,
        },
        # The store has none, and SQLAlchemy would ask for it in a transaction of its own on each new connection.
        use_native_hstore=False,
        # The connection used last comes first: the hot statements are prepared on it, and its memory is warm.
        pool_use_lifo=True,
        # Every transaction ends with its block (SQLAlchemy rolls back what was not committed), so nothing is left to reset.
        pool_reset_on_return=None,
        **pool,
    )
    sa.event.listen(engine, "do_connect", _connect_patiently)
    settings = session_settings(patience)
    sa.event.listen(engine, "connect", partial(_configure_postgres, settings))
    _begin_with(engine, "BEGIN", pooled=begin_behind_pooler(settings))
    return engine


def _connect_patiently(_dialect: Any, _record: Any, arguments: Any, parameters: Any) -> Any:
    """Open a connection that does not wait beyond the deadline of the work, such as the end of a lease."""
    from airflow_snowpack.store.patient_connection import PatientConnection

    return PatientConnection.connect(*arguments, **parameters)


def _configure_postgres(settings: Mapping[str, str], connection: Any, _record: Any) -> None:
    connection.behind_pooler = is_behind_pooler(connection)
    if connection.behind_pooler:
        check_transactions(connection)
    else:
        connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))


def _begin_with(engine: sa.Engine, command: str, pooled: str | None = None) -> None:
    def begin(conn: sa.Connection) -> None:
        if pooled is not None and conn.connection.dbapi_connection.behind_pooler:  # type: ignore[union-attr]  # ours
            conn.exec_driver_sql(pooled)
        elif not conn.get_execution_options().get(STATEMENT_BY_STATEMENT):
            conn.exec_driver_sql(command)

    sa.event.listen(engine, "begin", begin)
