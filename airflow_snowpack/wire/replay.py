"""A replay: what policies would have done to tables."""

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from airflow_snowpack.humanize import size
from airflow_snowpack.maintenance.replay.model import ReplayOutcome, TableReplay
from airflow_snowpack.wire.listing import Column, Listing
from airflow_snowpack.wire.shape import From, Moment, Shape


class PointShape(Shape):
    """The numbers of a table at one time; they hold until the next point."""

    at: Moment
    data_files: int
    delete_files: int
    snapshots: int
    manifests: int
    stored_bytes: int


class SimulatedRunShape(Shape):
    """One run of an action that did not take place."""

    at: Moment
    action: str
    evidence: str
    files_removed: Annotated[int, From("done.files_removed")]
    files_added: Annotated[int, From("done.files_added")]
    bytes_rewritten: Annotated[int, From("done.bytes_rewritten")]
    bytes_freed: Annotated[int, From("done.bytes_freed")]
    snapshots_expired: Annotated[int, From("done.snapshots_expired")]


class OutcomeShape(Shape):
    """What would have become of tables with one policy."""

    policy: Annotated[str, From("label")]
    runs_by_action: dict[str, int]
    bytes_rewritten: int
    bytes_freed: int
    files: Annotated[int, From("last_files")] = Field(description="Data and delete files at the end.")
    average_files: float
    most_files: int
    runs: list[SimulatedRunShape]
    points: list[PointShape]


class TableReplayShape(Shape):
    """A table with one outcome per policy."""

    table: str
    since: Moment
    commits: int = Field(description="How many commits of writers were replayed.")
    abandoned: int = Field(description="Commits that were not replayed: the table was rolled back or replaced after them.")
    outcomes: Annotated[list[OutcomeShape], From("all")]


class ReplayProblemShape(Shape):
    """A table that cannot be replayed."""

    table: str
    reason: str


class ReplayShape(Shape):
    """Tables, and the sums over them."""

    since: Moment
    until: Moment
    passes: int
    outcomes: Annotated[list[OutcomeShape], From("all")] = Field(description="The sums over the tables.")
    tables: list[TableReplayShape]
    problems: Annotated[
        list[ReplayProblemShape],
        From(lambda replay: [{"table": table, "reason": reason} for table, reason in replay.problems.items()]),
    ]


OUTCOMES: Listing[ReplayOutcome] = Listing(
    "outcomes",
    OutcomeShape.encode,
    (
        Column("policy", "label"),
        Column("runs", lambda outcome: len(outcome.runs)),
        Column("rewritten", "bytes_rewritten", lambda outcome: size(outcome.bytes_rewritten) if outcome.runs else ""),
        Column("freed", "bytes_freed", lambda outcome: size(outcome.bytes_freed) if outcome.runs else ""),
        Column("files on average", "average_files", lambda outcome: round(outcome.average_files)),
        Column("at most", "most_files"),
        Column("at the end", "last_files"),
    ),
)
REPLAYED: Listing[TableReplay] = Listing(
    "tables",
    TableReplayShape.encode,
    (
        Column("table", "table"),
        Column("since", "since"),
        Column("commits", "commits"),
        Column("files without", lambda replay: round(replay.untouched.average_files)),
        Column("files", lambda replay: _each(replay, lambda outcome: f"{outcome.average_files:,.0f}")),
        Column("runs", lambda replay: _each(replay, lambda outcome: f"{len(outcome.runs):,}")),
        Column("rewritten", lambda replay: _each(replay, lambda outcome: size(outcome.bytes_rewritten))),
    ),
)
BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def over_time(outcomes: Sequence[ReplayOutcome]) -> Column[ReplayOutcome]:
    """Return the column with the files over time, on one scale for these outcomes."""
    most = max(outcome.most_files for outcome in outcomes)
    return Column("files over time", lambda outcome: sparkline(outcome, most))


def sparkline(outcome: ReplayOutcome, top: int) -> str:
    """Return the files over time as a line of blocks, of which the highest means ``top`` files."""
    points = outcome.points
    if not points or not top:
        return ""
    first, span = points[0].at, (points[-1].at - points[0].at) / WIDTH
    line, place = [], 0
    for column in range(1, WIDTH + 1):
        end, most = first + span * column, 0
        while place < len(points) - 1 and points[place + 1].at <= end:
            most = max(most, points[place].files)
            place += 1
        most = max(most, points[place].files)
        line.append(BLOCKS[min(most * len(BLOCKS) // (top + 1), len(BLOCKS) - 1)])
    return "".join(line)


def _each(replay: TableReplay, text: Callable[[ReplayOutcome], str]) -> str:
    return " / ".join(text(outcome) for outcome in replay.outcomes)
