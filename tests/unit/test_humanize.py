"""How numbers, sizes, durations and times are formatted for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from airflow_snowpack import humanize

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-5, "0 s"),
        (0.42, "0.4 s"),
        (3, "3 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.7, "1 min"),
        (142.3, "2 min 22 s"),
        (25 * 60 + 40, "25 min 40 s"),
        (4 * 3_600, "4 h"),
        (4 * 3_600 + 5, "4 h"),
        (3_900, "1 h 5 min"),
        (97_740, "1 d 3 h"),
        (400 * 86_400, "400 d"),
    ],
)
def test_a_duration_has_its_largest_unit_and_the_next(seconds: float, text: str) -> None:
    assert humanize.duration(seconds) == text
    assert humanize.duration(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "just now"),
        (2, "just now"),
        (-2, "just now"),
        (41, "41 s ago"),
        (61, "1 min ago"),
        (-1_740, "in 29 min"),
        (1e5, "27 h ago"),
        (9e5, "10 d ago"),
    ],
)
def test_a_time_is_shown_by_its_distance_from_now(seconds: float, text: str) -> None:
    assert humanize.ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_no_time_has_no_distance() -> None:
    assert humanize.ago(None, NOW) == ""


def test_a_timestamp_shows_its_zone() -> None:
    assert humanize.timestamp(NOW) == "2026-11-21 12:00:00 UTC"
    assert humanize.timestamp(NOW, ZoneInfo("Asia/Tokyo")) == "2026-11-21 21:00:00 JST"
    assert humanize.clock_time(NOW, ZoneInfo("Asia/Tokyo")) == "21:00:00"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_536, "1.5 KiB"),
        (900 * 1024**2, "900.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (2**64, "16,384.0 PiB"),
    ],
)
def test_sizes_have_binary_units(value: int, text: str) -> None:
    assert humanize.size(value) == text


def test_numbers_have_thousands_separators() -> None:
    assert [humanize.number(value) for value in (0, 9_412, 9_412.0, 1_234.56)] == ["0", "9,412", "9,412", "1,234.6"]


def test_a_count_has_its_noun() -> None:
    assert [humanize.plural(count, "job") for count in (0, 1, 2_500)] == ["0 jobs", "1 job", "2,500 jobs"]
    assert humanize.plural(3, "registry", "registries") == "3 registries"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("It ended", "It ended."), ("No space left.\nmore", "No space left."), ("Is it running?\n", "Is it running?")],
)
def test_an_error_of_another_program_becomes_one_sentence(text: str, sentence: str) -> None:
    assert humanize.sentence(text) == sentence


def test_words_are_joined_as_in_a_sentence() -> None:
    assert [humanize.join(words) for words in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]
    assert humanize.join(["TASK", "NONE"], "or") == "TASK or NONE"


def test_a_text_has_its_times_in_utc_unless_they_are_formatted_in_another_way() -> None:
    text = humanize.Text("Failed at ", NOW, ". Fix it.")

    assert str(text) == "Failed at 2026-11-21 12:00:00 UTC. Fix it."
    assert text.render(lambda at: humanize.timestamp(at, ZoneInfo("Asia/Tokyo"))) == "Failed at 2026-11-21 21:00:00 JST. Fix it."
    assert text == humanize.Text("Failed at ", NOW, ". Fix it.") != humanize.Text("Failed.")
