"""The dry run of a plan: the plan itself, as the results of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.jobs.action_history import skipped_by
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult

if TYPE_CHECKING:
    from collections.abc import Mapping


def planned_results(plan: Mapping[str, Any]) -> list[ActionResult]:
    """Return the results of a dry run of a plan.

    :param plan: as JSON, as a request has it.
    """
    return [skipped_by(decision) or _run_by(decision) for decision in plan["decisions"]]


def _run_by(decision: Mapping[str, Any]) -> ActionResult:
    estimated = {f"estimated_{name}": number for name, number in decision["estimate"].items() if number}
    return ActionResult(decision["action"], ActionOutcome.SUCCEEDED, f"Would run: {decision['evidence']}", 0.0, metrics=estimated)
