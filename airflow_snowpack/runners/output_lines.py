"""The output of an entry, line by line, with the level of each line.

    lines = OutputLines(on_line, mark=invocation.mark)
    lines.feed(Stream.STDERR, b"half a li")
    lines.feed(Stream.STDERR, b"ne\\n")                 # on_line(OutputLine("half a line", logging.ERROR))
    lines.close()                                       # passes on what has no end of line

A line of stdout has the level ``INFO``, one of stderr ``ERROR``. A record of Python's ``logging`` in a module entry is a line of
the mark and JSON, which ``entry_process.py`` writes, and keeps its own level; JSON that is not a record is an ordinary line.

Memory does not grow with the output: a line is cut after ``MAX_LINE_BYTES``, and its end shows how much was left out. Lines end
with a line feed, a carriage return, or both. Bytes that are not UTF-8 become U+FFFD, and control characters other than tabs and
escape sequences of colors are written as ``\\x00``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_snowpack.runners.entry_process import MAX_RECORD_BYTES
from airflow_snowpack.runners.invocation import OutputLine

MAX_LINE_BYTES = 16 * 1024
CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\x1b"}
# Other escape sequences move the cursor of a terminal that shows the log, or write to its clipboard.
NOT_A_COLOR = re.compile(r"\x1b(?!\[[0-9;:]*m)")


class Stream(StrEnum):
    """Where an entry wrote a line."""

    STDOUT = "stdout"
    STDERR = "stderr"


LEVELS = {Stream.STDOUT: logging.INFO, Stream.STDERR: logging.ERROR}


@dataclass(slots=True)
class _Unfinished:
    """The incomplete line of a stream.

    :ivar cut: how many of its bytes were left out.
    :ivar ended_with_return: whether the byte before was a carriage return: a line feed after it ends no other line.
    """

    data: bytearray = field(default_factory=bytearray)
    cut: int = 0
    ended_with_return: bool = False


class OutputLines:
    """Splits the output of one entry into lines. Not thread-safe.

    :param on_line: receives each line.
    :param mark: of the invocation: what starts a line that carries a record of ``logging``; ``None`` for a shell entry.
    """

    def __init__(self, on_line: Callable[[OutputLine], None], mark: str | None = None) -> None:
        self._on_line = on_line
        self._mark = mark.encode() if mark else None
        self._unfinished = {stream: _Unfinished() for stream in Stream}

    def feed(self, stream: Stream, data: bytes) -> None:
        """Pass on the lines that end in this part of a stream."""
        line = self._unfinished[stream]
        if line.ended_with_return and data:
            line.ended_with_return = False
            data = data.removeprefix(b"\n")
        for part in data.splitlines(keepends=True):
            text = part.rstrip(b"\r\n")
            self._extend(line, text)
            if len(text) < len(part):
                self._finish(stream)
                line.ended_with_return = part.endswith(b"\r")

    def close(self) -> None:
        """Pass on what remains of each stream. The object can be used again."""
        for stream, line in self._unfinished.items():
            line.ended_with_return = False
            if line.data or line.cut:
                self._finish(stream)

    def _extend(self, line: _Unfinished, data: bytes) -> None:
        # A long record may follow a mark.
        limit = MAX_LINE_BYTES if self._mark is None else MAX_LINE_BYTES + MAX_RECORD_BYTES
        room = max(0, limit - len(line.data))
        line.data += data[:room]
        line.cut += len(data) - min(room, len(data))

    def _finish(self, stream: Stream) -> None:
        line = self._unfinished[stream]
        data, cut = bytes(line.data), line.cut
        line.data.clear()
        line.cut = 0
        # A program may print text without an end of line before a record.
        before, marked, after = data.partition(self._mark) if self._mark else (data, b"", b"")
        record = _record(after) if marked and not cut else None
        if record is None:
            self._on_line(_plain(stream, data, cut))
            return
        if before:
            self._on_line(_plain(stream, before, 0))
        self._on_line(record)


def _plain(stream: Stream, data: bytes, cut: int) -> OutputLine:
    kept = data[:MAX_LINE_BYTES]
    cut += len(data) - len(kept)
    end = f"… ({cut:,} more bytes in this line)" if cut else ""
    return OutputLine(loggable(kept) + end, LEVELS[stream])


def loggable(data: bytes) -> str:
    """Return bytes as text that a log can store and a terminal can show."""
    return NOT_A_COLOR.sub(r"\\x1b", data.decode("utf-8", "replace").translate(CONTROL_CHARACTERS))


def _record(data: bytes) -> OutputLine | None:
    """Return the record of ``logging`` in this JSON, if it is one."""
    try:
        found = json.loads(data)
        text, level, logger = str(found["text"]), found["level"], found["logger"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if type(level) is not int or not isinstance(logger, str):
        return None
    # JSON may contain lone surrogates, which no log can store.
    lines = [loggable(line.encode("utf-8", "replace")) for line in text.split("\n")]
    return OutputLine(
        "\n".join(lines), max(logging.DEBUG, min(level, logging.CRITICAL)), loggable(logger.encode("utf-8", "replace"))
    )
