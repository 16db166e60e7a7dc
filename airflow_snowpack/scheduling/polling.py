"""Polls tables beside everything else, in a thread of its own: a catalog that hangs keeps no clock and no launch waiting.

with Polling(poller, SignOfLife(store, Role.POLLER)):
    ...
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from types import TracebackType
from typing import Self

from airflow_snowpack.recurring import Recurring
from airflow_snowpack.scheduling.poller import Poller
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)

POLLER_PERIOD = timedelta(minutes=5)
"""So long may one look at all watched tables take, until the next sign of life."""


class Polling:
    """Lets a poller take one step after the other until it is told to stop.

    :param sign: reported after each step that succeeded: a thread that hangs in a catalog reports none.
    :param pause: between two steps. How often one table is read, the poller itself says.
    """

    def __init__(self, poller: Poller, sign: SignOfLife, pause: timedelta = timedelta(seconds=1)) -> None:
        self._poller = poller
        self._sign = sign
        self._pause = pause
        self._stop = threading.Event()
        # Nobody waits for a catalog that does not answer, not even the end of the process.
        self._thread = threading.Thread(target=self._run, name="snowpack-poller", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait: timedelta = timedelta(0)) -> None:
        """No further step.

        :param wait: how long to wait for the one that is under way.
        """
        self._stop.set()
        self._thread.join(wait.total_seconds())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop(wait=timedelta(seconds=5))

    def _run(self) -> None:
        problem = Recurring(log)
        while not self._stop.is_set():
            try:
                self._poller.step()
                problem.passed()
                self._sign.beat()
            except Exception as error:  # noqa: BLE001 - catalogs and file systems raise anything; the next step tries again
                problem.failed(error, "tables_not_polled")
            self._stop.wait(self._pause.total_seconds())
