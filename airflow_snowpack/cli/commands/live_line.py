"""A line at the bottom of a terminal that is written anew, below the lines that stay; elsewhere just the lines.

with LiveLine(sys.stdout) as line:
    line.show("running 12 s")
    line.tell("14:03:09  rewrite_data_files succeeded")
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Self, TextIO

from airflow_snowpack.cli.output import printable

if TYPE_CHECKING:
    from types import TracebackType

TO_START_AND_ERASE = "\r\x1b[K"


class LiveLine:
    """:param out: the stream; whether it is a terminal decides."""

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

    def tell(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._out.write(f"{printable(text)}\n")
        self._out.flush()

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            self._out.write(TO_START_AND_ERASE)
            self._out.flush()
            self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.clear()
