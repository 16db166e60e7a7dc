"""A progress line on stderr: on a terminal alone, and never in a file or a log.

with ProgressLine("tables", total) as line:
    line.show(3, "demo.flights")
"""

import shutil
import sys
import time
from types import TracebackType
from typing import Self

from airflow_snowpack.cli.output import printable
from airflow_snowpack.humanize import duration, number

BAR = 20
REDRAW_S = 0.1


class ProgressLine:
    """Shows how many of a number of things are done, and about how long the others take.

    :param noun: the things, in the plural.
    """

    def __init__(self, noun: str, total: int) -> None:
        self._noun = noun
        self._total = total
        self._shows = sys.stderr.isatty()
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def show(self, done: int, latest: str) -> None:
        """Redraw the line, at most ten times a second.

        :param latest: what was done last.
        """
        now, total = time.monotonic(), self._total
        if not self._shows or (done < total and now - self._drawn_at < REDRAW_S):
            return
        self._drawn_at = now
        filled = BAR * done // total
        left = (now - self._started) / done * (total - done)
        text = (
            f"[{'#' * filled}{'.' * (BAR - filled)}] {number(done)} of {number(total)} {self._noun}, about {duration(left)} left"
        )
        self._write(f"{text}: {printable(latest)}"[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<{self._width}}")
        sys.stderr.flush()
        self._width = len(text)
