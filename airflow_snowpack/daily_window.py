"""A daily window of time by the clocks of a zone.

    >>> night = DailyWindow(time(22), time(6), "Europe/Berlin")
    >>> night.contains(datetime(2026, 7, 1, 21, 30, tzinfo=UTC))
    True
    >>> night.next_end(datetime(2026, 7, 1, 21, 30, tzinfo=UTC))
    datetime.datetime(2026, 7, 2, 4, 0, tzinfo=datetime.timezone.utc)

On the day the clocks change, the wall clock decides: an hour that occurs twice counts twice, and a skipped hour does not count. A
window that is skipped as a whole opens when the clocks have changed, for as long as on any other day.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

ONE_DAY = timedelta(days=1)
FEW_DAYS = 4
"""Any window begins and ends within this many days: a zone has skipped a whole day before."""


def parse_minute(value: object) -> time:
    """:raises ValueError: it is not a time of day to the minute."""
    parsed = value if isinstance(value, time) else None
    if isinstance(value, str) and len(value) == len("HH:MM"):
        with suppress(ValueError):
            parsed = time.fromisoformat(value)
    if parsed is None or parsed.tzinfo is not None or parsed.second or parsed.microsecond:
        raise ValueError('it must be a time of day to the minute, such as "22:00"')
    return parsed


def check_zone(name: str) -> str:
    """Return the name of an IANA zone; raise ``ValueError`` if there is no such zone."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("there is no such time zone; use an IANA name such as Europe/Berlin, or UTC") from None
    return name


@dataclass(frozen=True, slots=True)
class DailyWindow:
    """The time ``[start, end)`` of each day by the clocks of a zone; it may wrap past midnight.

    :param start: to the minute; must differ from the end.
    :param zone: an IANA zone.
    """

    start: time
    end: time
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M} {self.zone}"

    def contains(self, moment: datetime) -> bool:
        """Return whether the window is open at a moment."""
        start, end, local = self.start, self.end, moment.astimezone(ZoneInfo(self.zone))
        wall = local.time()
        if start <= wall < end if start < end else wall >= start or wall < end:
            return True
        return any(opens <= moment < closes for opens, closes in self._skipped_windows(local.date() - ONE_DAY, 2))

    def next_start(self, now: datetime) -> datetime:
        """Return the first moment after ``now`` at which the window is open, in UTC."""
        # The window starts, or the clocks skip forward into it.
        return min(moment for moment in self._changes(self.start, now) if moment > now and self.contains(moment))

    def next_end(self, now: datetime) -> datetime:
        """Return the first moment after ``now`` at which the window is closed, in UTC."""
        return min(moment for moment in self._changes(self.end, now) if moment > now and not self.contains(moment))

    def _changes(self, wall: time, now: datetime) -> list[datetime]:
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        days = [datetime.combine(today + timedelta(days=days), wall, zone) for days in range(FEW_DAYS)]
        moved = [closes for _, closes in self._skipped_windows(today - ONE_DAY, FEW_DAYS)]
        return [*(each.replace(fold=fold).astimezone(UTC) for each in days for fold in (0, 1)), *_transitions(zone, now), *moved]

    def _skipped_windows(self, first: date, days: int) -> Iterator[tuple[datetime, datetime]]:
        """Yield when the window opens and closes on days on which the clocks skip it as a whole."""
        zone, length = ZoneInfo(self.zone), datetime.combine(first, self.end) - datetime.combine(first, self.start)
        if length <= timedelta(0):
            return  # no change of clocks skips midnight and the time around it
        for number in range(days):
            start = datetime.combine(first + timedelta(days=number), self.start, zone)
            if all(_is_skipped(wall) for wall in (start, start + length - datetime.resolution)):
                before, after = sorted(start.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
                opens = _transition_between(zone, before, after)
                yield opens, opens + length


def _is_skipped(wall: datetime) -> bool:
    """Return whether the clocks of its zone skip this time."""
    return wall.astimezone(UTC).astimezone(wall.tzinfo).replace(tzinfo=None) != wall.replace(tzinfo=None)


def _transitions(zone: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """Yield when the clocks of the zone change within the next few days, to the second."""
    for hour in range(FEW_DAYS * 24):
        before = (now + timedelta(hours=hour)).replace(microsecond=0)
        after = before + timedelta(hours=1)
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            yield _transition_between(zone, before, after)


def _transition_between(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return when the clocks change between two moments with different offsets."""
    was = before.astimezone(zone).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        before, after = (middle, after) if middle.astimezone(zone).utcoffset() == was else (before, middle)
    return after.astimezone(UTC)
