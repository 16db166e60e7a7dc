"""A line at the bottom of a terminal that is rewritten, and never in a file or a log.

with ProgressLine("tables", total) as line:
    line.advance(3, "demo.flights")
"""

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from airflow_snowpack.cli.output import printable
from airflow_snowpack.humanize import duration, number

BAR = 20
REDRAW_S = 0.1
TO_START_AND_ERASE = "\r\x1b[K"


class LiveLine:
    """A line at the bottom of a terminal that is rewritten, below the lines that stay; elsewhere only the lines.

    :param out: the stream; whether it is a terminal decides.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.is_live = out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._shown = False

    def show(self, text: str) -> None:
        """Write the live line, cut to the width of the terminal; nothing where there is no terminal."""
        if self.is_live:
            text = printable(text).replace("\n", " ")
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"{TO_START_AND_ERASE}{text if len(text) <= width else text[: width - 1] + '…'}")
            self._out.flush()
            self._shown = True

    def write(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._out.write(f"{printable(text)}\n")
        self._out.flush()

    def clear(self) -> None:
        if self._shown:
            self._out.write(TO_START_AND_ERASE)
            self._out.flush()
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.clear()


class ProgressLine(LiveLine):
    """Shows on stderr how many of a number of things are done, and about how long the others take.

    :param noun: the things, in the plural.
    """

    def __init__(self, noun: str, total: int) -> None:
        super().__init__(sys.stderr)
        self._noun, self._total = noun, total
        self._started, self._drawn_at = time.monotonic(), 0.0

    def advance(self, done: int, latest: str) -> None:
        """Redraw the line with what was done last, at most ten times a second."""
        now, total = time.monotonic(), self._total
        if done < total and now - self._drawn_at < REDRAW_S:
            return
        self._drawn_at = now
        filled, left = BAR * done // total, (now - self._started) / done * (total - done)
        counted = f"{number(done)} of {number(total)} {self._noun}, about {duration(left)} left"
        self.show(f"[{'#' * filled}{'.' * (BAR - filled)}] {counted}: {latest}")
