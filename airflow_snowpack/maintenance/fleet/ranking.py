"""In which order tables are maintained, and which of them a budget allows.

    ranked = rank(entries, reads_per_day, due_by=next_pass_at)
    for entry, reason in select(ranked, Budget(gb_hours=200), workers=4):
        ...                                           # chosen without a reason, in the order in which workers claim them

Tables whose deadline is before the next pass come first, earliest deadline first; then tables that did not fit an earlier pass,
longest wait first; then the others. The last two groups are ordered by benefit for readers per cost, then by bytes freed per
cost.

The invariants: a selection never exceeds its budget, and a table is left out only if it does not fit what the tables before it
left. So the first table is left out only if it exceeds the whole budget.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration, plural, size
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.planning.finding import Estimate

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.jobs.action_history import ActionHistory
    from airflow_snowpack.maintenance.fleet.model import PassEntry
    from airflow_snowpack.maintenance.planning.model import TablePlan
    from airflow_snowpack.maintenance.policies import TablePolicy

LEAST_GB_HOURS = 0.001
"""The minimum cost of a table in the ranking: claiming its job and reading its metadata."""
WORK_PER_WORKER = timedelta(minutes=2)
"""The estimated work that justifies a further worker."""
NEVER = datetime.max.replace(tzinfo=UTC)


def deadline_of(plan: TablePlan, policy: TablePolicy, history: ActionHistory) -> datetime | None:
    """Return the earliest deadline of the actions that run; now for one with a deadline that never ran.

    ``None`` if the last run of one of them failed: a table that always fails would come first forever.
    """
    if any(history.of(action).failures for action in plan.actions):
        return None
    deadlines = []
    for action in plan.actions:
        period, last = policy.actions[action].deadline, history.of(action).last_success_at
        if period is not None:
            deadlines.append(plan.made_at if last is None else last + period)
    return min(deadlines, default=None)


def rank(entries: Iterable[PassEntry], reads_per_day: Mapping[TableName, float], *, due_by: datetime) -> list[PassEntry]:
    """Return entries with a plan in the order in which their tables are maintained.

    :param reads_per_day: how often Airflow reads each table; tables that are left out are not read.
    :param due_by: tables with a deadline until then come first; usually the expected time of the next pass.
    """

    def order(entry: PassEntry) -> tuple[int, datetime, int, float, float, str]:
        is_due = entry.deadline is not None and entry.deadline <= due_by
        group = (0, entry.deadline or NEVER) if is_due else (1, NEVER)
        cost, reads = entry.estimate, reads_per_day.get(entry.table, 0.0)
        gb_hours = max(cost.gb_hours, LEAST_GB_HOURS)
        value, storage_value = entry.files_saved * (1.0 + reads) / gb_hours, cost.bytes_freed / gb_hours
        return *group, -entry.passes_waited, -value, -storage_value, str(entry.table)

    return sorted(entries, key=order)


def select(ranked: Iterable[PassEntry], budget: Budget, *, workers: int = 1) -> Iterator[tuple[PassEntry, str | None]]:
    """Take each table in turn if the rest of the budget allows it.

    :param workers: how many tables are maintained at a time; each runs in the worker that is free first.
    :returns: each table, with the reason as a sentence if it is left out.
    """
    # Fractions, because a sum of many floats may exceed a limit that the exact sum meets.
    gb_hours, rewritten, tables = Fraction(0), 0, 0
    busy = [0.0] * max(workers, 1)
    for entry in ranked:
        cost = entry.estimate
        until = busy[0] + cost.seconds
        reason = _refusal(cost, budget, gb_hours, rewritten, tables, until)
        yield entry, reason
        if reason is None:
            gb_hours, rewritten, tables = gb_hours + Fraction(cost.gb_hours), rewritten + cost.bytes_rewritten, tables + 1
            heapq.heapreplace(busy, until)


def workers_worth(seconds: Sequence[float], *, most: int, within: timedelta | None = None) -> int:
    """Return how many workers these tables justify: one per :data:`WORK_PER_WORKER`, and more if they would end too late.

    Each worker needs a Spark session, whose start takes longer than the maintenance of a few small tables.

    :param seconds: the estimate of each table, in the order of the pass.
    :param most: the maximum.
    :param within: the time that the tables have; ``None`` for any.
    """
    most = min(most, len(seconds))
    needed = min(most, math.ceil(sum(seconds) / WORK_PER_WORKER.total_seconds()) or 1)
    while needed < most and within is not None and _ends_after(seconds, needed) > within.total_seconds():
        needed += 1
    return needed


def _ends_after(seconds: Iterable[float], workers: int) -> float:
    """Return after how many seconds this many workers have maintained these tables."""
    busy = [0.0] * workers
    for each in seconds:
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy)


def _refusal(cost: Estimate, budget: Budget, gb_hours: Fraction, rewritten: int, tables: int, until: float) -> str | None:
    """Return why a table that would end after ``until`` seconds does not fit the rest of the budget; ``None`` if it does."""
    match budget.exceeded_by(cost):
        case "gb_hours":
            return f"Needs {cost.gb_hours:.2f} GB·h, more than the whole budget of {budget.gb_hours:g} GB·h."
        case "bytes":
            return f"Rewrites {size(cost.bytes_rewritten)}, more than the whole budget of {size(budget.bytes or 0)}."
        case "time":
            return f"Needs {duration(cost.seconds)}, more than the whole time of the pass."
    if budget.tables is not None and tables >= budget.tables:
        return f"The budget of {plural(budget.tables, 'table')} is used by tables that come first."
    if budget.gb_hours is not None and Fraction(cost.gb_hours) > (left := Fraction(budget.gb_hours) - gb_hours):
        return f"Needs {cost.gb_hours:.2f} GB·h, and {float(left):.2f} GB·h of the budget are left."
    if budget.bytes is not None and cost.bytes_rewritten > budget.bytes - rewritten:
        return f"Rewrites {size(cost.bytes_rewritten)}, and {size(budget.bytes - rewritten)} of the budget are left."
    if budget.time is not None and until > budget.time.total_seconds():
        return f"Needs {duration(cost.seconds)}, and all workers are planned until later than the end of the pass allows."
    return None
