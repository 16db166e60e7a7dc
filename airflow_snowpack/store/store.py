"""The database that every room writes to.

    store = open_store("sqlite:////var/lib/airflow/snowpack.db")
    store.transact(lambda conn: conn.execute(...))   # one transaction, repeated as a whole after a transient error
    store.single(lambda conn: conn.execute(...))     # one statement that is its own transaction
    store.all(query); store.first(query); store.scalar(query); store.execute(statement)

The invariant: work is one transaction or nothing, and never reads half-written state.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolIsEmpty

from airflow_snowpack.redaction import public_address
from airflow_snowpack.store.clock_and_ids import Clock, new_id, utc_now
from airflow_snowpack.store.connections import MAX_STICKY, OneConnection, StickyConnections, statement_by_statement
from airflow_snowpack.store.deadlines import Deadlines, Outage, answer_by, deadline
from airflow_snowpack.store.dialect import insert, storable
from airflow_snowpack.store.errors import StoreDiskFull, StoreFileReplaced, StoreTooSlow, StoreUnreachable
from airflow_snowpack.store.retry import is_away, is_disk_full, is_too_slow, is_transient, is_unusable, retrying
from airflow_snowpack.store.schema import store_facts

T = TypeVar("T")
Work = Callable[[sa.Connection], T]

KEYS_PER_STATEMENT = 1_000
"""Far below the number of parameters that either database allows."""
STORE_ID = "store_id"
READ_ID = sa.select(store_facts.c.value).where(store_facts.c.name == STORE_ID)


class Store:
    """A database and the clock that stamps its rows.

    :param sleep: waits before a retry, in seconds.
    :param deadlines: the limits that the engine was opened with; ``None`` for a process that waits.
    """

    def __init__(
        self,
        engine: sa.Engine,
        clock: Clock = utc_now,
        sleep: Callable[[float], None] = time.sleep,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.engine = engine
        self.clock = clock
        self._autocommit = statement_by_statement(engine)
        kept = 0 if isinstance(engine.pool, OneConnection) else MAX_STICKY
        self._kept = StickyConnections(self._autocommit, kept if deadlines is None else deadlines.idle)
        self._sleep = sleep
        self._retrying = retrying(sleep)
        self._deadlines = deadlines
        self._outage = Outage(deadlines) if deadlines is not None else None
        path = engine.url.database if engine.dialect.name == "sqlite" else None
        self._file = None if path is None or path.startswith((":", "file:")) else path
        self._inode: tuple[int, int] | None = None

    @property
    def is_postgres(self) -> bool:
        return self.engine.dialect.name == "postgresql"

    @property
    def where(self) -> str:
        """The host, port and database, or the file, for messages."""
        return public_address(self.engine.url.render_as_string(hide_password=True))

    @cached_property
    def identity(self) -> str:
        """The store's id, which identifies its interim tables in a catalog that several installations share.

        The first process that needs it creates it. A restored backup has the id of its original; delete it in a copy that runs
        beside the original: ``DELETE FROM store_facts WHERE name = 'store_id'``.

        :raises StoreUnreachable: the store does not answer.
        """
        if known := self.scalar(READ_ID):
            return str(known)

        def draw(conn: sa.Connection) -> str:
            conn.execute(insert(store_facts).on_conflict_do_nothing(), {"name": STORE_ID, "value": new_id()})
            return str(conn.execute(READ_ID).scalar_one())

        return self.transact(draw)

    def transact(self, work: Work[T]) -> T:
        """Run the work in one transaction; after a transient error roll back and run it again from the start.

        :raises StoreUnreachable: the database did not recover within the retries.
        :raises StoreDiskFull: its disk is full.
        :raises StoreFileReplaced: the embedded file was deleted or replaced since this store was opened.
        :raises StoreTooSlow: a statement took longer than the database or the store's deadlines allow.
        """

        def once() -> T:
            with self.engine.begin() as conn:
                return work(conn)

        return self._retried(once)

    def single(self, work: Work[T]) -> T:
        """Run one statement as its own transaction: two round trips fewer than :meth:`transact`."""
        if self.is_postgres:
            return self._retried(lambda: self._kept.run(work))

        def once() -> T:
            with self._autocommit.connect() as conn:
                return work(conn)

        return self._retried(once)

    read = single

    def all(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[sa.Row[Any]]:
        return self.read(lambda conn: conn.execute(query, values).all())

    def first(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> sa.Row[Any] | None:
        """Return the first row of a query or of a ``RETURNING``; ``None`` for none."""
        return self.read(lambda conn: conn.execute(query, values).first())

    def scalar(self, query: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        """Return the first column of the first row of a query, or ``None``."""
        return self.read(lambda conn: conn.execute(query, values).scalar())

    def scalars(self, query: sa.Executable) -> Sequence[Any]:
        return self.read(lambda conn: conn.execute(query).scalars().all())

    def ids_beginning(self, ids: sa.ColumnElement[str], text: str, limit: int, *where: sa.ColumnElement[bool]) -> list[str]:
        """Return the hexadecimal ids in an indexed column that start with a text, in order."""
        # An index range instead of LIKE, which scans on Postgres. "g" sorts after every hexadecimal digit.
        text = storable(text)
        query = sa.select(ids).where(ids >= text, ids < f"{text}g", *where).order_by(ids).limit(limit)
        return [each for each in self.scalars(query) if each.startswith(text)]

    def all_by_key(self, query: sa.Select[Any], column: sa.ColumnElement[str], keys: Collection[str]) -> list[sa.Row[Any]]:
        """Return the rows of a query whose column has one of these values, in one statement per thousand values."""
        wanted = sorted({storable(key) for key in keys})
        parts = [wanted[start : start + KEYS_PER_STATEMENT] for start in range(0, len(wanted), KEYS_PER_STATEMENT)]
        return self.read(lambda conn: [row for some in parts for row in conn.execute(query.where(column.in_(some)))])

    def execute(self, statement: sa.Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None) -> int:
        """Run a statement that writes, and return the number of rows that an ``UPDATE`` or ``DELETE`` changed.

        :param values: one row of parameters, or several in one transaction.
        """
        run = self.single if values is None or isinstance(values, Mapping) else self.transact
        return run(lambda conn: conn.execute(statement, values).rowcount)

    def _retried(self, once: Callable[[], T]) -> T:
        self._check_file()
        if self._deadlines is not None and self._outage is not None:
            return self._within(self._deadlines, self._outage, once)
        try:
            return self._repeated(once)
        except DBAPIError as error:
            self._fail(error)

    def _check_file(self) -> None:
        """:raises StoreFileReplaced: the embedded file is missing or another one than before."""
        if self._file is None:
            return
        try:
            found = os.stat(self._file)
        except FileNotFoundError:
            inode = None
        else:
            inode = found.st_dev, found.st_ino
        if self._inode is None:
            self._inode = inode  # the first use creates the file
        elif inode != self._inode:
            raise StoreFileReplaced(self.where)

    def _repeated(self, once: Callable[[], T], until: float | None = None) -> T:
        # The first try bypasses the retry machinery, which costs more than a short statement.
        try:
            return once()
        except DBAPIError as error:
            if not is_transient(error) or (until is not None and time.monotonic() >= until):
                raise
        until = deadline() if until is None else until
        return (self._retrying if until is None else retrying(self._sleep, until))(once)

    def _within(self, deadlines: Deadlines, outage: Outage, once: Callable[[], T]) -> T:
        """As :meth:`_retried`, within the deadlines."""
        outage.check()
        start = time.monotonic()
        try:
            with answer_by(start + deadlines.answer.total_seconds()):
                result = self._repeated(once, start + deadlines.repeat.total_seconds())
        except PoolIsEmpty as error:
            raise StoreUnreachable(self.where, error) from error
        except DBAPIError as error:
            if is_away(error):
                outage.begins(self.where, error.orig or error)
            else:
                outage.ends()
            self._fail(error)
        except Exception:
            outage.ends()  # the work itself raised, so the database did answer
            raise
        outage.ends()
        return result

    def _fail(self, error: DBAPIError) -> NoReturn:
        """Raise the store's error for a database error that has one, and any other unchanged."""
        if is_too_slow(error):  # a role or a database may have a statement_timeout
            raise StoreTooSlow(self.where) from error
        if is_disk_full(error):
            raise StoreDiskFull(self.where) from error
        if is_transient(error) or is_unusable(error):
            raise StoreUnreachable(self.where, error.orig or error) from error
        raise error

    def close(self) -> None:
        self._kept.close()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
