"""A process by the title that it has given itself, such as a task process of Airflow's."""

from __future__ import annotations

from contextlib import suppress

import psutil


def process_titled(title: str) -> psutil.Process | None:
    """Return a process with this in its command line."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if title in " ".join(process.cmdline()):
                return process
    return None


def gone(process: psutil.Process) -> bool:
    """Whether it has ended, even if its parent has not noticed."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
