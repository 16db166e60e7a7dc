"""The report of ``make soak``: for each promise, how many faults were injected and how many violations were found.

A test counts what it injects with ``record_property("faults", n)`` (kills, cut connections, stopped servers) and
``record_property("steps", n)`` (steps of a random walk, requests). Each failed test is a violation. What a test has measured is
reported as it is, ``record_property("measured", "500 tasks wait: 0 slots in use")``, and counts are added up for all cases of a
test: ``record_property("measured", {"removed": 3})``.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from promises import PROMISES, Promise, promise_of

REPOSITORY = Path(__file__).parents[2]
REPORT = REPOSITORY / "benchmarks" / "SOAK.md"
INTRODUCTION = """# Soak run

`make soak` repeats at length what `make test` tries a few times: `kill -9` at every statement, all rounds of random
kills, the state machines with 10,000 steps, and the API with 10,000 generated requests. It also runs the tests that are
too long for `make test`: 500 tasks that wait at once. A violation is a failed test.
`tests/support/promises.py` lists the tests behind each promise.

"""


def soak_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each promise, in their order."""
    counts: dict[int, Counter[str]] = {promise.number: Counter() for promise in PROMISES}
    failed: dict[int, set[str]] = {promise.number: set() for promise in PROMISES}
    for report in reports:
        promise = promise_of(report.nodeid)
        if promise is None:
            continue
        if report.failed:
            failed[promise.number].add(report.nodeid)
        counts[promise.number]["tests"] += report.when == "call"
        if report.when == "teardown":  # a fixture may count what it has injected when the test is over
            for name, number in report.user_properties:
                if name in ("faults", "steps") and isinstance(number, int):
                    counts[promise.number][name] += number
    return [_line(promise, counts[promise.number], len(failed[promise.number])) for promise in PROMISES]


def measured_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return what tests have measured: each text, and the counts of each test."""
    ended = [report for report in reports if report.when == "teardown" and promise_of(report.nodeid) is not None]
    found = [(report.nodeid, what) for report in ended for name, what in report.user_properties if name == "measured"]
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for nodeid, what in found:
        if isinstance(what, dict):
            counts[nodeid.partition("[")[0].rpartition("::")[2]].update(what)
    sums = [f"{test}: {', '.join(f'{number:,} {what}' for what, number in sorted(of.items()))}" for test, of in counts.items()]
    return [f"- {what}" for what in [*(what for _, what in found if isinstance(what, str)), *sums]]


def _line(promise: Promise, counted: Counter[str], violations: int) -> str:
    if not counted["tests"] and not violations:
        return f"{promise.number}. {promise.title}: not run"
    return (
        f"{promise.number}. {promise.title}: {_count(counted['tests'], 'test')}, {_count(counted['faults'], 'fault')} injected, "
        f"{_count(counted['steps'], 'random step')}, {_count(violations, 'violation')}"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def commit() -> str:
    """Return the commit of the working tree, and whether it has changes that are not in it."""
    try:
        return _git("rev-parse", "HEAD") + (" with uncommitted changes" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write_report(lines: list[str], measured: list[str], commit: str, took: timedelta) -> None:
    """Write the lines to ``benchmarks/SOAK.md``.

    :param lines: from :func:`soak_lines`.
    :param measured: from :func:`measured_lines`.
    :param commit: what was tested.
    """
    facts = {
        "command": "`make soak`",
        "commit": f"`{commit}`",
        "finished": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "duration": f"{timedelta(seconds=round(took.total_seconds()))} on {len(os.sched_getaffinity(0))} cores",
    }
    head = INTRODUCTION + "".join(f"- {name}: {fact}\n" for name, fact in facts.items())
    REPORT.write_text("\n".join([head, *lines, "", "What the tests have measured:", "", *measured]) + "\n")


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
