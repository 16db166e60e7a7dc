"""A thread that runs one step again and again while a block runs.

    with PeriodicThread(step, every=timedelta(seconds=60), name="snowpack-heartbeat"):
        work()

The invariant: no step begins after the block's end, or after a step that returned ``False``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self


class PeriodicThread:
    """Runs a step at each period until its block ends, or a step returns ``False``.

    :param step: it raises nothing.
    :param every: the time between two steps, and before the first one.
    :param on_last: called once, from the thread, when a step returned ``False`` before the block ended.
    """

    def __init__(
        self, step: Callable[[], bool], *, every: timedelta, name: str, on_last: Callable[[], None] = lambda: None
    ) -> None:
        self._step = step
        self._every_s = every.total_seconds()
        self._on_last = on_last
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            if not self._step() and not self._stopped.is_set():
                self._on_last()
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join(timeout=self._every_s)
