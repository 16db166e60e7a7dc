"""A background role of the installation: repeated rounds of work, with a sign of life in the store.

    poller = Worker(poll, name="snowpack-poller", failure="tables_not_polled", every=timedelta(seconds=1), sign=sign)
    with poller:                  # works in its own thread until the block ends
        ...
    poller.run(stop)              # or in this thread, until the event is set

The invariant: a failed round is logged and a later one tries again; it does not end the role.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)

STOP_WAIT = timedelta(seconds=5)
"""How long the end of a block waits for the current round: a catalog may never answer."""


class Worker:
    """Works in rounds.

    :param work: one round; returns whether there is more to do at once.
    :param failure: the start of the log line of a failed round: ``tables_not_polled``.
    :param every: the pause between two rounds.
    :param retry_after: the pause after a failed round; ``None`` for ``every``.
    :param sign: reported after each successful round.
    :param survives: errors of a round that do not end :meth:`run`.
    :param sign_of_process: report the sign after a failure too, for the sign of a process that also does other things.
    :ivar pause_s: the pause before the next round, in seconds.
    """

    def __init__(
        self,
        work: Callable[[], object],
        *,
        name: str,
        failure: str,
        every: timedelta,
        retry_after: timedelta | None = None,
        sign: SignOfLife | None = None,
        survives: tuple[type[Exception], ...] = (Exception,),
        sign_of_process: bool = False,
    ) -> None:
        self._work = work
        self._failure = failure
        self._every_s = self.pause_s = every.total_seconds()
        self._retry_after_s = self._every_s if retry_after is None else retry_after.total_seconds()
        self._sign = sign
        self._survives = survives
        self._sign_of_process = sign_of_process
        self._problem = Recurring(log)
        self._stopped = threading.Event()
        # A daemon: nothing, not even the end of the process, waits for a round that does not return.
        self._thread = threading.Thread(target=self.run, args=(self._stopped,), name=name, daemon=True)

    def run_once(self) -> bool:
        """Work one round and return whether there is more to do at once."""
        try:
            more = bool(self._work())
        except self._survives as problem:
            self._problem.failed(problem, "%s", self._failure)
            more, alive, self.pause_s = False, self._sign_of_process, self._retry_after_s
        else:
            self._problem.passed()
            alive, self.pause_s = True, self._every_s
        if alive and self._sign is not None:
            self._sign.beat()
        return more

    def run(self, stop: threading.Event) -> None:
        """Work in this thread until ``stop`` is set, and finish the current round."""
        while not stop.is_set():
            if not self.run_once():
                stop.wait(self.pause_s)

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: timedelta = timedelta(0)) -> None:
        """Start no further round, and wait this long for the current one."""
        self._stopped.set()
        self._thread.join(wait.total_seconds())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop(STOP_WAIT)
