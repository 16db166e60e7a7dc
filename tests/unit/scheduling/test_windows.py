"""Time windows and cron on every kind of day, against an oracle that looks at each minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings, strategies as st

from airflow_snowpack.scheduling import InvalidSchedule, TimeWindow
from airflow_snowpack.scheduling.constraints.constraint import Verdict
from airflow_snowpack.scheduling.cron import next_tick

MINUTE = timedelta(minutes=1)
# Usual changes of an hour, one of half an hour (Lord Howe), at midnight (Santiago, Beirut), a day left out (Apia), and none.
ZONES = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),
    "America/Santiago": (date(2026, 4, 4), date(2026, 9, 6)),
    "Asia/Beirut": (date(2026, 3, 29), date(2026, 10, 25)),
    "Pacific/Apia": (date(2011, 12, 30), date(2011, 12, 29)),
    "Asia/Kathmandu": (date(2028, 2, 29), date(2028, 3, 1)),
    "UTC": (date(2028, 2, 29), date(2027, 12, 31)),
}

minutes = st.builds(time, st.integers(0, 23), st.integers(0, 59))


@st.composite
def moments_of_change(draw: st.DrawFn) -> tuple[str, datetime]:
    zone = draw(st.sampled_from(sorted(ZONES)))
    day = draw(st.sampled_from(ZONES[zone]))
    around = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(seconds=draw(st.integers(-130_000, 130_000)))
    return zone, around


def look(window: TimeWindow, now: datetime) -> Any:
    return window.evaluate(SimpleNamespace(now=now))  # type: ignore[arg-type]  # a window asks for nothing else


def is_open(start: time, end: time, zone: str, moment: datetime) -> bool:
    """The settled meaning: from the start until before the end by the wall clock, past midnight when the end is smaller.

    A window of which a day has no minute opens at the first minute after it.
    """
    wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    if start <= wall.time() < end if start < end else not end <= wall.time() < start:
        return True
    late = [opened_late(start, end, zone, wall.date() - timedelta(days=before)) for before in (0, 1)]
    return any(opens <= moment < closes for opens, closes in late)


@cache
def opened_late(start: time, end: time, zone: str, day: date) -> tuple[datetime, datetime]:
    """When the window of a day of which the clocks show no minute opens and closes; an empty one on any other day."""
    opens, closes = datetime.combine(day, start), datetime.combine(day if start < end else day + timedelta(days=1), end)
    minutes = minutes_of(zone, day)
    first = min(minute for minute, shown in minutes.items() if shown >= opens)
    return first, first if any(opens <= shown < closes for shown in minutes.values()) else first + (closes - opens)


@cache
def minutes_of(zone: str, day: date) -> dict[datetime, datetime]:
    """What the clocks show, by the minute, from a day before until a day after."""
    first = datetime.combine(day, time(), UTC) - timedelta(days=1)
    return {(at := first + number * MINUTE): at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for number in range(4 * 1440)}


@settings(max_examples=300)
@given(moments_of_change(), minutes, minutes)
@example(("Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC)), time(2, 30), time(4, 0))
@example(("Europe/Berlin", datetime(2026, 10, 25, 0, 45, tzinfo=UTC)), time(22, 0), time(1, 30))
@example(("Europe/Berlin", datetime(2026, 3, 29, 0, 0, tzinfo=UTC)), time(2, 0), time(3, 0))
@example(("Europe/Berlin", datetime(2026, 3, 29, 1, 59, tzinfo=UTC)), time(2, 0), time(3, 0))
@example(("Europe/Berlin", datetime(2026, 3, 29, 0, 59, tzinfo=UTC)), time(2, 10), time(2, 40))
@example(("Pacific/Apia", datetime(2011, 12, 30, 10, 20, tzinfo=UTC)), time(0, 0), time(1, 0))
@example(("Pacific/Apia", datetime(2011, 12, 30, 9, 59, tzinfo=UTC)), time(23, 59), time(0, 0))
def test_a_window_opens_at_the_first_minute_at_which_it_is_open(place: tuple[str, datetime], start: time, end: time) -> None:
    zone, now = place
    if start == end:
        return
    said = look(TimeWindow(start, end, tz=zone), now)
    assert (said.verdict is Verdict.MET) == is_open(start, end, zone, now)
    if said.verdict is Verdict.MET:
        return
    expected = (now + MINUTE).replace(second=0, microsecond=0)
    while not is_open(start, end, zone, expected):
        expected += MINUTE
    assert said.not_before == expected
    assert said.not_before > now, "never a negative wait"


def test_a_window_past_midnight_is_open_on_both_sides_of_it() -> None:
    night = TimeWindow("22:00", "06:00", tz="Europe/Berlin")
    verdicts = {
        hour: look(night, datetime(2026, 6, 1, hour, 0, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)).verdict
        for hour in (5, 6, 21, 22, 23, 0)
    }
    assert {hour for hour, verdict in verdicts.items() if verdict is Verdict.MET} == {22, 23, 0, 5}


def test_a_window_that_is_left_out_whole_opens_at_the_next_moment_that_exists() -> None:
    """A run that waits for a day at most would be lost otherwise."""
    window = TimeWindow("02:00", "03:00", tz="Europe/Berlin")
    assert look(window, datetime(2026, 3, 29, 0, 0, tzinfo=UTC)).not_before == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert look(window, datetime(2026, 3, 29, 1, 59, tzinfo=UTC)).verdict is Verdict.MET
    assert look(window, datetime(2026, 3, 29, 2, 0, tzinfo=UTC)).not_before == datetime(2026, 3, 30, 0, 0, tzinfo=UTC)


def test_bounds_are_minutes_and_must_differ() -> None:
    with pytest.raises(InvalidSchedule, match=r"time_window\.end = '22:00' is not usable: it must differ from the start"):
        TimeWindow("22:00", "22:00")
    with pytest.raises(InvalidSchedule, match=r"time_window\.start"):
        TimeWindow(time(22, 0, 1), "23:00")


CRONS = ["0 * * * *", "*/7 * * * *", "30 2 * * *", "30 1 * * *", "0 0 * * 1", "0 12 29 2 *", "*/20 * * * * *", "59 23 L * *"]


@settings(max_examples=200)
@given(moments_of_change(), st.sampled_from(CRONS))
def test_the_next_tick_is_always_later_and_ticks_only_go_forward(place: tuple[str, datetime], cron: str) -> None:
    zone, moment = place
    for _ in range(5):
        following = next_tick(cron, zone, moment)
        assert following > moment
        moment = following


def ticks(cron: str, zone: str, since: datetime, number: int) -> list[str]:
    moments = []
    for _ in range(number):
        since = next_tick(cron, zone, since)
        moments.append(f"{since.astimezone(ZoneInfo(zone)):%d. %H:%M %Z}")
    return moments


def test_a_fixed_time_that_the_clock_leaps_over_comes_right_after_the_leap() -> None:
    since = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert ticks("30 2 * * *", "Europe/Berlin", since, 2) == ["29. 03:00 CEST", "30. 02:30 CEST"]


def test_a_fixed_time_that_has_come_once_does_not_come_again_in_the_repeated_hour() -> None:
    repeated = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)  # 02:00 CET, half an hour after 02:30 CEST

    assert next_tick("30 2 * * *", "Europe/Berlin", repeated) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_a_fixed_time_that_comes_twice_comes_once() -> None:
    since = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert ticks("30 2 * * *", "Europe/Berlin", since, 2) == ["25. 02:30 CEST", "26. 02:30 CET"]


def test_every_hour_follows_the_hours_that_pass() -> None:
    since = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
    assert ticks("0 * * * *", "Europe/Berlin", since, 3) == ["25. 02:00 CEST", "25. 02:00 CET", "25. 03:00 CET"]
