"""Writes into the store on behalf of Airflow's own processes, which must never wait for it.

    outbox = Outbox(open_store)
    outbox.send("the end of run r1", lambda store: Runs(store).ended(...))

A thread does the writing. Whoever sends waits until it is written, so that nothing is lost when the process is killed a moment
later, but never longer than ``wait``; while the store is away nobody waits at all, and what was sent is kept and written when it
is back. The invariant: sending never raises and never takes longer than ``wait``, whatever the store does.
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
AFTER_AN_OUTAGE = timedelta(seconds=5)
KEEP = 10_000


class _NotOpened(Exception):
    """The store could not be opened."""


@dataclass(frozen=True, slots=True)
class _Letter:
    what: str
    write: Write
    written: threading.Event = field(default_factory=threading.Event)


class Outbox:
    """Takes writes and makes them.

    :param open_store: opens the store; called by the thread when it is first needed, and again after it failed.
    :param wait: how long a sender waits at most.
    :param keep: how many writes are kept while the store is away; then the oldest goes.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        wait: timedelta = WAIT,
        pause: timedelta = AFTER_AN_OUTAGE,
        keep: int = KEEP,
    ) -> None:
        self._open_store = open_store
        self._wait_s = wait.total_seconds()
        self._pause_s = pause.total_seconds()
        self._keep = keep
        self._guard = threading.Lock()
        self._letters: deque[_Letter] = deque()
        self._came = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._is_away = False
        self._process = os.getpid()

    def send(self, what: str, write: Write) -> bool:
        """Have something written.

        :param what: for the log, when it cannot be.
        :returns: whether it is written by now.
        """
        letter = _Letter(what, write)
        with self._guard:
            if self._process != os.getpid():
                self._begin_after_fork()
            if len(self._letters) >= self._keep:
                dropped = self._letters.popleft().what
                log.error("store_unreachable: %s is not recorded, since %s writes wait already", dropped, self._keep)
            self._letters.append(letter)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="snowpack-outbox", daemon=True)
                self._thread.start()
            self._came.set()
        return letter.written.wait(0 if self._is_away else self._wait_s)

    def _begin_after_fork(self) -> None:
        # The parent's connections are its own; kept untouched, so that nothing here ever closes them. Its thread is not here.
        self._inherited, self._store = self._store, None
        self._letters, self._came, self._thread = deque(), threading.Event(), None
        self._is_away, self._process = False, os.getpid()

    def _run(self) -> None:
        while True:
            self._came.wait()
            self._came.clear()
            while self._letters:
                if not self._deliver(self._letters[0]):
                    threading.Event().wait(self._pause_s)

    def _opened(self) -> Store:
        if self._store is None:
            try:
                self._store = self._open_store()
            except Exception as problem:  # a connection that is missing or wrong may be put right while Airflow runs
                raise _NotOpened(str(problem)) from problem
        return self._store

    def _deliver(self, letter: _Letter) -> bool:
        """Write one; ``False`` when the store is away and it has to be tried again."""
        from airflow_snowpack.store import StoreError

        try:
            letter.write(self._opened())
        except (StoreError, _NotOpened) as outage:
            if not self._is_away:
                log.warning("store_unreachable: what Airflow tells is kept and recorded later: %s", outage)
            self._is_away = True
            return False
        except Exception:  # a write that fails for good must not keep the others, nor end the thread
            log.exception("Not recorded: %s", letter.what)
        self._is_away = False
        with self._guard:
            if self._letters and self._letters[0] is letter:
                self._letters.popleft()
        letter.written.set()
        return True
