"""How long a process that serves requests waits for the database before it reports an outage.

A worker waits for longer, because its work is worth more than its time. For a request, a store that hangs is a store that is
down, and it fails within :attr:`Deadlines.answer`, whatever hangs.

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
    """The periods of a store that serves requests. All of them together stay below :data:`REQUEST_TIMEOUT`.

    :param answer: one piece of work in all, waits and repeats included.
    :param repeat: after this long a passing error is not tried again.
    :param connect: for a new connection; libpq knows whole seconds, and two at the least.
    :param connection: for a connection to become free, when all of them are in use.
    :param file: for other writers of an SQLite file.
    :param pause: after an outage was detected, other callers fail at once for this long.
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
    def within(cls, request: timedelta) -> Deadlines:
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
        )

    @property
    def statement(self) -> timedelta:
        """After this long Postgres itself ends a statement: before it counts as silent, which would be an outage.

        SQLite, which cannot be silent, ends it after :attr:`answer`.
        """
        return self.answer * 7 / 8

    @property
    def idle(self) -> int:
        """How many connections stay open without use: for transactions, and as many for single statements."""
        return max(1, self.connections // 5)


@contextmanager
def answer_by(deadline: float) -> Iterator[None]:
    """Inside of it, a ``DeadlineConnection`` waits until this moment of the monotonic clock."""
    before = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def deadline() -> float | None:
    """Return the time of the monotonic clock by which the current work must be done; ``None`` for no deadline."""
    return _DEADLINE.get()


def is_overdue() -> bool:
    """Return whether the deadline of the current work has passed."""
    end = deadline()
    return end is not None and time.monotonic() >= end


class Outage:
    """Remembers an outage of the store, so that the threads of a server do not wait for it one after the other.

    After :attr:`Deadlines.pause` one caller tries again; the others fail at once until it succeeds.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._known: tuple[str, BaseException] | None = None
        self._try_at = 0.0
        self._guard = Lock()

    def check(self) -> None:
        """:raises StoreUnreachable: another caller detected an outage a moment ago."""
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
