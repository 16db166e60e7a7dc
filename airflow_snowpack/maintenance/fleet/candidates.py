"""From the plan of a table to a candidate of a pass: what it is worth, what it costs, and by when it has to be done."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.fleet.budget import Cost
from airflow_snowpack.maintenance.fleet.ranking import Candidate

if TYPE_CHECKING:
    from airflow_snowpack.jobs.action_history import ActionHistory
    from airflow_snowpack.maintenance.planning.model import TablePlan
    from airflow_snowpack.maintenance.policies import TablePolicy


def candidate_of(
    plan: TablePlan,
    policy: TablePolicy,
    history: ActionHistory,
    *,
    reads_per_day: float = 0.0,
    passes_waited: int = 0,
) -> Candidate:
    """Return a plan that runs an action as a candidate."""
    estimate = plan.estimate
    cost = Cost(estimate.gb_hours, estimate.bytes_rewritten, estimate.seconds)
    deadline = deadline_of(plan, policy, history)
    return Candidate(plan.table, plan.files_saved, cost, reads_per_day, deadline, passes_waited, estimate.bytes_freed)


def deadline_of(plan: TablePlan, policy: TablePolicy, history: ActionHistory) -> datetime | None:
    """Return the earliest deadline of the actions that run; now for one that has a deadline and has never run.

    ``None`` if the last run of one of them failed: a table that fails in each pass would come before all others for ever.
    """
    if any(history.of(action).failures for action in plan.actions):
        return None
    deadlines = []
    for action in plan.actions:
        period, last = policy.actions[action].deadline, history.of(action).last_success_at
        if period is not None:
            deadlines.append(plan.made_at if last is None else last + period)
    return min(deadlines, default=None)
