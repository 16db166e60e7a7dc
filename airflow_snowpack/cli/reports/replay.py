"""The HTML report of ``policies replay``."""

from collections.abc import Sequence
from datetime import timedelta

from airflow_snowpack.api.pages.charts import LineChart, Series, line_chart
from airflow_snowpack.cli.reports.page import render
from airflow_snowpack.maintenance.replay import Outcome, Replay

TONES = ("off", "waiting", "running", "changed")
"""Of what was, of no maintenance, and of at most two policies."""
MOST_TABLES = 30
MOST_RUNS = 200


def replay_page(found: Replay, every: timedelta) -> str:
    """Return the report as HTML."""
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


def _chart(outcomes: Sequence[Outcome]) -> LineChart:
    return line_chart(
        [
            Series(outcome.label, tone, [(point.at, point.files) for point in outcome.points])
            for tone, outcome in zip(TONES, outcomes, strict=False)
        ]
    )
