"""Waits that end: a process, a thread or a line that never comes fails its test and keeps no other waiting.

    with started([sys.executable, "-c", code], stdout=PIPE) as process:
        assert process.stdout.readline() == "ready\\n"     # an empty line once its time is over

    thread = Beside(work)
    thread.join()                                         # fails instead of waiting for ever

The limits are no promises about speed. They are far above what a busy machine needs, and below pytest's own limit for a
test, after which nothing can be tidied up any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from effort import SOAK

# A soak run keeps one process alive for all of its rounds.
PATIENCE_S = 6 * 3600.0 if SOAK else 240.0


@contextmanager
def started(
    command: Sequence[str | Path], *, patience_s: float = PATIENCE_S, **arguments: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process in a session of its own, which is ended with everything below it, at the latest after this time.

    Not just the process: a child that lives on would hold its pipes open, and whoever reads them would wait for the child.
    """
    process = subprocess.Popen(command, text=True, start_new_session=True, **arguments)
    too_long = threading.Timer(patience_s, end_all, [process])
    too_long.daemon = True
    too_long.start()
    try:
        yield process
    finally:
        too_long.cancel()
        end_all(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):  # something was still to be written
                    pipe.close()
        process.wait(PATIENCE_S)


def end_all(process: subprocess.Popen[str]) -> None:
    """kill -9 for the process and everything below it that stayed in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def output_of(*command: str | Path) -> str:
    """What a command that ends well says on its standard output."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout


class Beside(threading.Thread):
    """A thread that begins at once, keeps no process from its end, and that nobody waits for without end."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(target=work, daemon=True)
        self.start()

    def join(self, timeout: float | None = None) -> None:
        super().join(PATIENCE_S if timeout is None else timeout)
        if timeout is None and self.is_alive():
            raise AssertionError(f"After {PATIENCE_S:.0f} s the thread is still at it: {self._target}")  # type: ignore[attr-defined]  # threading's own
