"""When the daily windows end in which no maintenance starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from made_policies import policy

from airflow_snowpack.maintenance.policies import Rule


class TestQuietWindows:
    def until(self, now: datetime, *quiet: str) -> datetime | None:
        found = policy(Rule("**", quiet=quiet)).quiet_at(now)
        return None if found is None else found.until

    def test_a_window_past_midnight_ends_by_the_clocks_of_its_zone(self) -> None:
        assert self.until(datetime(2026, 7, 1, 21, tzinfo=UTC), "22:00-06:00 Europe/Berlin") == datetime(
            2026, 7, 2, 4, tzinfo=UTC
        )
        assert self.until(datetime(2026, 7, 1, 19, tzinfo=UTC), "22:00-06:00 Europe/Berlin") is None

    def test_the_end_itself_is_outside(self) -> None:
        assert self.until(datetime(2026, 7, 1, 6, tzinfo=UTC), "05:00-06:00") is None

    def test_windows_that_follow_each_other_end_together(self) -> None:
        now = datetime(2026, 7, 1, 9, tzinfo=UTC)
        assert self.until(now, "08:00-12:00", "12:00-17:00", "18:00-19:00") == datetime(2026, 7, 1, 17, tzinfo=UTC)

    @pytest.mark.parametrize("windows", [("00:00-12:00", "12:00-00:00"), ("06:00-05:00 Europe/Berlin", "03:00-07:00")])
    def test_windows_that_cover_the_day_never_end(self, windows: tuple[str, ...]) -> None:
        covered, now = policy(Rule("**", quiet=windows)), datetime(2026, 7, 1, 9, tzinfo=UTC)

        found = covered.quiet_at(now)

        assert found is not None
        assert found.until is None
        assert str(found) == "the quiet windows of the policy cover the whole day, so it never starts"

    @pytest.mark.parametrize(("day", "hours"), [(28, 8), (24, 9)])
    def test_a_night_in_which_the_clocks_change_is_an_hour_shorter_or_longer(self, day: int, hours: int) -> None:
        month = 3 if day == 28 else 10
        evening = datetime(2026, month, day, 21 if month == 3 else 20, tzinfo=UTC)  # 22:00 in Berlin
        ends = self.until(evening, "22:00-07:00 Europe/Berlin")
        assert ends is not None
        assert ends - evening == timedelta(hours=hours + (1 if month == 10 else 0))
