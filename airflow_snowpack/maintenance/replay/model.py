"""The results of a replay."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_snowpack.maintenance.planning.finding import Estimate


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of a table from one time until the next point.

    :param stored_bytes: files of the current snapshot, and those that only older snapshots of the replayed time need.
    """

    at: datetime
    data_files: int
    delete_files: int
    snapshots: int
    manifests: int
    stored_bytes: int

    @property
    def files(self) -> int:
        """Data and delete files."""
        return self.data_files + self.delete_files


NUMBERS = tuple(each.name for each in fields(Point) if each.name != "at")


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One simulated run of an action.

    :param evidence: why the plan runs it.
    :param done: its effect, without the cost.
    """

    at: datetime
    action: str
    evidence: str
    done: Estimate


@dataclass(frozen=True)
class ReplayOutcome:
    """What would have happened to one table, or to several together, under a policy; the label names the policy."""

    label: str
    points: tuple[Point, ...]
    runs: tuple[SimulatedRun, ...] = ()

    @property
    def bytes_rewritten(self) -> int:
        return sum(run.done.bytes_rewritten for run in self.runs)

    @property
    def bytes_freed(self) -> int:
        return sum(run.done.bytes_freed for run in self.runs)

    @property
    def most_files(self) -> int:
        """The maximum number of data and delete files."""
        return max((point.files for point in self.points), default=0)

    @property
    def average_files(self) -> float:
        """The average number of data and delete files over time."""
        if not self.points:
            return 0.0
        span = (self.points[-1].at - self.points[0].at).total_seconds()
        held = sum(
            point.files * (following.at - point.at).total_seconds()
            for point, following in zip(self.points, self.points[1:], strict=False)
        )
        return held / span if span else float(self.points[-1].files)

    @property
    def runs_by_action(self) -> dict[str, int]:
        return dict(Counter(run.action for run in self.runs))

    @property
    def last_files(self) -> int:
        """The number of data and delete files at the end."""
        return self.points[-1].files if self.points else 0


@dataclass(frozen=True)
class TableReplay:
    """The replay of one table.

    :param since: when it begins: the requested time, or the oldest snapshot that the table still has.
    :param commits: how many commits of writers were replayed.
    :param recorded: the real history, with its maintenance.
    :param untouched: without any maintenance from ``since`` on.
    :param outcomes: one per policy.
    :param abandoned: commits that are not replayed, because the table was rolled back or replaced after them.
    """

    table: str
    since: datetime
    until: datetime
    commits: int
    recorded: ReplayOutcome
    untouched: ReplayOutcome
    outcomes: tuple[ReplayOutcome, ...]
    abandoned: int = 0

    @property
    def all(self) -> tuple[ReplayOutcome, ...]:
        """The real history, the one without maintenance, and the outcome of each policy."""
        return self.recorded, self.untouched, *self.outcomes


@dataclass(frozen=True)
class Replay:
    """The replay of several tables.

    :param since: as requested; tables that no longer have these snapshots begin later.
    :param passes: how many passes over the fleet were simulated.
    :param problems: by table, why it cannot be replayed.
    """

    since: datetime
    until: datetime
    passes: int
    tables: tuple[TableReplay, ...]
    problems: Mapping[str, str]

    @cached_property
    def all(self) -> tuple[ReplayOutcome, ...]:
        """The sums over the tables: the real history, the one without maintenance, and one for each policy."""
        columns = zip(*(table.all for table in self.tables), strict=True)
        return tuple(together(column[0].label, column) for column in columns)


def together(label: str, outcomes: Sequence[ReplayOutcome]) -> ReplayOutcome:
    """Sum the outcomes of several tables; each table counts from its first point on."""
    changes: defaultdict[datetime, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        for before, point in zip((None, *outcome.points), outcome.points, strict=False):
            changes[point.at].update({name: getattr(point, name) - getattr(before, name, 0) for name in NUMBERS})
    held, points = Counter(dict.fromkeys(NUMBERS, 0)), list[Point]()
    for at in sorted(changes):
        held.update(changes[at])
        points.append(Point(at, **held))
    runs = sorted((run for outcome in outcomes for run in outcome.runs), key=lambda run: run.at)
    return ReplayOutcome(label, tuple(points), tuple(runs))
