"""What commands write on a terminal and elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pseudo_terminal import PseudoTerminal

from airflow_snowpack.cli.people import ago, period, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from command_line import Run

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.jobs import Jobs

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def on_screen(snowpack: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command whose standard output is a real terminal; gives what stands on it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str) -> str:
        screen = PseudoTerminal()
        # Not in the fixture itself: pytest puts its own standard output back before the test begins.
        with monkeypatch.context() as now:
            now.setattr("sys.stdout", screen.out)
            snowpack(*arguments)
        return screen.shown()

    return run


def test_a_terminal_has_colours(jobs: Jobs, flights: TableName, on_screen: Callable[..., str]) -> None:
    jobs.submit(flights, ["expire_snapshots"])

    assert "\x1b[33mpending\x1b[0m" in on_screen("jobs", "list")


def test_a_terminal_has_no_colours_where_somebody_wants_none(
    jobs: Jobs, flights: TableName, on_screen: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    jobs.submit(flights, ["expire_snapshots"])
    shown = on_screen("jobs", "list")

    assert "pending" in shown
    assert "\x1b" not in shown


def test_json_on_a_terminal_is_indented_for_reading(jobs: Jobs, on_screen: Callable[..., str]) -> None:
    assert on_screen("queue", "-o", "json").startswith('{\r\n  "depth": 0,')


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(minutes=1), "1 min"),
        (timedelta(minutes=3, seconds=2), "3 min 2 s"),
        (timedelta(minutes=25, seconds=40), "25 min"),
        (timedelta(hours=2, minutes=5), "2 h 5 min"),
        (timedelta(days=1, hours=3, minutes=9), "1 d 3 h"),
        (timedelta(days=400), "400 d"),
    ],
)
def test_a_period_has_its_largest_unit_and_the_next(length: timedelta, text: str) -> None:
    assert period(length) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [(NOW, "just now"), (NOW - timedelta(minutes=3), "3 min ago"), (NOW + timedelta(minutes=25), "in 25 min"), (None, "")],
)
def test_a_moment_is_told_from_now(moment: datetime | None, text: str) -> None:
    assert ago(moment, NOW) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB")])
def test_bytes_are_told_in_units(number: int, text: str) -> None:
    assert size(number) == text
