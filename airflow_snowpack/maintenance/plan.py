"""Dry runs: what each action would do, computed from metadata without Spark.

    >>> plan_action(RewriteDataFiles(), PlanningContext(MetadataReader(table), catalog, utc_now())).message  # doctest: +SKIP
    'Would compact 87 files into 12'

The invariant: nothing is written and no data file is opened. The rules are those of Iceberg's planners, and metrics have the
procedures' names, so a plan can be compared with the result.

A predicate selects the files that **may** hold matching rows, by partition values and column bounds, as in Iceberg. If PyIceberg
cannot evaluate a predicate (Spark also has functions, casts and typed literals), the plan counts the whole table and notes that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import MetadataReader, TableUnreadable
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.jobs.action_history import skipped_by
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult
from airflow_snowpack.maintenance.action_run import ActionEffect, PlanningContext
from airflow_snowpack.maintenance.table_defaults import forbidden_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.options import ActionOptions


def plan_action(options: ActionOptions, planning: PlanningContext) -> ActionResult:
    """Return what the action would do to the table as loaded.

    An action that would be refused fails with the reason; one that the table's properties forbid is skipped.

    :raises TableUnreadable: a file that the metadata names cannot be read.
    """
    started = time.perf_counter()
    try:
        reason = forbidden_reason(options, owner_properties(planning.reader.table))
        effect = options.plan(planning) if reason is None else forbidden(reason)
    except OSError as error:
        raise TableUnreadable(".".join(planning.reader.table.name()), error) from error
    return effect.result(options.action, time.perf_counter() - started)


def planned_results(plan: Mapping[str, Any]) -> list[ActionResult]:
    """Return the results of a dry run of a plan, given as the request's JSON."""
    return [skipped_by(decision) or _run_by(decision) for decision in plan["decisions"]]


def _run_by(decision: Mapping[str, Any]) -> ActionResult:
    estimated = {f"estimated_{name}": number for name, number in decision["estimate"].items() if number}
    return ActionResult(decision["action"], ActionOutcome.SUCCEEDED, f"Would run: {decision['evidence']}", 0.0, metrics=estimated)


def reader_for(table: Table, options: Iterable[ActionOptions]) -> MetadataReader:
    """Return a reader of the table for plans with these options."""
    return MetadataReader(table, keep_bytes=any(getattr(each, "where", None) for each in options))


def planned(message: str, metrics: dict[str, int], selection: Selection) -> ActionEffect:
    """Return the planned effect of an action that a ``where`` may narrow."""
    note = f"; {selection.problem}, so this counts the whole table" if selection.problem else ""
    return ActionEffect(ActionOutcome.SUCCEEDED, message + note, metrics)


def refused_plan(reason: str, conflicts: int = 0) -> ActionEffect:
    """Return the planned effect of an action that would be refused."""
    metrics = {"location_conflicts_count": conflicts} if conflicts else {}
    return ActionEffect(ActionOutcome.FAILED, f"Would be refused: {reason}", metrics, reason)


def skip(evidence: str, metrics: Mapping[str, int | float]) -> ActionEffect:
    """Return the effect of an action that has nothing to do; the evidence, a part of a sentence, has the numbers that show it."""
    return ActionEffect(ActionOutcome.SKIPPED, f"Nothing to do: {evidence}", metrics)


def forbidden(reason: str) -> ActionEffect:
    """Return the effect of an action that a table property forbids; the reason is a part of a sentence."""
    return ActionEffect(ActionOutcome.SKIPPED, f"Skipped: {reason}")


@dataclass(frozen=True, slots=True)
class Selection:
    """The data files that a predicate may match, ``None`` for all, or the problem that kept it from being evaluated."""

    paths: frozenset[str] | None = None
    problem: str | None = None


def select_files(reader: MetadataReader, where: str | None, branch: str | None = None) -> Selection:
    """Return the data files that a predicate may match on a branch, by default ``main``. The reader should keep bytes."""
    from pyparsing import ParseBaseException

    if where is None:
        return Selection()
    try:
        scan = reader.scanned.scan(row_filter=where, case_sensitive=False)
        tasks = (scan if branch is None else scan.use_ref(branch)).plan_files()
        return Selection(frozenset(task.file.file_path for task in tasks))
    # From PyIceberg, for invalid text, unknown columns, literals of another type, and equality deletes.
    except (ParseBaseException, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return Selection(problem=f"the predicate {where[:120]!r} cannot be evaluated from metadata ({reason})")
