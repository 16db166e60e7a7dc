"""The dry run of a plan: the plan itself, as the results of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.jobs.model import ActionOutcome, ActionResult

if TYPE_CHECKING:
    from collections.abc import Mapping


def planned_results(plan: Mapping[str, Any]) -> list[ActionResult]:
    """Return the results of a dry run of a plan.

    :param plan: as JSON, as a request has it.
    """
    return [_result(decision) for decision in plan["decisions"]]


def _result(decision: Mapping[str, Any]) -> ActionResult:
    if decision["verdict"] == "skip":
        return ActionResult(decision["action"], ActionOutcome.SKIPPED, f"Skipped by the plan: {decision['evidence']}", 0.0)
    estimated = {f"estimated_{name}": number for name, number in decision["estimate"].items() if number}
    return ActionResult(decision["action"], ActionOutcome.SUCCEEDED, f"Would run: {decision['evidence']}", 0.0, metrics=estimated)
