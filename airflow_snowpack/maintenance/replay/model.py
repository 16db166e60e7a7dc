"""What a replay finds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime


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


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One run of an action that did not take place.

    :param evidence: why the plan runs it.
    """

    at: datetime
    action: str
    evidence: str
    files_removed: int = 0
    files_added: int = 0
    bytes_rewritten: int = 0
    bytes_freed: int = 0
    snapshots_expired: int = 0


@dataclass(frozen=True)
class Outcome:
    """What would have become of one table, or of several together.

    :param label: of the policy, such as the name of its file.
    """

    label: str
    points: tuple[Point, ...]
    runs: tuple[SimulatedRun, ...] = ()

    @property
    def bytes_rewritten(self) -> int:
        """Over all runs."""
        return sum(run.bytes_rewritten for run in self.runs)

    @property
    def bytes_freed(self) -> int:
        """Over all runs."""
        return sum(run.bytes_freed for run in self.runs)

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
    """

    table: str
    since: datetime
    until: datetime
    commits: int
    recorded: Outcome
    untouched: Outcome
    outcomes: tuple[Outcome, ...]

    @property
    def all(self) -> tuple[Outcome, ...]:
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
    def all(self) -> tuple[Outcome, ...]:
        """The sums over the tables: what was, what would have been without maintenance, and one for each policy."""
        columns = zip(*(table.all for table in self.tables), strict=True)
        return tuple(together(column[0].label, column) for column in columns)


def together(label: str, outcomes: Sequence[Outcome]) -> Outcome:
    """Add outcomes of several tables up. A table counts from its own first point on."""
    steps = [step for outcome in outcomes for step in _steps(outcome)]
    changes = sorted(((point.at, _minus(point, before)) for before, point in steps), key=lambda change: change[0])
    points: list[Point] = []
    held = (0, 0, 0, 0, 0)
    for at, change in changes:
        held = _plus(held, change)
        if points and points[-1].at == at:
            points.pop()
        points.append(Point(at, *held))
    runs = sorted((run for outcome in outcomes for run in outcome.runs), key=lambda run: run.at)
    return Outcome(label, tuple(points), tuple(runs))


Numbers = tuple[int, int, int, int, int]


def _steps(outcome: Outcome) -> Iterable[tuple[Point | None, Point]]:
    return zip((None, *outcome.points), outcome.points, strict=False)


def _numbers(point: Point | None) -> Numbers:
    if point is None:
        return (0, 0, 0, 0, 0)
    return point.data_files, point.delete_files, point.snapshots, point.manifests, point.stored_bytes


def _plus(first: Numbers, second: Numbers) -> Numbers:
    a, b, c, d, e = (one + other for one, other in zip(first, second, strict=True))
    return a, b, c, d, e


def _minus(point: Point, before: Point | None) -> Numbers:
    a, b, c, d, e = (now - then for now, then in zip(_numbers(point), _numbers(before), strict=True))
    return a, b, c, d, e
