"""Whether a rewrite of a table runs now, although DAGs write to the table: run, rewrite less, or wait.

    writers = TableWriters((Producer("ingest", next_due=in_ten_minutes, usual_duration=timedelta(minutes=5)),))
    writers.clear(timedelta(minutes=12), now)
    # Clearance(within=10 min, until=in 15 min, reason="… is due at 03:10, so only what takes 10 min is rewritten before")

A commit that removes files makes Iceberg refuse the rewrite of these files, and a commit that adds files leaves them for the next
rewrite. So a rewrite waits for a DAG that runs, and has to end before the next run of a DAG. If the runs of a DAG leave no time
between them, or one run goes on for more than a day, the rewrite does not wait for it. Plans bound the rest: a rewrite beyond its
deadline does not wait, nor one of a table that has waited in several passes.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Producer:
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
class Clearance:
    """Whether a rewrite may run now.

    :param reason: a clause for the evidence of the plan; empty if there is nothing to explain.
    :param within: how long the rewrite may take; ``None``: as long as it needs. Zero: it waits.
    :param until: when the writer that limits the rewrite should be done.
    """

    reason: str = ""
    within: timedelta | None = None
    until: datetime | None = None

    @property
    def waits(self) -> bool:
        """Whether nothing may run now."""
        return self.within is not None and self.within <= timedelta()


CLEAR = Clearance()
Writers = Callable[[timedelta], Clearance]
"""Returns whether a rewrite that takes this long may run now."""


@dataclass(frozen=True, slots=True)
class TableWriters:
    """What is known of the DAGs that write to one table.

    :param unknown: why nothing is known; ``None``: the producers are all that Airflow knows.
    """

    producers: tuple[Producer, ...] = ()
    unknown: str | None = None

    def clear(self, needs: timedelta, now: datetime) -> Clearance:
        """Return whether a rewrite that takes this long may run now."""
        if self.unknown is not None:
            return Clearance(f"the DAGs that write to the table are unknown: {self.unknown}")
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


@dataclass(frozen=True, slots=True)
class DagsOfTables:
    """Which DAGs write to tables, and how often DAGs read them.

    :param producers: by :attr:`TableName.asset_uri`; likewise ``reads_per_day``: runs of the DAGs that read the table.
    :param unknown: why nothing is known; ``None``: all is known that Airflow knows.
    """

    producers: Mapping[str, tuple[Producer, ...]] = field(default_factory=dict)
    reads_per_day: Mapping[str, float] = field(default_factory=dict)
    unknown: str | None = None

    def writers(self, table: TableName) -> TableWriters:
        """Return what is known of the DAGs that write to a table."""
        return TableWriters(self.producers.get(table.asset_uri, ()), self.unknown)

    def reads(self, table: TableName) -> float:
        """Return how often DAGs read a table, in runs per day."""
        return self.reads_per_day.get(table.asset_uri, 0.0)


def writers_of(table: TableName, read: Callable[[], DagsOfTables], now: datetime) -> Writers:
    """Return the writers of a table; the DAGs are read when a rewrite depends on them.

    :param read: called for each rewrite; cache what it returns.
    """

    def clear(needs: timedelta) -> Clearance:
        return read().writers(table).clear(needs, now)

    return clear


def _due_at(producer: Producer) -> datetime:
    assert producer.next_due is not None
    return producer.next_due


def _before(producer: Producer, needs: timedelta, now: datetime) -> Clearance:
    """Return what is possible before the next run of a DAG that is due within the rewrite."""
    due = max(_due_at(producer), now)
    done = due + (producer.usual_duration or RECHECK_INTERVAL)
    text = f"DAG {producer.dag_id!r}, which writes to the table, is due at {timestamp(due)}"
    if due - now < SHORTEST_WINDOW:
        return Clearance(f"{text}, and the rewrite takes {duration(needs)}", timedelta(), done)
    return Clearance(f"{text}, so only what takes {duration(due - now)} is rewritten before", due - now, done)


def _runs(producer: Producer, now: datetime) -> str:
    assert producer.running_since is not None
    text = f"DAG {producer.dag_id!r}, which writes to the table, has been running for {duration(now - producer.running_since)}"
    return text if producer.usual_duration is None else f"{text} and usually takes {duration(producer.usual_duration)}"


def _has_no_gap(producer: Producer, now: datetime) -> str:
    if producer.running_since is not None and now - producer.running_since > LONGEST_RUN:
        return f"{_runs(producer, now)}, so the rewrite does not wait for it"
    every = duration(producer.usual_interval or timedelta())
    return f"DAG {producer.dag_id!r} writes to the table every {every}, so the rewrite does not wait for it"
