"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from airflow_snowpack.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5d", timedelta(days=5)),
        ("30m", timedelta(minutes=30)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("1d 12h", timedelta(days=1, hours=12)),
        ("2W", timedelta(weeks=2)),
        ("90s", timedelta(seconds=90)),
        ("P5D", timedelta(days=5)),
        ("PT30M", timedelta(minutes=30)),
        ("P1DT12H", timedelta(days=1, hours=12)),
        ("PT0.5S", timedelta(seconds=0.5)),
        ("P2W", timedelta(weeks=2)),
        ("P0D", timedelta(0)),
    ],
)
def test_both_spellings_are_read(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "d", "5 days", "P", "PT", "P1M", "P1Y", "1h1d", "-5d", "P1DT", "5d;", "9" * 400 + "d", None, 5, 5.0]
)
def test_what_has_no_fixed_length_or_no_unit_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"must be a duration|is too long"):
        parse_duration(text)


@given(st.timedeltas(min_value=timedelta(0)))
def test_what_is_written_reads_back_the_same(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration
