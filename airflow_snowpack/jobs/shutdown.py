"""Answers SIGTERM from a thread of its own, even while the main thread is stuck inside of a long call.

Python runs signal handlers in the main thread and only between two of its instructions, which a call into C may delay
for hours. The C-level handler, however, writes the signal's number to the *wake-up descriptor* at once; a thread that
reads the other end is told in time.

    with ShutdownWatcher(on_signal=lambda name: attempt.abandon(f"Worker received {name}")) as watcher:
        ...
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

log = logging.getLogger(__name__)

WATCHED = (signal.SIGTERM, signal.SIGINT)


class ShutdownWatcher:
    """Watches for SIGTERM and SIGINT; must be entered in the main thread.

    :param on_signal: called in the watcher's thread with the signal's name; returns whether the process must end now,
        with exit code 1.
    """

    def __init__(self, on_signal: Callable[[str], bool], end_process: Callable[[int], None] = os._exit) -> None:
        self._on_signal = on_signal
        self._end_process = end_process
        self.requested = threading.Event()

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._old_descriptor = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, self._handle) for number in WATCHED}
        self._thread = threading.Thread(target=self._watch, name="snowpack-shutdown", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_descriptor)
        self._write.close()  # the thread reads the end and stops
        self._thread.join()
        self._read.close()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.requested.set()

    def _watch(self) -> None:
        watched = {int(number) for number in WATCHED}
        while numbers := self._read.recv(16):
            for number in watched.intersection(numbers):
                self.requested.set()
                name = signal.Signals(number).name
                log.warning("shutdown_requested: %s", name)
                if self._on_signal(name):
                    self._end_process(1)
