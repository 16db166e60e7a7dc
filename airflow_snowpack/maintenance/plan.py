"""A dry run: what each action would do, computed from metadata without Spark.

    >>> plan_action(RewriteDataFiles(), Planning(MetadataReader(table), catalog, utc_now())).message  # doctest: +SKIP
    'Would compact 87 files into 12'

The invariant: nothing is written and no data file is opened. The rules are those of Iceberg's own planners, and the metrics have
the names that the procedures give theirs, so that a plan can be compared with the result. What cannot be computed from
metadata is named in the message: a predicate that PyIceberg cannot evaluate leaves the numbers of the whole table.

A predicate selects the files that **may** hold matching rows, judged by partition values and column bounds as Iceberg judges
them. Spark's predicates have more forms than PyIceberg reads (functions, casts, typed literals); one that it cannot read is no
error here, because Spark may well run it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import MetadataReader, TableUnreadable
from airflow_snowpack.jobs.action_history import skipped_by
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult
from airflow_snowpack.maintenance.action_run import ActionEffect, PlanningContext
from airflow_snowpack.maintenance.table_defaults import forbidden_reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.options import ActionOptions


def plan_action(options: ActionOptions, planning: PlanningContext) -> ActionResult:
    """Return what the action would do to the table as it was loaded.

    An action that would be refused is a failed result with the reason; one that the table's properties forbid is skipped.

    :raises TableUnreadable: a file that the metadata names cannot be read.
    """
    started = time.perf_counter()
    try:
        reason = forbidden_reason(options, planning.reader.table.properties)
        effect = options.plan(planning) if reason is None else forbidden(reason)
    except OSError as error:
        raise TableUnreadable(".".join(planning.reader.table.name()), error) from error
    return effect.result(options.action, time.perf_counter() - started)


def planned_results(plan: Mapping[str, Any]) -> list[ActionResult]:
    """Return the results of a dry run of a plan: the plan itself.

    :param plan: as JSON, as a request has it.
    """
    return [skipped_by(decision) or _run_by(decision) for decision in plan["decisions"]]


def _run_by(decision: Mapping[str, Any]) -> ActionResult:
    estimated = {f"estimated_{name}": number for name, number in decision["estimate"].items() if number}
    return ActionResult(decision["action"], ActionOutcome.SUCCEEDED, f"Would run: {decision['evidence']}", 0.0, metrics=estimated)


def reader_for(table: Table, options: Iterable[ActionOptions]) -> MetadataReader:
    """Return a reader of the table for plans of these options."""
    return MetadataReader(table, keep_bytes=any(getattr(each, "where", None) for each in options))


def planned(message: str, metrics: dict[str, int], selection: Selection) -> ActionEffect:
    """Return the plan of an action that a ``where`` may narrow."""
    note = f"; {selection.problem}, so this counts the whole table" if selection.problem else ""
    return ActionEffect(ActionOutcome.SUCCEEDED, message + note, metrics)


def refused_plan(reason: str, conflicts: int = 0) -> ActionEffect:
    """Return the plan of an action that would be refused."""
    metrics = {"location_conflicts_count": conflicts} if conflicts else {}
    return ActionEffect(ActionOutcome.FAILED, f"Would be refused: {reason}", metrics, reason)


def skip(evidence: str, metrics: dict[str, int]) -> ActionEffect:
    """Return the result of an action that has nothing to do.

    :param evidence: the numbers that show it, as a part of a sentence.
    """
    return ActionEffect(ActionOutcome.SKIPPED, f"Nothing to do: {evidence}", metrics)


def forbidden(reason: str) -> ActionEffect:
    """Return the result of an action that a property of the table forbids.

    :param reason: as a part of a sentence.
    """
    return ActionEffect(ActionOutcome.SKIPPED, f"Skipped: {reason}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Data files that a rewrite would look at.

    :param paths: ``None`` for all of them.
    :param problem: why the predicate could not be evaluated.
    """

    paths: frozenset[str] | None = None
    problem: str | None = None


def select_files(reader: MetadataReader, where: str | None, branch: str | None = None) -> Selection:
    """The data files that a predicate may match; all of them without one.

    :param reader: reads each manifest once, whatever else is asked of it, if it keeps bytes.
    :param branch: whose files; ``None`` for main.
    """
    from pyparsing import ParseBaseException

    if where is None:
        return Selection()
    try:
        scan = reader.scanned.scan(row_filter=where, case_sensitive=False)
        tasks = (scan if branch is None else scan.use_ref(branch)).plan_files()
        return Selection(frozenset(task.file.file_path for task in tasks))
    # PyIceberg: text it cannot read, columns it does not know, literals of another type, equality deletes.
    except (ParseBaseException, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return Selection(problem=f"the predicate {where[:120]!r} cannot be evaluated from metadata ({reason})")
