"""What commands write on a terminal and elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from command_line import Run
from pseudo_terminal import PseudoTerminal

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Jobs


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


def test_a_terminal_has_colours_and_indented_json_and_none_where_somebody_wants_none(
    jobs: Jobs, on_screen: Callable[..., str], flights: TableName, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert on_screen("queue", "-o", "json").startswith('{\r\n  "depth": 0,')

    jobs.submit(flights, ["expire_snapshots"])

    assert "\x1b[2mpending\x1b[0m" in on_screen("jobs", "list")

    monkeypatch.setenv("NO_COLOR", "1")
    shown = on_screen("jobs", "list")

    assert "pending" in shown
    assert "\x1b" not in shown
