"""What maintenance of a table does while DAGs write to it: rewrite, rewrite less, or wait; and what it must not delete.

    writers = TableWriters((Producer("ingest", next_due=in_ten_minutes, usual_duration=timedelta(minutes=5)),))
    writers.clear(timedelta(minutes=12), now)
    # Clearance(within=10 min, until=in 15 min, reason="… is due at 03:10, so only what takes 10 min is rewritten before")

A commit that removes files makes Iceberg refuse the rewrite of these files, and a commit that adds files leaves them for the next
rewrite. So a rewrite waits for a DAG that runs, and has to end before the next run of a DAG. If the runs of a DAG leave no time
between them, or one run goes on for more than a day, the rewrite does not wait for it. Plans bound the rest: a rewrite beyond its
deadline does not wait, nor one of a table that has waited in several passes.

A run that has not ended may still commit each file that it has written: to the table, these files are orphans until then.
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
"""A rewrite of a part is not worth starting in less time than this."""
LONGEST_RUN = timedelta(days=1)
"""A run that is older counts as one that never ends."""
RECHECK_INTERVAL = timedelta(minutes=15)
"""When to check again where it is unknown how long a run takes."""
DELETE_MARGIN = timedelta(days=1)
"""Orphan files are so much older than a run that has not ended: a planned job may wait for as long, and clocks differ."""
HOUR = timedelta(hours=1)
RECENT = timedelta(minutes=10)
"""How long the answer of Airflow counts as that of now."""


@dataclass(frozen=True, slots=True)
class WritingDag:
    """A DAG with a task that writes to a table.

    :param running_since: when its oldest run that has not ended began; ``None``: none runs.
    :param next_due: when its timetable starts the next run; ``None``: it has no timetable, or is paused.
    :param usual_duration: of its recent runs, the median; ``None``: unknown. Likewise ``usual_interval``, from start to start.
    """

    dag_id: str
    running_since: datetime | None = None
    next_due: datetime | None = None
    usual_duration: timedelta | None = None
    usual_interval: timedelta | None = None

    def leaves_no_time(self, now: datetime) -> bool:
        """Whether there is hardly a moment at which it does not run."""
        if self.running_since is not None and now - self.running_since > LONGEST_RUN:
            return True
        if self.usual_duration is None or self.usual_interval is None:
            return False
        return self.usual_interval - self.usual_duration < SHORTEST_WINDOW

    def ends_at(self, now: datetime) -> datetime:
        """Return when the run that has not ended should end, or when to check again."""
        if self.running_since is not None and self.usual_duration is not None:
            expected = self.running_since + self.usual_duration
            if expected > now:
                return expected
        return now + RECHECK_INTERVAL


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run of a producer that failed. If Iceberg refused its commit, because a rewrite had replaced files, the table keeps no
    trace."""

    dag_id: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class Clearance:
    """Whether a rewrite may run now.

    :param reason: a clause for the evidence of the plan; empty if there is nothing to explain. ``for_part``: of a plan that
        rewrites what fits.
    :param within: how long the rewrite may take; ``None``: as long as it needs. Zero: it waits.
    :param until: when the writer that limits the rewrite should be done.
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
    """What is known of the DAGs that write to one table.

    :param unknown: why nothing is known; ``None``: the producers are all that Airflow knows.
    :param not_awaited: why a rewrite does not wait for them; ``None``: it does.
    """

    producers: tuple[WritingDag, ...] = ()
    unknown: str | None = None
    not_awaited: str | None = None

    def clear(self, needs: timedelta, now: datetime) -> Clearance:
        """Return whether a rewrite that takes this long may run now."""
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
        """Return up to which age no file is an orphan, because a run that has not ended may still commit it; and the reason."""
        running = [(each.running_since, each) for each in self.producers if each.running_since is not None]
        if not running:
            return timedelta(), ""
        since, first = min(running, key=lambda pair: pair[0])
        age = HOUR * math.ceil((now - since + DELETE_MARGIN) / HOUR)
        return age, f"{_runs(first, now)}, so only files of at least {duration(age)} are removed"


@dataclass(frozen=True, slots=True)
class DagsOfTables:
    """Which DAGs write to tables, and how often DAGs read them.

    :param producers: by :attr:`TableName.asset_uri`; likewise ``reads_per_day``: runs of the DAGs that read the table.
    :param unknown: why nothing is known; ``None``: all is known that Airflow knows.
    :param failed_runs: of the DAGs that write to tables, likewise.
    """

    producers: Mapping[str, tuple[WritingDag, ...]] = field(default_factory=dict)
    reads_per_day: Mapping[str, float] = field(default_factory=dict)
    unknown: str | None = None
    failed_runs: Mapping[str, tuple[FailedRun, ...]] = field(default_factory=dict)

    def writers(self, table: TableName) -> TableWriters:
        """Return what is known of the DAGs that write to a table."""
        return TableWriters(self.producers.get(table.asset_uri, ()), self.unknown)

    def reads(self, table: TableName) -> float:
        """Return how often DAGs read a table, in runs per day."""
        return self.reads_per_day.get(table.asset_uri, 0.0)

    def failed_beside(self, table: TableName, started_at: datetime, ended_at: datetime) -> tuple[FailedRun, ...]:
        """Return the failed runs of DAGs that write to a table which had not ended when its maintenance began."""
        runs = self.failed_runs.get(table.asset_uri, ())
        return tuple(each for each in runs if each.started_at < ended_at and started_at < each.ended_at)


class RecentDags:
    """Reads the DAGs of tables, and again when the last answer is older than :data:`RECENT`."""

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
    """Return what is possible before the next run of a DAG that is due within the rewrite."""
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
