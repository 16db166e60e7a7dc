"""A daily window of time by the clocks of a zone.

    >>> night = DailyWindow(time(22), time(6), "Europe/Berlin")
    >>> night.contains(datetime(2026, 7, 1, 21, 30, tzinfo=UTC))
    True
    >>> night.next_end(datetime(2026, 7, 1, 21, 30, tzinfo=UTC))
    datetime.datetime(2026, 7, 2, 4, 0, tzinfo=datetime.timezone.utc)

On the day the clocks change, the wall clock decides: an hour that is left out is not there, one that comes twice counts twice.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW_DAYS = 4
"""Any window begins and ends within as many: a zone has left out a whole day before."""


def parse_minute(value: object) -> time:
    """:raises ValueError: it is no time of day to the minute."""
    parsed = value if isinstance(value, time) else None
    if isinstance(value, str) and len(value) == len("HH:MM"):
        with suppress(ValueError):
            parsed = time.fromisoformat(value)
    if parsed is None or parsed.tzinfo is not None or parsed.second or parsed.microsecond:
        raise ValueError('it must be a time of day to the minute, such as "22:00"')
    return parsed


def check_zone(name: str) -> str:
    """Return the name of an IANA zone.

    :raises ValueError: it is none.
    """
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("there is no such time zone; use an IANA name such as Europe/Berlin, or UTC") from None
    return name


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """``[start, end)`` of each day by the clocks of a zone; it may go past midnight.

    :param start: to the minute, and other than the end.
    :param zone: an IANA zone.
    """

    start: time
    end: time
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone}"

    def contains(self, moment: datetime) -> bool:
        """Whether the window is open at a moment."""
        start, end, wall = self.start, self.end, moment.astimezone(ZoneInfo(self.zone)).time()
        return start <= wall < end if start < end else wall >= start or wall < end

    def next_start(self, now: datetime) -> datetime:
        """Return the first moment after ``now`` at which the window is open, in UTC."""
        # One of its starts, or one at which the clock leaps into it.
        return min(moment for moment in self._changes(self.start, now) if moment > now and self.contains(moment))

    def next_end(self, now: datetime) -> datetime:
        """Return the first moment after ``now`` at which the window is closed, in UTC."""
        return min(moment for moment in self._changes(self.end, now) if moment > now and not self.contains(moment))

    def _changes(self, wall: time, now: datetime) -> list[datetime]:
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        days = [datetime.combine(today + timedelta(days=days), wall, zone) for days in range(FEW_DAYS)]
        return [*(each.replace(fold=fold).astimezone(UTC) for each in days for fold in (0, 1)), *_leaps(zone, now)]


def _leaps(zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """When the clocks of the zone change within the next few days, to the second."""
    for hour in range(FEW_DAYS * 24):
        before = (now + timedelta(hours=hour)).replace(microsecond=0)
        after = before + timedelta(hours=1)
        was, becomes = before.astimezone(zone).utcoffset(), after.astimezone(zone).utcoffset()
        if was == becomes:
            continue
        while after - before > timedelta(seconds=1):
            middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
            before, after = (middle, after) if middle.astimezone(zone).utcoffset() == was else (before, middle)
        yield after.astimezone(UTC)
