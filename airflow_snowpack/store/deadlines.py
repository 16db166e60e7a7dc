"""How long a process that serves requests waits for the database before it reports an outage.

A worker waits longer, because its work is worth more than its time. A request treats a store that hangs as down, and fails within
:attr:`Deadlines.answer` whatever hangs.

    store = open_store(url, deadlines=Deadlines())
    store.read(...)          # StoreUnreachable or StoreTooSlow after four seconds at the latest

A stopped server, or a network that drops packets, does not answer at all, and no timeout of the server ends that wait. The client
therefore ends it, and closes the connection.
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
    """The time limits of a store that serves requests. Together they stay below :data:`REQUEST_TIMEOUT`.

    :param answer: for one piece of work, waits and retries included.
    :param repeat: after this time a transient error is not retried.
    :param connect: for a new connection; libpq takes whole seconds, at least two.
    :param connection: for a free connection when all are in use.
    :param file: for other writers of an SQLite file.
    :param pause: how long other callers fail at once after an outage was detected.
    :param connections: the maximum number of connections; a server has about forty threads.
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
        """Return the limits for requests that may take this long: each keeps its share of :data:`REQUEST_TIMEOUT`.

        :param request: at least :data:`REQUEST_TIMEOUT`, because libpq waits at least two seconds for a connection.
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
        """The statement timeout of Postgres: shorter than the time after which silence counts as an outage.

        SQLite, which cannot be silent, ends a statement after :attr:`answer`.
        """
        return self.answer * 7 / 8

    @property
    def idle(self) -> int:
        """How many unused connections stay open for transactions, and again for single statements."""
        return max(1, self.connections // 5)


@contextmanager
def answer_by(deadline: float) -> Iterator[None]:
    """Within the block, a ``DeadlineConnection`` waits until this time of the monotonic clock."""
    before = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(before)


def deadline() -> float | None:
    """Return the time of the monotonic clock by which the current work must be done; ``None`` for no deadline."""
    return _DEADLINE.get()


def is_overdue() -> bool:
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
        with self._guard:
            self._known, self._try_at = (where, cause), time.monotonic() + self._deadlines.pause.total_seconds()

    def ends(self) -> None:
        if self._known is not None:
            with self._guard:
                self._known = None
