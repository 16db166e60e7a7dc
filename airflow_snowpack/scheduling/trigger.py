"""What every trigger is, and the keys of the events that triggers listen to.

A trigger is judged by what has happened since its schedule last launched: the events of its leaves, summed up, and the
time. The invariant: judging changes nothing, and a judgement that time alone can change names the moment at which it
may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.declared import Declared

if TYPE_CHECKING:
    from airflow_snowpack.scheduling.composites import AllOf, AnyOf, AtLatest
    from airflow_snowpack.scheduling.leaves import Cron


class Progress(NamedTuple):  # which costs a tenth of a dataclass when a DAG file is parsed
    """What has happened to a leaf since its schedule last launched.

    :param amount: in the leaf's measure.
    :param first_at: when the first of its events happened; ``None`` for no event. Likewise ``last_at``.
    :param reached_at: when there was enough of it for the first time; ``None`` where nobody has kept it.
    """

    amount: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    reached_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a trigger is worth now.

    :param says: for people, such as "3 of 5 partitions".
    :param next_at: when time alone may change it; ``None`` for never.
    :param parts: the judgements that it is made of.
    :param word: ``and`` or ``or``, which joins its parts.
    :param have: how much there is of what is counted, and ``want``: how much there must be; ``None`` where nothing is.
    :param since: the moment that satisfied it: of the event that completed it, of a tick, or at which a time was over.
    :param problem: why no event can satisfy it as things are, where its sources are known; ``None`` when nothing is wrong.
    """

    satisfied: bool
    says: str
    next_at: datetime | None = None
    parts: tuple[Judgement, ...] = ()
    word: str | None = None
    have: int | None = None
    want: int | None = None
    since: datetime | None = None
    problem: str | None = None


class Trigger(Declared):
    """A rule that says when a run is wanted.

    :cvar needs_all: it cannot be satisfied when one of its parts cannot be.
    """

    needs_all: ClassVar[bool] = True

    def leaves(self) -> tuple[Leaf, ...]:
        """What it is made of, each one once, in a fixed order."""
        return tuple(dict.fromkeys(self.walk()))

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        """What it is worth now."""
        raise NotImplementedError

    def walk(self) -> Iterator[Leaf]:
        """Its leaves as they stand, repetitions included."""
        raise NotImplementedError

    def spent(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Leaf]:
        """Yield the leaves whose events satisfied it; none while it is not satisfied."""
        if self.judge(progress, now).satisfied:
            for part in self.parts():
                yield from part.spent(progress, now)

    def unmet(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        """Yield the innermost triggers that keep it from being satisfied."""
        if not self.judge(progress, now).satisfied:
            yield from [lacks for part in self.parts() for lacks in part.unmet(progress, now)] or [self]

    def missing(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        """Yield what a deadline did not wait for."""
        for part in self.parts():
            yield from part.missing(progress, now)

    def parts(self) -> tuple[Trigger, ...]:
        """Return the triggers that it is made of."""
        raise NotImplementedError

    def at_latest(self, by: Cron) -> AtLatest:
        """Return a trigger that waits for this one, but no longer than until the next time of a cron expression.

        :param by: the deadlines, such as ``Cron("0 7 * * 1-5", tz="Europe/Berlin")``. There is one run in the period up to each:
            a launch for whatever reason takes the deadline to the next period.
        """
        from airflow_snowpack.scheduling.composites import AtLatest

        return AtLatest(self, by)

    def __and__(self, other: Trigger) -> AllOf:
        from airflow_snowpack.scheduling.composites import AllOf

        return AllOf.joined(self, other)

    def __or__(self, other: Trigger) -> AnyOf:
        from airflow_snowpack.scheduling.composites import AnyOf

        return AnyOf.joined(self, other)


class Leaf(Trigger):
    """A trigger that listens to events of one key.

    :cvar measure: which of an event's amounts counts; ``events`` counts the events themselves.
    """

    measure: ClassVar[str] = "events"

    @property
    def wanted(self) -> int:
        """How much satisfies it, in its measure."""
        return 1

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        """The key of the events that it listens to.

        :param catalog: what tables belong to.
        :param number: its place among the schedule's leaves.
        """
        raise NotImplementedError

    def walk(self) -> Iterator[Leaf]:
        yield self

    def parts(self) -> tuple[Trigger, ...]:
        return ()

    def spent(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Leaf]:
        if self.judge(progress, now).satisfied:
            yield self

    def _counted(self, progress: Mapping[Leaf, Progress], wanted: int, unit: str) -> Judgement:
        known = progress.get(self, Progress())
        says = f"{known.amount:,} of {wanted:,} {unit}"
        return Judgement(known.amount >= wanted, says, have=known.amount, want=wanted, since=self._since(known))

    def _since(self, known: Progress) -> datetime | None:
        """Since when there is enough of it, if there is."""
        return (known.reached_at or known.last_at) if known.amount >= self.wanted else None


TABLES, CLOCKS = "table:", "clock:"


def table_key(table: TableName) -> str:
    """The key of what is committed to a table."""
    return f"{TABLES}{table}"


def run_key(dag_id: str, state: str) -> str:
    """The key of DAG runs that ended in this state."""
    return f"run:{dag_id}:{state}"


def asset_key(uri: str) -> str:
    """The key of an Airflow asset's events."""
    return f"asset:{uri}"


def custom_key(name: str) -> str:
    """The key of events that are sent from outside."""
    return f"event:{name}"


def clock_key(schedule: str, number: int) -> str:
    """The key of a schedule's own ticks."""
    return f"{CLOCKS}{schedule}:{number}"
