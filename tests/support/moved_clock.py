"""Clocks that a test moves: one that stands still otherwise, and the machine's own.

clock = MovedClock(NOON)
clock.move(timedelta(hours=1))
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_snowpack.store import utc_now


class MovedClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, by: timedelta) -> None:
        self.now += by


class ShiftedClock:
    """The machine's clock, moved on."""

    def __init__(self, ahead: timedelta = timedelta(0)) -> None:
        self.ahead = ahead

    def __call__(self) -> datetime:
        return utc_now() + self.ahead
