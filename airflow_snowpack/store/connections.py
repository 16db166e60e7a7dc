"""Connections that stay open between single statements, and the pool of a task's process, which has only one.

Checking a connection out of the pool, wrapping and returning it costs about as much as a claim. A sticky connection is popped off
a stack and pushed back; a connection that met an error is closed and never reused.

    kept = StickyConnections(engine)
    kept.run(lambda conn: conn.execute(...))

A task holds no connection while none of its threads uses it: a server with a hundred connections then serves at least as many
tasks, most of which wait for Spark.

    sa.create_engine(url, **ONE_CONNECTION)
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, TimeoutError as NoTurn
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Empty

T = TypeVar("T")

STATEMENT_BY_STATEMENT = "snowpack_statement_by_statement"
MAX_STICKY = 2
"""Far below the pool's 15, which they count against: a thread that finds the pool empty waits for half a minute."""
A_TURN = timedelta(seconds=1)
"""Longer than the store's transactions take, and far shorter than the time between the renewals of a lease and its end."""
IDLE = timedelta(seconds=10)
"""An unused connection is closed after this time. A running job checks every two seconds whether it was cancelled."""


def statement_by_statement(engine: sa.Engine) -> sa.Engine:
    """Return the same engine, with the same connections, in autocommit: each statement is a transaction."""
    return engine.execution_options(**{STATEMENT_BY_STATEMENT: True})


class StickyConnections:
    """Keeps at most ``at_most`` connections open between statements, and no more than were ever in use at once.

    :param engine: must be in autocommit.
    :param at_most: 0 for a pool of one connection, which must not be held between statements.
    """

    def __init__(self, engine: sa.Engine, at_most: int = MAX_STICKY) -> None:
        self._engine = engine
        self._at_most = at_most
        self._idle: list[sa.Connection] = []
        self._inherited: list[sa.Connection] = []
        self._process = os.getpid()

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run the work on a connection that no other thread uses meanwhile."""
        if self._at_most and self._process != os.getpid():  # with 0, the pool leaves its connection to the parent
            self._abandon_inherited()
        try:
            conn = self._idle.pop()
        except IndexError:
            conn = self._engine.connect()
        try:
            result = work(conn)
            if conn.in_transaction():
                conn.commit()  # SQLAlchemy's transaction, unless behind a pooler: the database has committed each statement
        except BaseException as error:
            conn.close()
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                self.close()  # the others are most likely lost too
            raise
        if len(self._idle) < self._at_most:
            self._idle.append(conn)
        else:
            conn.close()
        return result

    def close(self) -> None:
        """Return all idle connections to the pool."""
        while self._idle:
            self._idle.pop().close()

    def _abandon_inherited(self) -> None:
        # After a fork both processes share the sockets. Keep a reference to them, so that this process never closes them.
        self._inherited, self._idle = self._idle, []
        self._engine.dispose(close=False)
        self._process = os.getpid()


class OneConnection(QueuePool):
    """A pool of one connection, which the threads of a process share.

    The invariant: no thread waits longer than :data:`A_TURN` for another one. A lease renewal that meets a long transaction, or a
    thread that is already in a transaction, gets an extra connection, which is closed after use.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._users: dict[int, int] = {}
        self._inherited: list[Any] = []
        self._process = os.getpid()
        self._closing: threading.Timer | None = None
        self._used_at = 0.0

    def _do_get(self) -> ConnectionPoolEntry:
        if self._process != os.getpid():
            self._abandon_inherited()
        thread = threading.get_ident()
        try:
            entry = self._extra_connection() if thread in self._users.values() else super()._do_get()
        except NoTurn:
            entry = self._extra_connection()
        self._users[id(entry)] = thread
        return entry

    def _extra_connection(self) -> ConnectionPoolEntry:
        with self._overflow_lock:
            self._overflow += 1
        try:
            return self._create_connection()
        except BaseException:  # an interrupt too: give up the counted place
            self._dec_overflow()
            raise

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        self._users.pop(id(record), None)
        if self._process != os.getpid():
            self._inherited.append(record)
            return
        super()._do_return_conn(record)
        self._used_at = time.monotonic()
        with self._overflow_lock:
            if self._closing is None:
                self._close_in(IDLE.total_seconds())

    def _close_in(self, seconds: float) -> None:
        self._closing = threading.Timer(seconds, self._close_idle)
        self._closing.daemon = True
        self._closing.start()

    def _close_idle(self) -> None:
        with self._overflow_lock:
            rest = self._used_at + IDLE.total_seconds() - time.monotonic()
            if rest > 0:
                self._close_in(rest)
                return
            self._closing = None
        try:
            record = self._pool.get(False)
        except Empty:
            return  # in use; the time starts again when it is returned
        self._dec_overflow()
        record.close()

    def dispose(self) -> None:
        """Close the connection, and cancel the timer that closes it when idle."""
        super().dispose()
        with self._overflow_lock:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None

    def _abandon_inherited(self) -> None:
        # After a fork both processes share the sockets. Keep a reference to them, so that this process never closes them.
        self._inherited.append(self._pool)
        self._pool = self._queue_class(1, use_lifo=True)
        self._overflow_lock = threading.Lock()
        self._overflow, self._users, self._closing = -1, {}, None
        self._process = os.getpid()


ONE_CONNECTION = {"poolclass": OneConnection, "pool_size": 1, "max_overflow": 0, "pool_timeout": A_TURN.total_seconds()}
