"""Runs an entry as a process of the worker's host.

    runner = SubprocessRunner()
    code = runner.run(invocation, on_line)

The entry starts in a session of its own under a supervisor (``supervisor.py``), with the worker's environment, without standard
input, and in the exchange folder. The invariant: when :meth:`run` has ended, or the task or the supervisor was killed, no process
of the entry is left, also none that left its process group or session.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_snowpack.runners.invocation import Invocation, Line


class SubprocessRunner:
    """The runner ``subprocess``.

    :param grace: seconds between SIGTERM and SIGKILL when the entry is stopped.
    """

    isolated = False
    inside: str | None = None

    def __init__(self, grace: float = 3.0) -> None:
        self.grace = grace

    def run(self, invocation: Invocation, on_line: Callable[[Line], None]) -> int:
        """Run the entry; see :meth:`Runner.run`. Files of a task that was killed are removed with the exchange folder."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the entry; see :meth:`Runner.stop`."""
        raise NotImplementedError
