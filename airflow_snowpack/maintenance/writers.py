"""How maintenance avoids conflicts with the DAGs that write to a table: rewrite, rewrite less, or wait; and what not to delete.

    writers = TableWriters((WritingDag("ingest", next_due=in_ten_minutes, usual_duration=timedelta(minutes=5)),))
    writers.clear(timedelta(minutes=12), now)
    # Clearance(within=10 min, until=in 15 min, reason="… is due at 03:10, so only what takes 10 min is rewritten before")

A commit that removes files makes Iceberg refuse a rewrite of these files; a commit that adds files leaves them for the next
rewrite. So a rewrite waits for a running DAG, and must end before the next run of one. It does not wait for a DAG whose runs
leave no time between them, or whose run lasts more than a day. Plans bound the rest: a rewrite does not wait beyond its deadline,
or when its table has waited in several passes.

An active run may still commit each file that it has written: until then, these files look like orphans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.humanize import duration, timestamp

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName

SHORTEST_WINDOW = timedelta(minutes=2)
"""The shortest time in which a part of a rewrite is worth starting."""
LONGEST_RUN = timedelta(days=1)
"""The age from which a run counts as endless."""
RECHECK_INTERVAL = timedelta(minutes=15)
"""When to check again if the duration of a run is unknown."""
DELETE_MARGIN = timedelta(days=1)
"""How much older than an active run orphan files must be: a planned job may wait as long, and clocks differ."""
HOUR = timedelta(hours=1)
RECENT = timedelta(minutes=10)
"""How long Airflow's answer is reused."""


@dataclass(frozen=True, slots=True)
class WritingDag:
    """A DAG with a task that writes to a table.

    :param running_since: the start of its oldest active run; ``None``: none is active.
    :param next_due: when its timetable starts the next run; ``None``: it has no timetable, or is paused.
    :param usual_duration: the median of its recent runs; ``None``: unknown.
    :param usual_interval: the median time from start to start; ``None``: unknown.
    """

    dag_id: str
    running_since: datetime | None = None
    next_due: datetime | None = None
    usual_duration: timedelta | None = None
    usual_interval: timedelta | None = None

    def leaves_no_time(self, now: datetime) -> bool:
        """Return whether it runs nearly all the time."""
        if self.running_since is not None and now - self.running_since > LONGEST_RUN:
            return True
        if self.usual_duration is None or self.usual_interval is None:
            return False
        return self.usual_interval - self.usual_duration < SHORTEST_WINDOW

    def ends_at(self, now: datetime) -> datetime:
        """Return when its active run should end, or when to check again."""
        if self.running_since is not None and self.usual_duration is not None:
            expected = self.running_since + self.usual_duration
            if expected > now:
                return expected
        return now + RECHECK_INTERVAL


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A failed run of a producer. Commits that Iceberg refused because a rewrite replaced files leave no trace in the table."""

    dag_id: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Clearance:
    """Whether a rewrite may run now.

    :param reason: a clause for the plan's evidence; empty if there is nothing to explain.
    :param within: how long the rewrite may take; ``None``: as long as it needs; zero: it waits.
    :param until: when the writer that limits the rewrite should end.
    :param for_part: the clause for a plan that rewrites what fits.
    """

    reason: str = ""
    within: timedelta | None = None
    until: datetime | None = None
    for_part: str = ""

    @property
    def waits(self) -> bool:
        """Whether nothing may run now."""
        return self.within is not None and self.within <= timedelta()


CLEAR = Clearance()


@dataclass(frozen=True, slots=True)
class TableWriters:
    """The DAGs that write to one table.

    :param unknown: why they are unknown; ``None``: ``producers`` is complete.
    :param not_awaited: why a rewrite does not wait for them; ``None``: it does.
    """

    producers: tuple[WritingDag, ...] = ()
    unknown: str | None = None
    not_awaited: str | None = None

    def clear(self, needs: timedelta, now: datetime) -> Clearance:
        """Return whether a rewrite of this duration may run now."""
        if self.unknown is not None:
            return Clearance(f"the DAGs that write to the table are unknown: {self.unknown}")
        if self.not_awaited is not None:
            return Clearance(self.not_awaited)
        constant = next((each for each in self.producers if each.leaves_no_time(now)), None)
        if constant is not None:
            return Clearance(_has_no_gap(constant, now))
        running = [each for each in self.producers if each.running_since is not None]
        if running:
            last = max(running, key=lambda each: each.ends_at(now))
            return Clearance(_runs(last, now), timedelta(), last.ends_at(now))
        due = [each for each in self.producers if each.next_due is not None and each.next_due < now + needs]
        first = min(due, key=_due_at, default=None)
        return CLEAR if first is None else _before(first, needs, now)

    def protected_age(self, now: datetime) -> tuple[timedelta, str]:
        """Return the age below which no file counts as an orphan, because an active run may still commit it; and the reason."""
        running = [(each.running_since, each) for each in self.producers if each.running_since is not None]
        if not running:
            return timedelta(), ""
        since, first = min(running, key=lambda pair: pair[0])
        age = HOUR * math.ceil((now - since + DELETE_MARGIN) / HOUR)
        return age, f"{_runs(first, now)}, so only files of at least {duration(age)} are removed"


@dataclass(frozen=True, slots=True)
class DagsOfTables:
    """The DAGs that write to tables, and how often DAGs read tables. All mappings are by :attr:`TableName.asset_uri`.

    :param reads_per_day: runs per day of the DAGs that read the table.
    :param unknown: why nothing is known; ``None``: all that Airflow knows is here.
    :param failed_runs: of the DAGs that write to the table.
    """

    producers: Mapping[str, tuple[WritingDag, ...]] = field(default_factory=dict)
    reads_per_day: Mapping[str, float] = field(default_factory=dict)
    unknown: str | None = None
    failed_runs: Mapping[str, tuple[FailedRun, ...]] = field(default_factory=dict)

    def writers(self, table: TableName) -> TableWriters:
        return TableWriters(self.producers.get(table.asset_uri, ()), self.unknown)

    def reads(self, table: TableName) -> float:
        """Return how often DAGs read a table, in runs per day."""
        return self.reads_per_day.get(table.asset_uri, 0.0)

    def failed_beside(self, table: TableName, started_at: datetime, ended_at: datetime) -> tuple[FailedRun, ...]:
        """Return the failed runs of DAGs that write to a table that overlap with a period of its maintenance."""
        runs = self.failed_runs.get(table.asset_uri, ())
        return tuple(each for each in runs if each.started_at < ended_at and started_at < each.ended_at)


class RecentDags:
    """Reads the DAGs of tables, at most once per :data:`RECENT`."""

    def __init__(self, read: Callable[[], DagsOfTables], clock: Callable[[], datetime]) -> None:
        self._read = read
        self._clock = clock
        self._last: tuple[datetime, DagsOfTables] | None = None

    def __call__(self) -> DagsOfTables:
        if self._last is None or self._clock() - self._last[0] >= RECENT:
            dags = self._read()
            self._last = self._clock(), dags
        return self._last[1]


def _due_at(producer: WritingDag) -> datetime:
    assert producer.next_due is not None
    return producer.next_due


def _before(producer: WritingDag, needs: timedelta, now: datetime) -> Clearance:
    """Return the clearance before the next run of a DAG that is due during the rewrite."""
    due = max(_due_at(producer), now)
    done = due + (producer.usual_duration or RECHECK_INTERVAL)
    text = f"DAG {producer.dag_id!r}, which writes to the table, is due at {timestamp(due)}"
    within, reason = due - now, f"{text}, and the rewrite takes {duration(needs)}"
    if within < SHORTEST_WINDOW:
        return Clearance(reason, timedelta(), done)
    return Clearance(reason, within, done, f"{text}, so only what takes {duration(within)} is rewritten before")


def _runs(producer: WritingDag, now: datetime) -> str:
    assert producer.running_since is not None
    text = f"DAG {producer.dag_id!r}, which writes to the table, has been running for {duration(now - producer.running_since)}"
    return text if producer.usual_duration is None else f"{text} and usually takes {duration(producer.usual_duration)}"


def _has_no_gap(producer: WritingDag, now: datetime) -> str:
    if producer.running_since is not None and now - producer.running_since > LONGEST_RUN:
        return f"{_runs(producer, now)}, so the rewrite does not wait for it"
    every = duration(producer.usual_interval or timedelta())
    return f"DAG {producer.dag_id!r} writes to the table every {every}, so the rewrite does not wait for it"
