"""The HTML report of ``tables assess``."""

from collections import Counter
from itertools import zip_longest

from airflow_snowpack.api.pages.charts import ColumnChart, column_chart, counted, size_chart
from airflow_snowpack.api.pages.figures import Figure, compared
from airflow_snowpack.cli.reports.page import render
from airflow_snowpack.inventory import Condition
from airflow_snowpack.maintenance.assessment import Assessment
from airflow_snowpack.maintenance.assessment.model import State

MOST_FIGURES = 12


def assessment_page(found: Assessment, summary: str, nothing: str) -> str:
    """Return the report as HTML.

    :param summary: one sentence or two.
    :param nothing: what is in place of an empty list.
    """
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
