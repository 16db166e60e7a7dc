"""How long a process that answers people waits for the database, before it says that the store is away.

A worker waits: its work is worth more than its time. Who looks at a page does not: for him a store that hangs is a store that is
down, and he is told so within :attr:`Deadlines.answer`, whatever hangs.

    store = open_store(url, deadlines=Deadlines())
    store.read(...)          # StoreUnreachable or StoreTooSlow after four seconds at the latest

A server that is stopped, or a network that swallows packets, answers nothing at all, and no timeout of the server's own ends
that. So the wait for an answer ends here, and its connection with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock

from airflow_snowpack.store.errors import StoreUnreachable

REQUEST_TIMEOUT = timedelta(seconds=5)

_DEADLINE: ContextVar[float | None] = ContextVar("snowpack_store_deadline", default=None)


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The periods of a store that answers people. All of them together stay below :data:`REQUEST_TIMEOUT`.

    :param answer: one piece of work in all, waits and repeats included.
    :param repeat: after this long a passing error is not tried again.
    :param connect: for a new connection; libpq knows whole seconds, and two at the least.
    :param connection: for a connection to become free, when all of them are in use.
    :param file: for other writers of an SQLite file.
    :param pause: once the store was found to be away, nobody else waits for it during this time.
    :param connections: how many at once; a server has about forty threads.
    """

    answer: timedelta = timedelta(seconds=4)
    repeat: timedelta = timedelta(seconds=2)
    connect: timedelta = timedelta(seconds=2)
    connection: timedelta = timedelta(seconds=3)
    file: timedelta = timedelta(seconds=3)
    pause: timedelta = timedelta(seconds=1)
    connections: int = 50

    @classmethod
    def within(cls, request: timedelta, connections: int = 50) -> Deadlines:
        """Return the periods for requests that may take this long: each keeps its share of :data:`REQUEST_TIMEOUT`.

        :param request: :data:`REQUEST_TIMEOUT` or longer, since libpq waits for a connection for two seconds at least.
        """
        share, whole = request / REQUEST_TIMEOUT, cls()
        return cls(
            answer=whole.answer * share,
            repeat=whole.repeat * share,
            connect=whole.connect * share,
            connection=whole.connection * share,
            file=whole.file * share,
            connections=connections,
        )

    @property
    def statement(self) -> timedelta:
        """After this long Postgres itself ends a statement: before we take it for silent, which would count as an outage.

        SQLite, which cannot be silent, ends it after :attr:`answer`.
        """
        return self.answer * 7 / 8

    @property
    def idle(self) -> int:
        """How many connections stay open while nobody uses them, of those for transactions and of those for single statements."""
        return max(1, self.connections // 5)


@contextmanager
def answer_by(deadline: float) -> Iterator[None]:
    """Inside of it, a ``PatientConnection`` waits until this moment of the monotonic clock."""
    before = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def deadline() -> float | None:
    """The moment of the monotonic clock by which the present work must be done; ``None`` for no such moment."""
    return _DEADLINE.get()


def is_overdue() -> bool:
    """Return whether the deadline of the present work has passed."""
    end = deadline()
    return end is not None and time.monotonic() >= end


class Outage:
    """Remembers that the store is away, so that not every thread of a server waits for it in turn.

    After :attr:`Deadlines.pause` one caller tries; the others are refused on until it knows better.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._known: tuple[str, BaseException] | None = None
        self._try_at = 0.0
        self._guard = Lock()

    def check(self) -> None:
        """:raises StoreUnreachable: somebody found it away a moment ago."""
        if self._known is None:
            return
        with self._guard:
            known, now = self._known, time.monotonic()
            if known is None:
                return
            if now < self._try_at:
                raise StoreUnreachable(*known)
            self._try_at = now + self._deadlines.answer.total_seconds()

    def begins(self, where: str, cause: BaseException) -> None:
        """The database did not answer."""
        with self._guard:
            self._known, self._try_at = (where, cause), time.monotonic() + self._deadlines.pause.total_seconds()

    def ends(self) -> None:
        """The database answered."""
        if self._known is not None:
            with self._guard:
                self._known = None
