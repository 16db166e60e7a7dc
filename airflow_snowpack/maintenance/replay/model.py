"""What a replay finds."""

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
    """The numbers of a table at one time; they hold until the next point.

    :param stored_bytes: files of the current snapshot, and files that only older snapshots of the replayed time still need.
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
    """One run of an action that did not take place.

    :param evidence: why the plan runs it.
    :param done: what it would have done, without what that takes.
    """

    at: datetime
    action: str
    evidence: str
    done: Estimate


@dataclass(frozen=True)
class ReplayOutcome:
    """What would have become of one table, or of several together.

    :param label: of the policy, such as the name of its file.
    """

    label: str
    points: tuple[Point, ...]
    runs: tuple[SimulatedRun, ...] = ()

    @property
    def bytes_rewritten(self) -> int:
        """Over all runs."""
        return sum(run.done.bytes_rewritten for run in self.runs)

    @property
    def bytes_freed(self) -> int:
        """Over all runs."""
        return sum(run.done.bytes_freed for run in self.runs)

    @property
    def most_files(self) -> int:
        """The most data and delete files that there were at one time."""
        return max((point.files for point in self.points), default=0)

    @property
    def average_files(self) -> float:
        """The data and delete files on average over the time."""
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
        """How often each action ran."""
        return dict(Counter(run.action for run in self.runs))

    @property
    def last_files(self) -> int:
        """The data and delete files at the end."""
        return self.points[-1].files if self.points else 0


@dataclass(frozen=True)
class TableReplay:
    """One table.

    :param since: when the replay begins: the time that was requested, or the oldest snapshot that the table still has.
    :param commits: how many commits of writers were replayed.
    :param recorded: as it was, with the maintenance that the table really had.
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
        """What was, what would have been without maintenance, and the outcomes of the policies."""
        return self.recorded, self.untouched, *self.outcomes


@dataclass(frozen=True)
class Replay:
    """Several tables.

    :param since: as it was requested; tables that have forgotten so much begin later.
    :param passes: how many passes over the fleet were simulated.
    :param problems: why a table cannot be replayed, by table.
    """

    since: datetime
    until: datetime
    passes: int
    tables: tuple[TableReplay, ...]
    problems: Mapping[str, str]

    @cached_property
    def all(self) -> tuple[ReplayOutcome, ...]:
        """The sums over the tables: what was, what would have been without maintenance, and one for each policy."""
        columns = zip(*(table.all for table in self.tables), strict=True)
        return tuple(together(column[0].label, column) for column in columns)


def together(label: str, outcomes: Sequence[ReplayOutcome]) -> ReplayOutcome:
    """Add outcomes of several tables up. A table counts from its own first point on."""
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
