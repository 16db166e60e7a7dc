"""The report of ``make soak``: for each promise, how many faults were injected and how many violations were found.

A test counts what it injects with ``record_property("faults", n)`` (kills, cut connections, stopped servers) and
``record_property("steps", n)`` (steps of a random walk, requests). Each failed test is a violation.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from promises import PROMISES, Promise, promise_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

REPOSITORY = Path(__file__).parents[2]
REPORT = REPOSITORY / "benchmarks" / "SOAK.md"


def soak_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each promise, in their order."""
    counts: dict[int, Counter[str]] = {promise.number: Counter() for promise in PROMISES}
    for report in reports:
        promise = promise_of(report.nodeid)
        if promise is None:
            continue
        counted = counts[promise.number]
        counted["violations"] += report.failed
        if report.when == "call":
            counted["tests"] += 1
            for name, number in report.user_properties:
                if name in ("faults", "steps") and isinstance(number, int):
                    counted[name] += number
    return [_line(promise, counts[promise.number]) for promise in PROMISES]


def _line(promise: Promise, counted: Counter[str]) -> str:
    return (
        f"{promise.number}. {promise.title}: {counted['tests']:,} tests, {counted['faults']:,} faults injected, "
        f"{counted['steps']:,} random steps and requests, {counted['violations']:,} violations"
    )


def write_report(lines: list[str], took: timedelta) -> None:
    """Write the lines to ``benchmarks/SOAK.md``, with the commit and the command."""
    REPORT.write_text(
        "# Soak run\n\n"
        "`make soak` repeats at length what `make test` tries a few times: `kill -9` at every statement, all rounds of random\n"
        "kills, the state machines with 10,000 steps, and the API with 10,000 generated requests. A violation is a failed test.\n"
        "`tests/support/promises.py` lists the tests behind each promise.\n\n"
        f"- command: `make soak`\n- commit: `{_commit()}`\n- finished: {datetime.now(UTC):%Y-%m-%d %H:%M} UTC\n"
        f"- duration: {timedelta(seconds=round(took.total_seconds()))} on {_cores()} cores\n\n" + "\n".join(lines) + "\n"
    )


def _commit() -> str:
    return _git("rev-parse", "HEAD") + (" with uncommitted changes" if _git("status", "--porcelain") else "")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))
