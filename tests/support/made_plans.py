"""Plans of tables that do not exist, for tests of what runs them."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.maintenance.planning import ActionVerdict, Cause, Decision, Estimate, TablePlan

MADE_AT = datetime(2026, 11, 23, 2, tzinfo=UTC)


def made_plan(table: TableName, estimate: Estimate | None = None, **evidence: str) -> TablePlan:
    """Return a plan that runs these actions, of which the first one takes the estimate."""
    estimates = [estimate or Estimate(), *[Estimate()] * len(evidence)]
    decisions = [
        Decision(action, ActionVerdict.RUN, Cause.NEEDED, text, estimate=takes)
        for (action, text), takes in zip(evidence.items(), estimates, strict=False)
    ]
    return TablePlan(table, "m1", MADE_AT, tuple(decisions), 50)
