"""Runs the programs of a build, one after the other, without a shell; a stop ends the running one and starts no other.

    commands = Commands(log.add)
    commands.run(["buildah", "version"], folder=scratch)                      # its output as text, or CommandFailed
    commands.stop()                                                           # from any thread

Each program runs under the supervisor of :class:`~airflow_snowpack.runners.subprocess_runner.SubprocessRunner`: if this process
is killed, the program ends with everything that it has started.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from airflow_snowpack.errors import Kind
from airflow_snowpack.runners.errors import EntryCancelled, ending
from airflow_snowpack.runners.images.errors import ImageError
from airflow_snowpack.runners.invocation import Invocation, OutputLine
from airflow_snowpack.runners.subprocess_runner import SubprocessRunner

MAX_OUTPUT_LINES = 10_000
"""How many lines of a program's output are returned; the log has its own limit."""


class CommandFailed(ImageError, kind=Kind.FAILED):
    """A program of a build failed.

    :ivar problem: how it ended, with the last line of its errors.
    :ivar errors: the lines of its standard error.
    """

    def __init__(self, program: str, how: str, errors: Sequence[str] = ()) -> None:
        self.errors = tuple(line.strip() for line in errors if line.strip())
        self.problem = how + (f": {self.errors[-1].rstrip('.')}" if self.errors else "")
        super().__init__(f"{program} {self.problem}.")


class Commands:
    """Runs programs one at a time; ``on_line`` receives each line of their output, for a log."""

    def __init__(self, on_line: Callable[[str], None] = lambda _: None) -> None:
        self._on_line = on_line
        self._lock = threading.RLock()  # a signal handler may call stop() while the same thread holds it
        self._running: SubprocessRunner | None = None
        self._stopped = False

    def run(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        *,
        timeout: timedelta | None = None,
        is_logged: bool = True,
    ) -> list[str]:
        """Run a program to its end; return the lines of its standard output.

        :param folder: the working directory.
        :param environment: on top of this process's own.
        :param is_logged: also log the lines of its standard output; lines of its standard error are always logged.
        :raises CommandFailed: it ended with an error or took too long.
        :raises EntryNotStarted: it is not installed.
        :raises EntryCancelled: :meth:`stop` was called.
        """
        lines: list[str] = []
        errors: list[str] = []

        def keep(line: OutputLine) -> None:
            is_error = line.level >= logging.ERROR
            kept = errors if is_error else lines
            if len(kept) < MAX_OUTPUT_LINES:
                kept.append(line.text)
            else:
                kept[-1] = line.text
            if is_error or is_logged:
                self._on_line(line.text)

        program, late = Path(argv[0]).name, threading.Event()
        with self._lock:
            if self._stopped:
                raise EntryCancelled
            runner = self._running = SubprocessRunner()

        def end_late() -> None:
            late.set()
            runner.stop()

        timer = threading.Timer(math.inf if timeout is None else timeout.total_seconds(), end_late)
        timer.daemon = True
        if timeout is not None:
            timer.start()
        try:
            code = runner.run(Invocation(tuple(argv), dict(environment or {}), folder, str(folder)), keep)
        except EntryCancelled:
            if late.is_set() and timeout is not None:
                raise CommandFailed(program, f"did not end within {timeout.total_seconds():g} s") from None
            raise
        finally:
            timer.cancel()
            with self._lock:
                self._running = None
        if code != 0:
            raise CommandFailed(program, f"ended {ending(code)}", errors)
        return lines

    def stop(self) -> None:
        """End the running program, and start no other; :meth:`run` raises ``EntryCancelled``."""
        with self._lock:
            self._stopped = True
            if self._running is not None:
                self._running.stop()
