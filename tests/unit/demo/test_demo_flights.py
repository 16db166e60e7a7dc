"""The demo's data is the real year, day by day."""

from __future__ import annotations

from datetime import date

from examples.demo.flights import days_of, read_flights


def test_the_whole_year_has_365_days_and_336776_flights_in_the_order_of_time() -> None:
    days = [(day, rows.num_rows) for day, rows in days_of(read_flights(365))]
    assert len(days) == 365
    assert sum(rows for _, rows in days) == 336_776
    assert [day for day, _ in days] == sorted(day for day, _ in days)


def test_fewer_days_are_the_first_ones_of_the_year() -> None:
    days = [day for day, _ in days_of(read_flights(3))]
    assert days == [date(2013, 1, 1), date(2013, 1, 2), date(2013, 1, 3)]
