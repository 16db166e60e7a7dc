"""The protocol of a runner, and what it runs.

    class PrintingRunner:
        isolated, inside = True, "/snowpack"
        def run(self, invocation, on_line): ...
        def stop(self): ...

The invariant: an invocation contains everything that the entry receives, and no shell ever interprets it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of an entry.

    :param argv: the program and its arguments, with all paths as the entry sees them.
    :param environment: the variables on top of those that the runner starts from: the worker's environment for a subprocess, the
        image's for a container or a pod. Its values may be secret, and are not part of ``repr``.
    :param folder: the exchange folder as the task sees it.
    :param inside: the exchange folder as the entry sees it.
    :param mark: starts each line with a record of Python's ``logging``, for :class:`OutputLines`; ``None`` if there are none.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    folder: Path
    inside: str
    mark: str | None = None


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of the output of an entry, or one record of ``logging`` in it.

    :param text: without the end of line. The text of a record may have several lines.
    :param level: of ``logging``: ``INFO`` for a line of stdout, ``ERROR`` for one of stderr, and a record's own.
    :param logger: the name of the logger of a record; ``None`` for a line.
    """

    text: str
    level: int
    logger: str | None = None


class Runner(Protocol):
    """Runs an entry, and ends everything that it has started.

    :ivar isolated: whether the entry runs in a container or a pod, without the worker's variables, files and modules.
    :ivar inside: the path of the exchange folder in the container or pod; ``None``: the same path as for the task.
    """

    isolated: bool
    inside: str | None

    def run(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Run the entry to its end, and pass on each line of its output while it runs.

        When this returns or raises, no process, container or pod of the entry is left. A runner runs one invocation.

        :param on_line: called from one thread at a time. An error that it raises ends the entry and is raised.
        :returns: the exit code; negative: the signal that ended it.
        :raises EntryNotStarted: the program does not exist or is not executable.
        :raises EntryCancelled: :meth:`stop` was called.
        """
        ...

    def stop(self) -> None:
        """End the entry with everything that it has started; :meth:`run` raises :class:`EntryCancelled`.

        Callable from any thread, from a signal handler, before :meth:`run` and repeatedly. Returns without waiting for the end.
        """
        ...
