"""A daily window of time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from airflow_snowpack.scheduling.constraints.constraint import Constraint, ConstraintContext, OnUnmet, Ruling, later, met
from airflow_snowpack.scheduling.cron import parse_zone
from airflow_snowpack.scheduling.declared import declaration
from airflow_snowpack.scheduling.errors import InvalidSchedule

FEW_DAYS = 4
"""Any window opens within as many: a zone has left out a whole day before."""


def parse_minute(value: object) -> time:
    """:raises ValueError: it is no time of day to the minute."""
    parsed = value if isinstance(value, time) else None
    if isinstance(value, str) and len(value) == len("HH:MM"):
        with suppress(ValueError):
            parsed = time.fromisoformat(value)
    if parsed is None or parsed.tzinfo is not None or parsed.second or parsed.microsecond:
        raise ValueError('it must be a time of day to the minute, such as "22:00"')
    return parsed


@declaration
class TimeWindow(Constraint):
    """Only from ``start`` until before ``end``, by the clocks of a zone; it may go past midnight.

    On the day the clocks change, the wall clock decides: an hour that is left out is not there, one that comes twice counts
    twice.

    :param start: ``"22:00"``, to the minute.
    :param tz: an IANA zone.
    """

    kind: ClassVar[str] = "time_window"
    checks: ClassVar = {"start": parse_minute, "end": parse_minute, "tz": parse_zone}
    start: time | str
    end: time | str
    tz: str = "UTC"
    on_unmet: OnUnmet = OnUnmet.WAIT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start == self.end:
            raise InvalidSchedule(f"{self.kind}.end", f"{self.end:%H:%M}", "it must differ from the start")

    def evaluate(self, context: ConstraintContext) -> Ruling:
        window = f"{self.start:%H:%M} to {self.end:%H:%M} {self.tz}"
        if self._holds(context.now):
            return met(f"within {window}")
        return later(f"outside of {window}", self._next_start(context.now))

    def _holds(self, moment: datetime) -> bool:
        start, end, wall = _as_time(self.start), _as_time(self.end), moment.astimezone(ZoneInfo(self.tz)).time()
        return start <= wall < end if start < end else wall >= start or wall < end

    def _next_start(self, now: datetime) -> datetime:
        """The first moment after now at which the window is open: one of its starts, or one at which the clock leaps into it."""
        zone = ZoneInfo(self.tz)
        today = now.astimezone(zone).date()
        days = [datetime.combine(today + timedelta(days=days), _as_time(self.start), zone) for days in range(FEW_DAYS)]
        starts = [start.replace(fold=fold).astimezone(UTC) for start in days for fold in (0, 1)]
        return min(moment for moment in [*starts, *_leaps(zone, now)] if moment > now and self._holds(moment))


def _as_time(value: time | str) -> time:
    assert isinstance(value, time), "checked when it was made"
    return value


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
