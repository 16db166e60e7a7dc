"""What past jobs did to a table, per action: when each action last ran, and how its outcomes compare with its estimates.

    history = jobs.action_histories(tables)[table]
    history.of("rewrite_data_files").last_success_at
    history.of("rewrite_data_files").cost_factor          # 1.4: it costs 40 % more than the planner's rates

A job's row has the estimates in its plan and the outcomes in its results. The factors aggregate them over all jobs of a table, in
the transaction that ends a job, so no outcome is counted twice or lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from math import isfinite
from typing import Any

from airflow_snowpack.backoff import backoff
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, Job, JobStatus

LEAST_RATIO, MOST_RATIO = 0.05, 20.0
"""The range of a single outcome / estimate; limits outliers, such as a run on a suspended machine."""
FAILURES_IN_A_ROW = 3
"""The number of consecutive failures after which plans wait for the next try."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(days=1), timedelta(days=7)
"""The wait after :data:`FAILURES_IN_A_ROW` failures; it doubles with each further one."""


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action on one table, aggregated over the jobs that ended.

    The factors are outcome / estimate, smoothed over the runs; 1 until there is an outcome with an estimate.

    :param last_run_at: when it last ended, successfully or not; ``None`` for never. A run that found nothing to do counts.
    :param failures: how many runs since ``last_success_at`` failed, were stopped at a limit, or lost their worker.
    :param runs: the number of outcomes in the factors.
    :param cost_factor: of the GB·h.
    :param seconds_factor: of the duration.
    :param files_factor: of the files removed.
    """

    last_run_at: datetime | None = None
    last_success_at: datetime | None = None
    failures: int = 0
    runs: int = 0
    cost_factor: float = 1.0
    seconds_factor: float = 1.0
    files_factor: float = 1.0

    @property
    def retry_at(self) -> datetime | None:
        """When plans retry an action that has failed several times in a row; ``None`` if they do not wait.

        A commit to the table does not end the wait: it fixes few causes (memory, permissions, missing files), and a table with
        nightly writes would never wait.
        """
        further = self.failures - FAILURES_IN_A_ROW
        if self.last_run_at is None or further < 0:
            return None
        return self.last_run_at + backoff(FIRST_PAUSE, further, LONGEST_PAUSE)


NEVER_RAN = ActionRecord()


@dataclass(frozen=True, slots=True)
class ActionHistory:
    records: Mapping[str, ActionRecord] = field(default_factory=dict)

    def of(self, action: str) -> ActionRecord:
        """Return the record of an action; an empty record if it never ran."""
        return self.records.get(action, NEVER_RAN)


@dataclass(frozen=True, slots=True)
class ActionFigures:
    """What an action did, in the units of an estimate; ``gb_hours`` is ``None`` if the session's memory is unknown."""

    files_removed: int
    files_added: int
    bytes_rewritten: int
    snapshots_expired: int
    gb_hours: float | None
    seconds: float

    @classmethod
    def of(cls, result: ActionResult) -> ActionFigures:
        """Return the figures of a result, from the metrics of Iceberg's procedures."""
        numbers = {name: value for name, value in result.metrics.items() if isfinite(value)}
        removed = (name for name in numbers if name in REMOVED or name.startswith("deleted_"))
        return cls(
            files_removed=int(sum(numbers[name] for name in removed)),
            files_added=int(sum(numbers.get(name, 0) for name in ADDED)),
            bytes_rewritten=int(numbers.get("rewritten_bytes_count", 0)),
            snapshots_expired=int(numbers.get("expired_snapshots_count", 0)),
            gb_hours=result.gb_hours,
            seconds=result.elapsed_seconds,
        )


REMOVED = frozenset(
    {
        "rewritten_data_files_count",
        "rewritten_delete_files_count",
        "rewritten_manifests_count",
        "removed_files_count",
    }
)
LISTED = {"planned_files_count": "removed_files_count", "planned_snapshots_count": "expired_snapshots_count"}
"""Metrics of a list of files or snapshots, and of what was deleted of it: none while the list awaits approval."""
ADDED = ("added_data_files_count", "added_delete_files_count", "added_manifests_count")


def skipped_by_plan(job: Job, action: str) -> ActionResult | None:
    """Return the result of an action that the job's plan skips; ``None`` if the action runs."""
    decision = _decisions(job).get(action)
    return None if decision is None else skipped_by(decision)


def skipped_by(decision: Mapping[str, Any]) -> ActionResult | None:
    """Return the result of an action that a plan's decision skips; ``None`` if the action runs."""
    if decision["verdict"] != "skip":
        return None
    return ActionResult(decision["action"], ActionOutcome.SKIPPED, f"Skipped by the plan: {decision['evidence']}", 0.0)


def records_of(job: Job, status: JobStatus, results: Sequence[ActionResult]) -> list[dict[str, Any]]:
    """Return the parameters of ``record_actions`` for each action that ran.

    Skips by the plan leave no record, nor do actions that the shutdown of a worker interrupted. A commit conflict with a writer
    counts as a run but not as a failure. An action stopped at a limit counts as a failure: it may exceed the limit each time.

    :param status: the job's final status; ``CANCELLED`` for a job that its worker stopped at a limit.
    """
    planned, records = _decisions(job), []
    for result in results:
        decision = planned.get(result.action)
        if decision is not None and skipped_by(decision) is not None:
            continue
        if result.outcome is ActionOutcome.INTERRUPTED and status is not JobStatus.CANCELLED:
            continue
        ratios = _ratios(result, decision["estimate"]) if decision is not None else {}
        records.append(
            {
                "r_action": result.action,
                "r_succeeded": result.success,
                "r_failures": 0 if result.success or result.outcome is ActionOutcome.CONFLICT else 1,
                "r_runs": 1 if ratios else 0,
                "r_cost_factor": ratios.get("gb_hours", 1.0),
                "r_seconds_factor": ratios.get("seconds", 1.0),
                "r_files_factor": ratios.get("files_removed", 1.0),
            }
        )
    return records


def records_of_lost(job: Job) -> list[dict[str, Any]]:
    """Return the parameters of ``record_actions`` for the action, now failed, that ran when a job's worker was lost.

    A table whose job kills its worker each time, for lack of memory for example, is then not retried for ever.
    """
    ended = {result.action for result in job.results}
    left = (action for action in job.actions if action not in ended and skipped_by_plan(job, action) is None)
    lost = [ActionResult(action, ActionOutcome.FAILED, "The worker was lost", 0.0) for action in islice(left, 1)]
    return records_of(job, JobStatus.FAILED, lost)


def _ratios(result: ActionResult, estimate: Mapping[str, float]) -> dict[str, float]:
    """Return outcome / estimate of an action that did all of its work; otherwise the outcome does not measure the estimate."""
    left = any(result.metrics.get(listed, 0) > result.metrics.get(deleted, 0) for listed, deleted in LISTED.items())
    if left or result.outcome is not ActionOutcome.SUCCEEDED:
        return {}
    outcome, ratios = ActionFigures.of(result), {}
    for name in ("gb_hours", "seconds", "files_removed"):
        value = getattr(outcome, name)
        if value is not None and isfinite(value) and estimate[name] > 0:
            ratios[name] = min(max(value / estimate[name], LEAST_RATIO), MOST_RATIO)
    return ratios


def _decisions(job: Job) -> dict[str, Mapping[str, Any]]:
    return {} if job.plan is None else {decision["action"]: decision for decision in job.plan["decisions"]}
