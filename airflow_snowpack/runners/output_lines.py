"""The output of an entry, line by line, with the level of each line.

    lines = OutputLines(on_line, mark=invocation.mark)
    lines.feed(Stream.STDERR, b"half a li")
    lines.feed(Stream.STDERR, b"ne\\n")                 # on_line(Line("half a line", logging.ERROR))
    lines.close()                                       # passes on what has no end of line

A line is at most ``MAX_LINE_BYTES`` long; the rest of a longer one is dropped and counted at its end. Bytes that are not UTF-8
become U+FFFD, and control characters other than tabs are escaped. Memory does not grow with the output.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from airflow_snowpack.runners.invocation import Line

MAX_LINE_BYTES = 16 * 1024


class Stream(StrEnum):
    """Where an entry wrote a line."""

    STDOUT = "stdout"
    STDERR = "stderr"


class OutputLines:
    """Splits the output of one entry into lines. Not for several threads at once.

    :param on_line: receives each line.
    :param mark: of the invocation: what starts a line that carries a record of ``logging``; ``None`` for a shell entry.
    """

    def __init__(self, on_line: Callable[[Line], None], mark: str | None = None) -> None:
        self._on_line = on_line
        self._mark = mark

    def feed(self, stream: Stream, data: bytes) -> None:
        """Pass on the lines that end in this part of a stream."""
        raise NotImplementedError

    def close(self) -> None:
        """Pass on what remains of each stream. The object can be used again."""
        raise NotImplementedError
