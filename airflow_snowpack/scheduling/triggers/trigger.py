"""Triggers, their combinations, and the keys of the events that they count.

    PartitionsAdded("analytics.page_views", 5) | BytesAdded("analytics.page_views", "100GB") | Every("4h")

A trigger is evaluated from the time and the sums of its leaves' events since its schedule last launched. The invariant: a
judgement that time alone can change names the time at which it may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple, Self

from airflow_snowpack.humanize import duration
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.declared import Declared, as_period, declaration, parse_choice, parse_period
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.kinds import Kinds

TABLES, CLOCKS = "table:", "clock:"
ALL_CHANGES = ":changes"
"""The suffix of the key of a table's changes; the rest is the key of its arrivals."""


def table_key(table: TableName) -> str:
    """Return the key of the data that arrives in a table."""
    return f"{TABLES}{table}"


def changes_key(table: TableName) -> str:
    """Return the key of all changes of a table's data."""
    return f"{table_key(table)}{ALL_CHANGES}"


def run_key(dag_id: str, state: str) -> str:
    """Return the key of DAG runs that ended in this state."""
    return f"run:{dag_id}:{state}"


def asset_key(uri: str) -> str:
    """Return the key of an Airflow asset's events."""
    return f"asset:{uri}"


def custom_key(name: str) -> str:
    """Return the key of events that other systems send."""
    return f"event:{name}"


def clock_key(schedule: str, number: int) -> str:
    """Return the key of a schedule's ticks for the leaf of this number."""
    return f"{CLOCKS}{schedule}:{number}"


class SourceName(NamedTuple):
    """What a trigger listens to; its ``key`` finds its problems in the store.

    :param kind: ``table``, ``dag``, ``asset``, or that of a :class:`.PolledSource`.
    """

    kind: str
    name: str

    def key(self, catalog: str) -> str:
        return table_key(TableName.parse(self.name, catalog=catalog)) if self.kind == "table" else f"{self.kind}:{self.name}"


class Progress(NamedTuple):  # costs a tenth of a dataclass when a DAG file is parsed
    """The events of a leaf since its schedule last launched.

    :param amount: in the leaf's measure.
    :param first_at: when the first of them happened; ``last_at``: the last. ``None`` without events.
    :param reached_at: when there was first enough, if known.
    """

    amount: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    reached_at: datetime | None = None


class Judgement(NamedTuple):
    """The result of evaluating a trigger.

    :param text: for people, such as "3 of 5 partitions".
    :param next_at: when time alone may change it; ``None`` for never.
    :param parts: the judgements of its children.
    :param word: ``and`` or ``or``, which joins its parts.
    :param have: the counted amount; ``want``: the required amount. ``None`` if nothing is counted.
    :param since: when it was satisfied: by the event that completed it, a tick, or the end of a period.
    :param problem: why no event can currently satisfy it, if its sources are known; ``None`` for no problem.
    """

    satisfied: bool
    text: str
    next_at: datetime | None = None
    parts: tuple[Judgement, ...] = ()
    word: str | None = None
    have: int | None = None
    want: int | None = None
    since: datetime | None = None
    problem: str | None = None

    @property
    def nested(self) -> str:
        """Its text as a part of another one."""
        return f"({self.text})" if self.parts else self.text


class Trigger(Declared):
    """A rule for when a run is wanted; if it ``needs_all``, it cannot be satisfied while one of its children cannot be."""

    needs_all: ClassVar[bool] = True

    def children(self) -> tuple[Trigger, ...]:
        """Return the triggers that it consists of."""
        return ()

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        """Return whether it is satisfied now."""
        raise NotImplementedError

    def leaves(self) -> tuple[Leaf, ...]:
        """Return its leaves, each once, in a fixed order."""
        return tuple(dict.fromkeys(self.walk()))

    def walk(self) -> Iterator[Leaf]:
        """Yield its leaves in order, with repetitions."""
        for child in self.children():
            yield from child.walk()

    def verify(self, dag_id: str = "dag") -> None:
        for number, leaf in enumerate(self.leaves()):
            leaf.event_key("catalog", "schedule", number)

    def spent(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Leaf]:
        """Yield the leaves whose events satisfied it; none while it is not satisfied."""
        if self.evaluate(progress, now).satisfied:
            for child in self.children():
                yield from child.spent(progress, now)

    def unmet(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        """Yield the innermost triggers that keep it from being satisfied."""
        if not self.evaluate(progress, now).satisfied:
            yield from [lacks for child in self.children() for lacks in child.unmet(progress, now)] or [self]

    def missing(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        """Yield what was not satisfied when a deadline started the run."""
        for child in self.children():
            yield from child.missing(progress, now)

    def as_deadline(self) -> Clock:
        """Return the clock of the deadlines that it sets for :meth:`at_latest`.

        :raises ValueError: it sets none.
        """
        raise ValueError('it must be a cron, such as {cron: "0 7 * * 1-5"}; for a period, use `any_of` with `every`')

    def at_latest(self, by: Trigger) -> AtLatest:
        """Return a trigger that waits for this one, but at the latest until the next time of a cron expression.

        :param by: the deadlines, such as ``Cron("0 7 * * 1-5")``. Any launch moves the deadline to the next period.
        """
        return AtLatest(self, by)

    def __and__(self, other: Trigger) -> AllOf:
        return AllOf.joined(self, other)

    def __or__(self, other: Trigger) -> AnyOf:
        return AnyOf.joined(self, other)


class Leaf(Trigger):
    """A trigger that counts events of one key, or the amount of a ``measure`` in them."""

    measure: ClassVar[str] = "events"

    @property
    def wanted(self) -> int:
        """The amount that satisfies it, in its measure."""
        return 1

    @property
    def source(self) -> SourceName | None:
        """The table, DAG, asset or other source whose events it counts, if any."""
        return None

    @property
    def clock(self) -> Clock | None:
        """Its schedule's clock whose ticks it counts, if any."""
        return None

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        """Return the key of the events that it counts; ``number`` is its place among the schedule's leaves."""
        raise NotImplementedError

    def walk(self) -> Iterator[Leaf]:
        yield self

    def spent(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Leaf]:
        if self.evaluate(progress, now).satisfied:
            yield self

    def _since(self, known: Progress) -> datetime | None:
        """Return since when there is enough of it, if there is."""
        return (known.reached_at or known.last_at) if known.amount >= self.wanted else None


class Clock(Leaf):
    """A leaf that counts the ticks of its schedule's clock.

    :cvar fixed: its ticks have fixed times, each once; otherwise the next one is counted from the last launch.
    :cvar restarts: a launch of its schedule moves it to the next tick.
    """

    fixed: ClassVar[bool] = True
    restarts: ClassVar[bool] = False

    @property
    def clock(self) -> Clock:
        return self

    @property
    def is_deadline(self) -> bool:
        """Whether it ticks once in each calendar period without a launch."""
        return self.fixed and self.restarts

    def next_after(self, moment: datetime) -> datetime:
        """Return its next tick after a time: of the calendar, or of the last launch."""
        raise NotImplementedError

    def event_key(self, catalog: str, schedule: str, number: int) -> str:
        return clock_key(schedule, number)


def parse_trigger(value: object) -> Trigger:
    """Return a trigger unchanged, or read it from JSON; :class:`InvalidSchedule` names the invalid field."""
    return TRIGGERS.parse(value)


def _parse_deadline(value: object) -> Trigger:
    by = parse_trigger(value)
    by.as_deadline()
    return by


@declaration
class Since(Trigger):
    """A period has passed since what another trigger waits for has happened.

    :param of: ``last`` restarts the period with each event, so that a burst of arrivals can end first; ``first`` limits the wait.
    """

    kind: ClassVar[str] = "since"
    checks: ClassVar = {"trigger": parse_trigger, "period": parse_period, "of": parse_choice(("first", "last"))}
    trigger: Trigger
    period: timedelta | str
    of: Literal["first", "last"] = "last"

    def children(self) -> tuple[Trigger, ...]:
        return (self.trigger,)

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        inner = self.trigger.evaluate(progress, now)
        text = f"{duration(as_period(self.period))} after the {self.of} of: {inner.text}"
        if not inner.satisfied:
            return Judgement(False, text, inner.next_at, (inner,))
        known = [progress[leaf] for leaf in self.leaves() if leaf in progress]
        moments = [moment for seen in known if (moment := seen.first_at if self.of == "first" else seen.last_at)]
        due = (min(moments) if self.of == "first" else max(moments)) + as_period(self.period)
        if now < due:
            return Judgement(False, text, due, (inner,))
        return Judgement(True, text, None, (inner,), since=max(due, inner.since or due))


@declaration
class AtLatest(Trigger):
    """Another trigger, or the time of a cron expression if the other one is not satisfied by then: one run in each period."""

    kind: ClassVar[str] = "at_latest"
    needs_all: ClassVar[bool] = False
    checks: ClassVar = {"trigger": parse_trigger, "by": _parse_deadline}
    trigger: Trigger
    by: Trigger

    @property
    def deadline(self) -> Clock:
        """The leaf that listens to the clock of the deadline."""
        return self.by.as_deadline()

    def children(self) -> tuple[Trigger, ...]:
        return (self.trigger, self.deadline)

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        parts = inner, deadline = self.trigger.evaluate(progress, now), self.deadline.evaluate(progress, now)
        text = f"{inner.nested}, {deadline.text}"
        since = min((part.since for part in parts if part.since is not None and part.satisfied), default=None)
        satisfied = inner.satisfied or deadline.satisfied
        return Judgement(satisfied, text, None if satisfied else inner.next_at, parts, "or", since=since)

    def unmet(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        if not self.evaluate(progress, now).satisfied:
            yield from self.trigger.unmet(progress, now)

    def missing(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        if self.deadline.evaluate(progress, now).satisfied:
            yield from self.trigger.unmet(progress, now)


@declaration
class Composite(Trigger):
    """Several triggers as one.

    :cvar word: joins their texts.
    :cvar enough: returns whether it is satisfied from whether its triggers are; ``since``: the time from theirs.
    """

    word: ClassVar[str]
    enough: ClassVar[Callable[[Iterable[bool]], bool]]
    since: ClassVar[Callable[..., Any]]
    triggers: tuple[Trigger, ...]

    def __init__(self, *triggers: Trigger) -> None:
        if not triggers:
            raise InvalidSchedule(self.kind, [], "it needs at least one trigger")
        read = []
        for number, trigger in enumerate(triggers):
            try:
                read.append(parse_trigger(trigger))
            except InvalidSchedule as error:
                raise error.below(f"{self.kind}[{number}]") from error
        object.__setattr__(self, "triggers", tuple(read))

    @classmethod
    def joined(cls, *triggers: Trigger) -> Self:
        """Return one trigger of this kind, with the triggers of those of the same kind as its own."""
        return cls(*(inner for trigger in triggers for inner in (trigger.triggers if isinstance(trigger, cls) else (trigger,))))

    @classmethod
    def from_fields(cls, fields: object) -> Self:
        if not isinstance(fields, Iterable) or isinstance(fields, str | Mapping):
            raise InvalidSchedule(cls.kind, fields, "it must be a list of triggers")
        return cls(*fields)

    def to_json(self) -> dict[str, Any]:
        return {self.kind: [trigger.to_json() for trigger in self.triggers]}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "array", "minItems": 1, "items": {"type": "object"}, "description": "Triggers."}

    def children(self) -> tuple[Trigger, ...]:
        return self.triggers

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        parts = tuple(trigger.evaluate(progress, now) for trigger in self.triggers)
        text = f" {self.word} ".join(part.nested for part in parts)
        if not type(self).enough(part.satisfied for part in parts):
            moments = [part.next_at for part in parts if part.next_at is not None and not part.satisfied]
            return Judgement(False, text, min(moments, default=None), parts, self.word)
        from_when = [part.since for part in parts if part.satisfied and part.since is not None]
        return Judgement(True, text, None, parts, self.word, since=type(self).since(from_when, default=None))


class AllOf(Composite):
    """All of these."""

    kind: ClassVar[str] = "all_of"
    word: ClassVar[str] = "and"
    enough = all
    since = max


class AnyOf(Composite):
    """One of these is enough."""

    kind: ClassVar[str] = "any_of"
    needs_all: ClassVar[bool] = False
    word: ClassVar[str] = "or"
    enough = any
    since = min


_HERE = __name__.rpartition(".")[0]
TRIGGERS: Kinds[Trigger] = Kinds(
    Trigger,
    "trigger",
    "airflow_snowpack.triggers",
    {
        f"{_HERE}.event_triggers": (
            *("partitions_added", "bytes_added", "files_added", "records_added", "commits_added"),
            *("runs_succeeded", "runs_failed", "asset_events", "custom_events"),
        ),
        f"{_HERE}.clock_triggers": ("cron", "every", "by_hand"),
        __name__: ("since", "at_latest", "all_of", "any_of"),
    },
)
