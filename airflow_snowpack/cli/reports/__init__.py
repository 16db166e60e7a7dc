"""The HTML reports of ``tables assess`` and ``policies replay``.

Each is one file, with the stylesheet and the charts of the pages inside, and loads nothing from anywhere.
"""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from airflow_snowpack import humanize
from airflow_snowpack.api.pages.charts import ColumnChart, LineChart, Series, column_chart, counted, line_chart, size_chart
from airflow_snowpack.api.pages.figures import Figure, compared
from airflow_snowpack.api.pages.markup import content, environment
from airflow_snowpack.cli.errors import UsageProblem
from airflow_snowpack.inventory import Condition
from airflow_snowpack.maintenance.assessment import Assessment
from airflow_snowpack.maintenance.assessment.model import State
from airflow_snowpack.maintenance.replay.model import Replay, ReplayOutcome

MOST_FIGURES = 12
TONES = ("off", "waiting", "running", "changed")
"""Of what was, of no maintenance, and of at most two policies."""
MOST_TABLES = 30
MOST_RUNS = 200


def assessment_page(found: Assessment, summary: str, nothing: str) -> str:
    return render(
        "assessment.html",
        title=f"Tables of {found.catalog}",
        found=found,
        summary=summary,
        nothing=nothing,
        unreadable=found.of(State.UNREADABLE),
        scores=_scores(found),
        sizes=_sizes(found),
        figures=_figures(found),
        condition=Condition.of,
    )


def _scores(found: Assessment) -> ColumnChart:
    counts = Counter(min(row.score // 10, 9) for row in found.rows if row.score is not None)
    return column_chart([counted(f"{low * 10}-{low * 10 + 9 + (low == 9)}", counts[low], "tables") for low in range(10)])


def _sizes(found: Assessment) -> ColumnChart:
    totals = [sum(counts) for counts in zip_longest(*(row.health.file_sizes for row in found.rows if row.health), fillvalue=0)]
    return size_chart(totals)


def _figures(found: Assessment) -> list[Figure]:
    """Files now and after maintenance, of the tables where the difference is largest."""
    saving = sorted((row for row in found.in_need if row.files_saved), key=lambda row: -row.files_saved)[:MOST_FIGURES]
    most = max((row.files for row in saving), default=1)
    return [compared(row.table, row.files, row.files - row.files_saved, ("now", "then"), most=most) for row in saving]


def replay_page(found: Replay, every: timedelta) -> str:
    ranked = sorted(found.tables, key=lambda table: -max(outcome.bytes_rewritten for outcome in table.outcomes))
    return render(
        "replay.html",
        title="Replay of policies",
        found=found,
        every=every,
        all=_chart(found.all) if found.tables else None,
        tables=[(table, _chart(table.all)) for table in ranked[:MOST_TABLES]],
        most_tables=MOST_TABLES,
        most_runs=MOST_RUNS,
    )


def _chart(outcomes: Sequence[ReplayOutcome]) -> LineChart:
    return line_chart(
        [
            Series(outcome.label, tone, [(point.at, point.files) for point in outcome.points])
            for tone, outcome in zip(TONES, outcomes, strict=False)
        ]
    )


@cache
def _environment() -> Environment:
    # The charts are those of the pages.
    found = environment("airflow_snowpack.cli.reports", "airflow_snowpack.api.pages")
    found.filters |= {"clock": humanize.timestamp, "percent": humanize.percent}
    return found


def render(template: str, **values: Any) -> str:
    # It is part of this package and contains no end tag, so it needs no escaping.
    style = Markup(content("page.css").decode())
    return _environment().get_template(template).render(style=style, **values)


def write(path: Path, text: str) -> None:
    """Write a report whole, or not at all.

    :raises UsageProblem: the file cannot be written.
    """
    written = path.parent / f".{path.name}.{os.getpid()}"
    try:
        try:
            written.write_text(text, encoding="utf-8")
            written.replace(path)
        finally:
            written.unlink(missing_ok=True)
    except OSError as error:
        raise UsageProblem(
            f"The report {str(path)!r} cannot be written: {error.strerror or error}. Name another file."
        ) from error
