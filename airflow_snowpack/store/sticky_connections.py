"""Connections that stay open between single statements.

To check a connection out of the pool, wrap it and return it costs about as much as a claim itself. A sticky connection is popped
off a stack and pushed back; one that met an error is closed, so that no broken one is used twice.

    kept = StickyConnections(engine)
    kept.run(lambda conn: conn.execute(...))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

STATEMENT_BY_STATEMENT = "snowpack_statement_by_statement"

MAX_STICKY = 2
"""Far below the pool's 15, where they are missing: a thread that finds the pool empty waits for half a minute."""


def statement_by_statement(engine: sa.Engine) -> sa.Engine:
    """The same engine, and the same connections, where each statement is a transaction of its own."""
    return engine.execution_options(**{STATEMENT_BY_STATEMENT: True})


class StickyConnections:
    """At most so many, and no more than threads were busy at the same moment.

    :param engine: each statement on it must be a transaction of its own.
    :param at_most: 0 for a pool of one connection, which is not to be held between statements.
    """

    def __init__(self, engine: sa.Engine, at_most: int = MAX_STICKY) -> None:
        self._engine = engine
        self._at_most = at_most
        self._idle: list[sa.Connection] = []
        self._inherited: list[sa.Connection] = []
        self._process = os.getpid()

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run the work on a connection that no other thread uses meanwhile."""
        if self._at_most and self._process != os.getpid():  # without any, the pool leaves its own to the parent
            self._leave_to_parent()
        try:
            conn = self._idle.pop()
        except IndexError:
            conn = self._engine.connect()
        try:
            result = work(conn)
            if conn.in_transaction():
                conn.commit()  # SQLAlchemy's own, unless a pooler is in between: the database has committed each statement
        except BaseException as error:
            conn.close()
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                self.close()  # the others are most likely lost with it
            raise
        if len(self._idle) < self._at_most:
            self._idle.append(conn)
        else:
            conn.close()
        return result

    def close(self) -> None:
        """Give all that are idle back to the pool."""
        while self._idle:
            self._idle.pop().close()

    def _leave_to_parent(self) -> None:
        # After a fork both processes have the same sockets. They are kept, untouched, so that nothing here ever closes them.
        self._inherited, self._idle = self._idle, []
        self._engine.dispose(close=False)
        self._process = os.getpid()
