"""What a run skipped, by reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import pytest


def skipped_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each reason, with how many tests it kept from running and in which files."""
    files: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        files[reason.removeprefix("Skipped: ")].append(report.nodeid.partition("::")[0])
    if not files:
        return ["No test was skipped."]
    return [
        f"{len(of_reason)} skipped: {reason} ({', '.join(sorted(set(of_reason)))})" for reason, of_reason in sorted(files.items())
    ]
