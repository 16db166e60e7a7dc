"""Clocks that a test moves, in place of the machine's.

clock = MovedClock()
clock.move(minutes=5)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_snowpack.store import utc_now

EVENING = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)


class MovedClock:
    """Stands still until a test moves it."""

    def __init__(self, now: datetime = EVENING) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, by: timedelta = timedelta(0), **more: float) -> None:
        """Move on by a period, or by so many ``minutes=5``."""
        self.now += by + timedelta(**more)


class ShiftedClock:
    """The machine's clock, so far ahead."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self.ahead = ahead

    def __call__(self) -> datetime:
        return utc_now() + self.ahead
