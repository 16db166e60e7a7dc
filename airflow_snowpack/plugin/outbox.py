"""Write to the store for Airflow's processes, which must not wait for it.

    outbox = Outbox(open_store)
    outbox.send("the end of run r1", lambda store: Runs(store).ended(...))

A background thread writes. The sender waits until its write is committed, to lose nothing by a kill, but no longer than ``wait``.
During an outage of the store, senders do not wait; their writes are queued and made afterwards. Invariant: sending never raises
and never takes longer than ``wait``, whatever the store does.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_snowpack.store import Store

    Write = Callable[[Store], Any]

log = logging.getLogger(__name__)

WAIT = timedelta(seconds=1)
RETRY_INTERVAL = timedelta(seconds=5)
QUEUE_SIZE = 10_000


class _NotOpened(Exception):
    """The store could not be opened."""


@dataclass(frozen=True, slots=True)
class _Write:
    what: str
    write: Write
    written: threading.Event = field(default_factory=threading.Event)


class Outbox:
    """A bounded queue of writes, and the thread that makes them.

    :param open_store: opens the store; called in the thread when first needed, and again after a failure.
    :param wait: the longest time that a sender waits.
    :param keep: the size of the queue; when it is full, the oldest write is dropped.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        wait: timedelta = WAIT,
        pause: timedelta = RETRY_INTERVAL,
        keep: int = QUEUE_SIZE,
    ) -> None:
        self._open_store = open_store
        self._wait_s = wait.total_seconds()
        self._pause_s = pause.total_seconds()
        self._keep = keep
        self._guard = threading.Lock()
        self._queue: deque[_Write] = deque()
        self._arrived = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._is_unreachable = False
        self._process = os.getpid()

    def send(self, what: str, write: Write) -> bool:
        """Queue a write, named ``what`` in the log, and wait unless the store is unreachable; return whether it is written."""
        queued = _Write(what, write)
        with self._guard:
            if self._process != os.getpid():
                self._reset_after_fork()
            if len(self._queue) >= self._keep:
                dropped = self._queue.popleft().what
                log.error("store_unreachable: %s is not recorded: the queue of %s writes is full", dropped, self._keep)
            self._queue.append(queued)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="snowpack-outbox", daemon=True)
                self._thread.start()
            self._arrived.set()
        return queued.written.wait(0 if self._is_unreachable else self._wait_s)

    def _reset_after_fork(self) -> None:
        # Keep a reference to the parent's connections, which must never be closed here; its thread does not exist here.
        self._inherited, self._store = self._store, None
        self._queue, self._arrived, self._thread = deque(), threading.Event(), None
        self._is_unreachable, self._process = False, os.getpid()

    def _run(self) -> None:
        while True:
            self._arrived.wait()
            self._arrived.clear()
            while self._queue:
                if not self._deliver(self._queue[0]):
                    threading.Event().wait(self._pause_s)

    def _opened(self) -> Store:
        if self._store is None:
            try:
                self._store = self._open_store()
            except Exception as problem:  # a missing or wrong connection may be corrected while Airflow runs
                raise _NotOpened(str(problem)) from problem
        return self._store

    def _deliver(self, queued: _Write) -> bool:
        """Make one write; return ``False`` if the store is unreachable and the write must be repeated."""
        from airflow_snowpack.store import StoreError

        try:
            queued.write(self._opened())
        except (StoreError, _NotOpened) as outage:
            if not self._is_unreachable:
                log.warning("store_unreachable: events of Airflow are queued and recorded later: %s", outage)
            self._is_unreachable = True
            return False
        except Exception:  # a write that always fails must not block the others or end the thread
            log.exception("Not recorded: %s", queued.what)
        self._is_unreachable = False
        with self._guard:
            if self._queue and self._queue[0] is queued:
                self._queue.popleft()
        queued.written.set()
        return True
