"""The one database that every room writes to, and the ways to use it.

    store = open_store("sqlite:////var/lib/airflow/snowpack.db")
    store.transact(lambda conn: conn.execute(...))   # one transaction, repeated whole when the database hiccups
    store.single(lambda conn: conn.execute(...))     # one statement that is its own transaction
    store.all(query); store.first(query); store.scalar(query); store.execute(statement)

The invariant: work is one transaction or nothing, and it sees no half-written state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolIsEmpty

from airflow_snowpack.redaction import public_address
from airflow_snowpack.store.clock import Clock, utc_now
from airflow_snowpack.store.engine import open_engine, statement_by_statement
from airflow_snowpack.store.errors import StoreTooSlow, StoreUnreachable
from airflow_snowpack.store.kept import KEPT, KeptConnections
from airflow_snowpack.store.one_connection import OneConnection
from airflow_snowpack.store.patience import Outage, Patience, answer_by, deadline
from airflow_snowpack.store.retry import is_away, is_too_slow, is_transient, is_unusable, retrying

T = TypeVar("T")
Work = Callable[[sa.Connection], T]


class Store:
    """A database and the clock that its rows are stamped with.

    :param clock: the present moment; one clock for everything that is written.
    :param sleep: how a retry waits, in seconds.
    :param patience: the limits that the engine was opened with; ``None`` for a process that waits.
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock = utc_now,
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self._autocommit = statement_by_statement(engine)
        kept = 0 if isinstance(engine.pool, OneConnection) else KEPT
        self._kept = KeptConnections(self._autocommit, kept if patience is None else patience.idle)
        self._sleep = sleep
        self._retrying = retrying(sleep)
        self._patience = patience
        self._outage = Outage(patience) if patience is not None else None

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @property
    def where(self) -> str:
        """The host, port and database of the store, or its file, for messages."""
        return public_address(self.engine.url.render_as_string(hide_password=True))

    @cached_property
    def identity(self) -> str:
        """The store's own id, which no other store has; read once, and drawn when it has none.

        :raises StoreUnreachable: it does not answer.
        """
        from airflow_snowpack.store.identity import identity_of

        return identity_of(self)

    def transact(self, work: Work[T]) -> T:
        """Run the work in one transaction; on a passing error roll back and run it again from the start.

        :raises StoreUnreachable: the database did not recover within the retries.
        :raises StoreTooSlow: a statement took longer than the database or the store's patience allows.
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

    def all(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[sa.Row[Any]]:
        """Return the rows of a query."""
        return self.read(lambda conn: conn.execute(query, values).all())

    def first(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> sa.Row[Any] | None:
        """Return the first row of a query or of a ``RETURNING``; ``None`` for none."""
        return self.read(lambda conn: conn.execute(query, values).first())

    def scalar(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        """Return the first column of the first row of a query, or ``None``."""
        return self.read(lambda conn: conn.execute(query, values).scalar())

    def scalars(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        """Return the first column of every row of a query."""
        return self.read(lambda conn: conn.execute(query, values).scalars().all())

    def execute(self, statement: sa.Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None) -> int:
        """Run a statement that writes; return the number of rows that an ``UPDATE`` or ``DELETE`` changed.

        :param values: one row of parameters, or several, all in one transaction.
        """
        run = self.single if values is None or isinstance(values, Mapping) else self.transact
        return run(lambda conn: conn.execute(statement, values).rowcount)

    def _retried(self, once: Callable[[], T]) -> T:
        if self._patience is not None and self._outage is not None:
            return self._within(self._patience, self._outage, once)
        # The first try stands outside of the retry machinery, which costs more than a short statement.
        try:
            return once()
        except DBAPIError as error:
            if is_unusable(error):
                raise StoreUnreachable(self.where, error.orig or error) from error
            if is_too_slow(error):  # a role or a database may have a statement_timeout of its own
                raise StoreTooSlow(self.where) from error
            if not is_transient(error):
                raise
        until = deadline()
        try:
            return (self._retrying if until is None else retrying(self._sleep, until))(once)
        except DBAPIError as error:
            if is_transient(error):
                raise StoreUnreachable(self.where, error.orig or error) from error
            if is_too_slow(error):
                raise StoreTooSlow(self.where) from error
            raise

    def _within(self, patience: Patience, outage: Outage, once: Callable[[], T]) -> T:
        """As :meth:`_retried`, and never for longer than the patience lasts."""
        outage.check()
        start = time.monotonic()
        try:
            with answer_by(start + patience.answer.total_seconds()):
                result = self._repeated(once, start + patience.repeat.total_seconds())
        except PoolIsEmpty as error:
            raise StoreUnreachable(self.where, error) from error
        except DBAPIError as error:
            if is_away(error):
                outage.begins(self.where, error.orig or error)
            else:
                outage.ends()
            if is_too_slow(error):
                raise StoreTooSlow(self.where) from error
            if is_transient(error) or is_unusable(error):
                raise StoreUnreachable(self.where, error.orig or error) from error
            raise
        except Exception:
            outage.ends()  # the work itself refused, so the database did answer
            raise
        outage.ends()
        return result

    def _repeated(self, once: Callable[[], T], until: float) -> T:
        try:
            return once()
        except DBAPIError as error:
            if not is_transient(error) or time.monotonic() >= until:
                raise
        return retrying(self._sleep, until)(once)

    def close(self) -> None:
        """Close the connections."""
        self._kept.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def open_store(url: str | sa.URL, *, clock: Clock = utc_now, patience: Patience | None = None, of_a_task: bool = False) -> Store:
    """Open the store and make sure that its tables are there.

    The embedded SQLite file creates and upgrades itself. Postgres is checked only: many processes share it, and when it
    changes is the operator's decision.

    :param patience: the limits of a process that answers people; ``None`` for a worker, which waits.
    :param of_a_task: one connection to Postgres for all threads of the process, held only while it is used.
    :raises UnsupportedStore: neither SQLite nor Postgres.
    :raises StoreFolderMissing: the folder of the SQLite file does not exist.
    :raises SchemaOutOfDate: Postgres without the tables that this version needs.
    :raises UnknownRevision: tables from before release 0.1.
    :raises StoreUnreachable: no answer.
    """
    from airflow_snowpack.store.migrate import ensure_schema

    store = Store(open_engine(url, patience, of_a_task=of_a_task), clock, patience=patience)
    try:
        ensure_schema(store)
    except BaseException:
        store.close()
        raise
    return store
