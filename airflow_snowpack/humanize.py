"""Format numbers, sizes, durations and times for people: on pages, on the command line, in explanations and in logs.

    number(9412)                              # '9,412'
    plural(2500, "job")                       # '2,500 jobs'
    size(8.5 * 1024**3)                       # '8.5 GiB'
    percent(0.834)                            # '83 %'
    duration(timedelta(hours=4))              # '4 h'
    ago(submitted_at, now)                    # '3 min ago'
    timestamp(moment, ZoneInfo("Asia/Tokyo")) # '2026-11-21 21:00:00 JST'

``static/page.js`` repeats the rules of ``duration`` and ``ago`` to keep open pages current.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo

SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
DURATION_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
SHORTEST_AGO = timedelta(seconds=5)
"""Anything closer to now than this is "just now"."""

ID = re.compile("[0-9a-f]{32}")
SHORT_ID = 12
"""Among a hundred thousand jobs, the odds that two ids share their first 12 characters are one in fifty thousand."""


def number(value: float) -> str:
    """Format a number with thousands separators; a number that is not whole gets one decimal."""
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def percent(share: float) -> str:
    """Format a share of one as a whole percentage: ``83 %``."""
    return f"{share * 100:,.0f} %"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun: ``1 job``, ``2,500 jobs``; ``nouns`` is the plural, unless it is the noun with an "s"."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def join(words: Iterable[str], last: str = "and") -> str:
    """Join words as a sentence lists them: ``a``, ``a and b``, ``a, b and c``."""
    *first, end = words
    return f"{', '.join(first)} {last} {end}" if first else end


def sentence(text: str) -> str:
    """Return the first line of a text, such as another program's error, and end it with a full stop if it has no end."""
    line = text.strip().partition("\n")[0]
    return line if line.endswith((".", "?", "!")) else f"{line}."


def size(value: float) -> str:
    """Format a number of bytes in binary units: ``512 B``, ``12.5 MiB``."""
    for unit in SIZE_UNITS:
        if abs(value) < 1024 or unit == SIZE_UNITS[-1]:
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"


def duration(span: timedelta | float) -> str:
    """Format a span of time in its largest unit and the next smaller one: ``4 h``, ``12 min 5 s``, ``2.5 s``.

    :param span: a negative one counts as 0 s; a number is in seconds.
    """
    seconds = max(span.total_seconds() if isinstance(span, timedelta) else span, 0.0)
    if seconds < 10:
        return f"{round(seconds, 1):g} s"
    rest, parts = round(seconds), list[str]()
    for unit, length in DURATION_UNITS:
        amount, rest = divmod(rest, length)
        if amount:
            parts.append(f"{amount} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def ago(moment: datetime | None, now: datetime) -> str:
    """Format a time relative to now, in one unit: ``3 min ago``, ``in 25 min``, ``just now``; ``""`` for ``None``."""
    if moment is None:
        return ""
    distance = abs(now - moment)
    if distance < SHORTEST_AGO:
        return "just now"
    return f"{one_unit(distance)} ago" if moment < now else f"in {one_unit(distance)}"


def one_unit(span: timedelta) -> str:
    """Format a span of time in one unit, rounded down; hours up to two days."""
    seconds = int(span.total_seconds())
    for unit, length in DURATION_UNITS:
        if seconds >= (2 * length if unit == "d" else length):
            return f"{seconds // length} {unit}"
    return "0 s"


def timestamp(moment: datetime, zone: tzinfo = UTC) -> str:
    """Format a time to the second, with its zone: ``2026-11-21 14:30:00 UTC``."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


def short_id(text: str) -> str:
    """Shorten the id of a job to its first 12 characters, as lists show it; leave any other text as it is."""
    return text[:SHORT_ID] if ID.fullmatch(text) else text


def clock_time(moment: datetime, zone: tzinfo = UTC) -> str:
    """Format a time of day: ``14:03:09``."""
    return f"{moment.astimezone(zone):%H:%M:%S}"


class Text:
    """Text for people that contains times as values, so each medium formats them in its own way and zone.

    text = Text("Failed at ", job.completed_at, ". Fix the error below.")
    str(text)                                # times in UTC
    text.render(show)                        # times as ``show`` formats them
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: str | datetime) -> None:
        self.parts = parts

    def render(self, show: Callable[[datetime], str]) -> str:
        return "".join(show(part) if isinstance(part, datetime) else part for part in self.parts)

    def __str__(self) -> str:
        return self.render(timestamp)

    def __repr__(self) -> str:
        return f"Text({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)
