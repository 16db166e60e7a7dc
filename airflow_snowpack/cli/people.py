"""How moments, periods and states read to people: relative, short, and coloured where there is a terminal for it.

ago(job.submitted_at, now)     # '3 min ago'
status_text(job.status)        # rich text; the console drops the colour where none belongs
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from datetime import datetime

STYLES = {"pending": "yellow", "running": "cyan", "completed": "green", "failed": "bold red", "cancelled": "magenta"}
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
UNPRINTABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}
SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def period(length: timedelta) -> str:
    """The largest unit that fits and the next smaller one: ``2 h 5 min``, ``41 s``, ``0 s``."""
    seconds = max(0, int(length.total_seconds()))
    for place, (unit, size) in enumerate(UNITS):
        if seconds >= size:
            whole, rest = divmod(seconds, size)
            smaller = UNITS[place + 1] if place + 1 < len(UNITS) else None
            part = rest // smaller[1] if smaller is not None and whole < 10 else 0
            return f"{whole} {unit}" + (f" {part} {smaller[0]}" if smaller is not None and part else "")
    return "0 s"


def ago(moment: datetime | None, now: datetime) -> str:
    """``3 min ago``, ``in 25 min``, ``just now``; nothing for no moment."""
    if moment is None:
        return ""
    length = now - moment
    if abs(length) < timedelta(seconds=1):
        return "just now"
    return f"{period(length)} ago" if length > timedelta(0) else f"in {period(-length)}"


def clock_time(moment: datetime) -> str:
    """``14:03:09``, in UTC as everything is."""
    return f"{moment:%H:%M:%S}"


def printable(text: str) -> str:
    """Without what would move the cursor or colour the terminal: the text of an error may come from anywhere."""
    return text.translate(UNPRINTABLE)


def status_text(status: str) -> Text:
    """A job's state in its colour."""
    return Text(status, STYLES.get(status, ""))


def size(number: float) -> str:
    """``12.5 MiB``."""
    value = float(number)
    for unit in SIZES:
        if value < 1024 or unit == SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")
