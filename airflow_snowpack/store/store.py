"""The one database that every room writes to, and the three ways to use it.

    store = open_store("sqlite:////var/lib/airflow/snowpack.db")
    store.transact(lambda conn: conn.execute(...))   # one transaction, repeated whole when the database hiccups
    store.single(lambda conn: conn.execute(...))     # one statement that is its own transaction
    store.read(lambda conn: conn.execute(...).all())

The invariant: work is one transaction or nothing, and it sees no half-written state.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from airflow_snowpack.store.clock import Clock, utc_now
from airflow_snowpack.store.engine import open_engine, statement_by_statement
from airflow_snowpack.store.errors import StoreUnreachable
from airflow_snowpack.store.kept import KeptConnections
from airflow_snowpack.store.retry import is_transient, is_unusable, retrying

T = TypeVar("T")
Work = Callable[[sa.Connection], T]


class Store:
    """A database and the clock that its rows are stamped with.

    :param clock: the present moment; one clock for everything that is written.
    :param sleep: how a retry waits, in seconds.
    """

    def __init__(self, engine: sa.Engine, clock: Clock = utc_now, sleep: Callable[[float], None] = time.sleep) -> None:
        self.engine = engine
        self.clock = clock
        self._autocommit = statement_by_statement(engine)
        self._kept = KeptConnections(self._autocommit)
        self._retrying = retrying(sleep)

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @property
    def where(self) -> str:
        """The database's address without its password, for messages."""
        return self.engine.url.render_as_string(hide_password=True)

    def transact(self, work: Work[T]) -> T:
        """Run the work in one transaction; on a passing error roll back and run it again from the start.

        :raises StoreUnreachable: the database did not recover within the retries.
        """

        def once() -> T:
            with self.engine.begin() as conn:
                return work(conn)

        return self._retried(once)

    def single(self, work: Work[T]) -> T:
        """Run work of one statement, which is a transaction of its own: two round trips fewer than :meth:`transact`."""
        if self.is_postgres:
            return self._retried(lambda: self._kept.run(work))

        def once() -> T:
            with self._autocommit.connect() as conn:
                return work(conn)

        return self._retried(once)

    read = single

    def _retried(self, once: Callable[[], T]) -> T:
        # The first try stands outside of the retry machinery, which costs more than a short statement.
        try:
            return once()
        except DBAPIError as error:
            if is_unusable(error):
                raise StoreUnreachable(self.where, error.orig or error) from error
            if not is_transient(error):
                raise
        try:
            return self._retrying(once)
        except DBAPIError as error:
            if is_transient(error):
                raise StoreUnreachable(self.where, error.orig or error) from error
            raise

    def close(self) -> None:
        """Close the connections."""
        self._kept.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def open_store(url: str | sa.URL, *, clock: Clock = utc_now) -> Store:
    """Open the store and make sure that its tables are there.

    The embedded SQLite file creates and upgrades itself. Postgres is checked only: many processes share it, and when it
    changes is the operator's decision.

    :raises UnsupportedStore: neither SQLite nor Postgres.
    :raises SchemaOutOfDate: Postgres without the tables that this version needs.
    :raises StoreUnreachable: no answer.
    """
    from airflow_snowpack.store.migrate import ensure_schema

    store = Store(open_engine(url), clock)
    try:
        ensure_schema(store)
    except BaseException:
        store.close()
        raise
    return store
