"""A daily window of time."""

from __future__ import annotations

from datetime import time
from typing import ClassVar

from airflow_snowpack.daily_window import DailyWindow, parse_minute
from airflow_snowpack.scheduling.constraints.constraint import Constraint, ConstraintContext, OnUnmet, Ruling, later, met
from airflow_snowpack.scheduling.cron import parse_zone
from airflow_snowpack.scheduling.declared import declaration
from airflow_snowpack.scheduling.errors import InvalidSchedule


@declaration
class TimeWindow(Constraint):
    """Only from ``start`` until before ``end``, by the clocks of a zone; it may go past midnight.

    On the day of a clock change, the wall clock decides: a repeated hour counts twice, a skipped hour not at all. A window that
    is skipped as a whole opens after the change, for its usual length.

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
        daily = DailyWindow(_as_time(self.start), _as_time(self.end), self.tz)
        if daily.contains(context.now):
            return met(f"within {window}")
        return later(f"outside of {window}", daily.next_start(context.now))


def _as_time(value: time | str) -> time:
    assert isinstance(value, time), "checked when it was made"
    return value
