"""In which order tables are maintained, and which of them a budget allows.

    ranked = rank(candidates, due_by=next_pass_at)
    selection = select(ranked, Budget(gb_hours=200), workers=4)
    selection.chosen                                  # in the order in which workers claim them
    selection.waiting                                 # each with the reason

The order: tables whose deadline comes before the next pass, the earliest deadline first; then tables that did not fit an earlier
pass, those that waited for more passes first; then the others. Within the last two groups, the table with the most benefit for
readers per cost comes first, and of those without any the one that frees most bytes per cost.

The invariants: a selection never exceeds its budget, and a table is left out only if it does not fit what the tables before it
have left. So the first table is left out only if the whole budget does not allow one of its size.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration, plural, size
from airflow_snowpack.maintenance.fleet.budget import Budget, Cost

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName

LEAST_GB_HOURS = 0.001
"""What each table costs at least in the ranking: its job has to be claimed, and its metadata read."""
WORK_PER_WORKER = timedelta(minutes=2)
"""Estimated work that is worth a further worker."""
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A table that needs maintenance.

    :param benefit: how many files readers need not open any more.
    :param reads_per_day: how often Airflow reads the table.
    :param deadline: when it has to be maintained at the latest; ``None`` for no deadline.
    :param passes_waited: in how many passes in a row it did not fit.
    :param bytes_freed: in the storage, which decides between tables of the same value for readers.
    """

    table: TableName
    benefit: float
    cost: Cost
    reads_per_day: float = 0.0
    deadline: datetime | None = None
    passes_waited: int = 0
    bytes_freed: int = 0

    @property
    def value(self) -> float:
        """The benefit per GB·h, weighted by reads: each read benefits again."""
        return self.benefit * (1.0 + self.reads_per_day) / self._gb_hours

    @property
    def storage_value(self) -> float:
        """The bytes freed per GB·h."""
        return self.bytes_freed / self._gb_hours

    @property
    def _gb_hours(self) -> float:
        return max(self.cost.gb_hours, LEAST_GB_HOURS)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table that a selection leaves out, and the reason as a sentence."""

    candidate: Candidate
    reason: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What a budget allows.

    :param chosen: in the order of the ranking; likewise ``waiting``.
    :param cost: of all that is chosen.
    """

    chosen: tuple[Candidate, ...]
    waiting: tuple[Waiting, ...]
    cost: Cost


def rank(candidates: Iterable[Candidate], *, due_by: datetime) -> list[Candidate]:
    """Return the candidates in the order in which they are maintained.

    :param due_by: a table whose deadline is not later comes before all others; usually when the next pass is expected.
    """

    def order(candidate: Candidate) -> tuple[int, datetime, int, float, float, str]:
        is_due = candidate.deadline is not None and candidate.deadline <= due_by
        group = (0, candidate.deadline or NEVER) if is_due else (1, NEVER)
        return *group, -candidate.passes_waited, -candidate.value, -candidate.storage_value, str(candidate.table)

    return sorted(candidates, key=order)


def select(ranked: Sequence[Candidate], budget: Budget, *, workers: int = 1) -> Selection:
    """Take each table in turn if what is left of the budget allows it.

    :param workers: how many tables are maintained at a time; each runs in the worker that is free first.
    """
    chosen: list[Candidate] = []
    waiting: list[Waiting] = []
    # Fractions, because the sum of many floats may end beyond a limit that the exact sum meets.
    gb_hours, rewritten = Fraction(0), 0
    busy = [0.0] * max(workers, 1)
    for candidate in ranked:
        cost = candidate.cost
        until = busy[0] + cost.seconds
        left = _left(budget, gb_hours, rewritten, len(chosen))
        if reason := _refusal(cost, budget, left, until):
            waiting.append(Waiting(candidate, reason))
            continue
        chosen.append(candidate)
        gb_hours, rewritten = gb_hours + Fraction(cost.gb_hours), rewritten + cost.bytes
        heapq.heapreplace(busy, until)
    return Selection(tuple(chosen), tuple(waiting), Cost(float(gb_hours), rewritten, max(busy)))


def workers_worth(seconds: Sequence[float], *, most: int, within: timedelta | None = None) -> int:
    """Return how many workers these tables are worth: one for each :data:`WORK_PER_WORKER`, and more if they end too late.

    Each further worker is a further Spark session, whose start takes longer than the maintenance of a few small tables.

    :param seconds: the estimate of each table, in the order of the pass.
    :param most: the most workers that are returned.
    :param within: the time that the tables have; ``None`` for any.
    """
    most = min(most, len(seconds))
    needed = min(most, math.ceil(sum(seconds) / WORK_PER_WORKER.total_seconds()) or 1)
    while needed < most and within is not None and _ends_after(seconds, needed) > within.total_seconds():
        needed += 1
    return needed


def _ends_after(seconds: Iterable[float], workers: int) -> float:
    """Return after how many seconds so many workers have maintained these tables."""
    busy = [0.0] * workers
    for each in seconds:
        heapq.heapreplace(busy, busy[0] + each)
    return max(busy)


@dataclass(frozen=True, slots=True)
class _Left:
    """What is left of a budget; ``None`` for no limit."""

    gb_hours: Fraction | None
    bytes: int | None
    tables: int | None


def _left(budget: Budget, gb_hours: Fraction, rewritten: int, tables: int) -> _Left:
    return _Left(
        None if budget.gb_hours is None else Fraction(budget.gb_hours) - gb_hours,
        None if budget.bytes is None else budget.bytes - rewritten,
        None if budget.tables is None else budget.tables - tables,
    )


def _refusal(cost: Cost, budget: Budget, left: _Left, until: float) -> str | None:
    """Return why a table does not fit; ``None`` if it does."""
    match cost.beyond(budget):
        case "gb_hours":
            return f"Needs {cost.gb_hours:.2f} GB·h, more than the whole budget of {budget.gb_hours:g} GB·h."
        case "bytes":
            return f"Rewrites {size(cost.bytes)}, more than the whole budget of {size(budget.bytes or 0)}."
        case "time":
            return f"Needs {duration(cost.seconds)}, more than the whole time of the pass."
    if left.tables is not None and left.tables < 1:
        return f"The budget of {plural(budget.tables or 0, 'table')} is used by tables that come first."
    if left.gb_hours is not None and Fraction(cost.gb_hours) > left.gb_hours:
        return f"Needs {cost.gb_hours:.2f} GB·h, and {float(left.gb_hours):.2f} GB·h of the budget are left."
    if left.bytes is not None and cost.bytes > left.bytes:
        return f"Rewrites {size(cost.bytes)}, and {size(left.bytes)} of the budget are left."
    if budget.time is not None and until > budget.time.total_seconds():
        return f"Needs {duration(cost.seconds)}, and all workers are planned until later than the end of the pass allows."
    return None
