"""The command line as Airflow parses it, on a real SQLite store and a real catalog with one small table."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import Said, command_line, settle
from installed_lake import flights as flights, identified as identified, jobs as jobs, six_files as six_files


@pytest.fixture
def installation(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings that lead to a store with all tables and no rows, and to an empty catalog; returns their folder."""
    settle(sqlite_url, tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier test in this process made of Airflow's logging is not part of what a command says."""
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


@pytest.fixture
def snowpack(installation: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run ``airflow snowpack …`` in this process, through Airflow's own parser."""
    return command_line(capfd)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Make standard input a real terminal, on which somebody types what the test gives."""
    mine, theirs = os.openpty()
    with os.fdopen(theirs, "r") as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield lambda text: os.write(mine, text.encode()) and None
    os.close(mine)
