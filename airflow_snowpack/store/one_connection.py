"""A pool of one connection for a task's process: its threads take turns, and nothing is held while none of them uses it.

    sa.create_engine(url, **OneConnection.OPTIONS)

A server with a hundred connections serves as many tasks, most of which wait for Spark most of the time. The invariant: **no
thread waits longer than** :data:`A_TURN` **for another one.** The renewal of a lease that meets a long transaction, or a thread
that is in a transaction already, gets a connection of its own, which is closed after use.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import Any, ClassVar

from sqlalchemy.exc import TimeoutError as NoTurn
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Empty

A_TURN = timedelta(seconds=1)
"""Longer than the store's transactions take, and far shorter than the time between the renewals of a lease and its end."""
IDLE = timedelta(seconds=10)
"""A connection that was not used for so long is closed. A running job looks every two seconds whether it was cancelled."""


class OneConnection(QueuePool):
    """A queue of one, which gives out more than that for a moment."""

    OPTIONS: ClassVar[dict[str, Any]]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._users: dict[int, int] = {}
        self._inherited: list[Any] = []
        self._process = os.getpid()
        self._closing: threading.Timer | None = None
        self._used_at = 0.0

    def _do_get(self) -> ConnectionPoolEntry:
        if self._process != os.getpid():
            self._leave_to_parent()
        thread = threading.get_ident()
        try:
            entry = self._another() if thread in self._users.values() else super()._do_get()
        except NoTurn:
            entry = self._another()
        self._users[id(entry)] = thread
        return entry

    def _another(self) -> ConnectionPoolEntry:
        with self._overflow_lock:
            self._overflow += 1
        try:
            return self._create_connection()
        except BaseException:  # an interrupt too: the place that was counted is free again
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
        """Close the connection, and wait for none that is not used any more."""
        super().dispose()
        with self._overflow_lock:
            if self._closing is not None:
                self._closing.cancel()
                self._closing = None

    def _leave_to_parent(self) -> None:
        # After a fork both processes have the same sockets. They are kept, untouched, so that nothing here ever closes them.
        self._inherited.append(self._pool)
        self._pool = self._queue_class(1, use_lifo=True)
        self._overflow_lock = threading.Lock()
        self._overflow, self._users, self._closing = -1, {}, None
        self._process = os.getpid()


OneConnection.OPTIONS = {"poolclass": OneConnection, "pool_size": 1, "max_overflow": 0, "pool_timeout": A_TURN.total_seconds()}
