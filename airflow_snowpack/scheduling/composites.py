"""Triggers made of triggers, and reading any trigger from its JSON.

PartitionsAdded("analytics.page_views", 5) | BytesAdded("analytics.page_views", "100GB") | Every("4h")
(PartitionsAdded("web.a") & PartitionsAdded("web.b")).at_latest(Cron("0 7 * * 1-5", tz="Europe/Berlin"))
Since(PartitionsAdded("analytics.page_views"), "30m")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, Self

from airflow_snowpack.scheduling.declared import declaration, parse_choice, parse_period
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.leaves import LEAVES, Cron, Deadline
from airflow_snowpack.scheduling.trigger import Judgement, Leaf, Progress, Trigger


@declaration
class Since(Trigger):
    """So long a time has passed since what another trigger waits for has happened.

    :param of: ``last`` starts the time anew with each event, so that a burst of arrivals can end first; ``first`` does
    not, so
        that waiting has a limit.
    """

    kind: ClassVar[str] = "since"
    trigger: Trigger
    period: timedelta | str
    of: Literal["first", "last"] = "last"

    def __post_init__(self) -> None:
        self._read("trigger", parse_trigger)
        self._read("period", parse_period)
        self._read("of", parse_choice("first", "last"))

    def parts(self) -> tuple[Trigger, ...]:
        return (self.trigger,)

    def walk(self) -> Iterator[Leaf]:
        return self.trigger.walk()

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        inner = self.trigger.judge(progress, now)
        said = f"{self.period} since the {self.of} of: {inner.says}"
        if not inner.satisfied:
            return Judgement(False, said, inner.next_at, (inner,))
        known = [progress[leaf] for leaf in self.leaves() if leaf in progress]
        moments = [moment for seen in known if (moment := seen.first_at if self.of == "first" else seen.last_at)]
        assert isinstance(self.period, timedelta), "checked when it was made"
        due = (min(moments) if self.of == "first" else max(moments)) + self.period
        if now < due:
            return Judgement(False, said, due, (inner,))
        return Judgement(True, said, None, (inner,), since=max(due, inner.since or due))


@declaration
class AtLatest(Trigger):
    """Another trigger, or the time of a cron expression if the other one is not satisfied by then: one run in each period."""

    kind: ClassVar[str] = "at_latest"
    needs_all: ClassVar[bool] = False
    trigger: Trigger
    by: Cron

    def __post_init__(self) -> None:
        self._read("trigger", parse_trigger)
        self._read("by", _parse_deadline)

    def parts(self) -> tuple[Trigger, ...]:
        return (self.trigger, self.deadline)

    @property
    def deadline(self) -> Deadline:
        """The leaf that listens to the clock of the deadline."""
        return Deadline(self.by.expression, self.by.tz)

    def walk(self) -> Iterator[Leaf]:
        yield from self.trigger.walk()
        yield self.deadline

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        parts = inner, deadline = self.trigger.judge(progress, now), self.deadline.judge(progress, now)
        says = f"{f'({inner.says})' if inner.parts else inner.says}, {deadline.says}"
        since = min((part.since for part in parts if part.since is not None and part.satisfied), default=None)
        satisfied = inner.satisfied or deadline.satisfied
        return Judgement(satisfied, says, None if satisfied else inner.next_at, parts, "or", since=since)

    def unmet(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        if not self.judge(progress, now).satisfied:
            yield from self.trigger.unmet(progress, now)

    def missing(self, progress: Mapping[Leaf, Progress], now: datetime) -> Iterator[Trigger]:
        if self.deadline.judge(progress, now).satisfied:
            yield from self.trigger.unmet(progress, now)


class Composite(Trigger):
    """Several triggers as one."""

    triggers: tuple[Trigger, ...]
    word: ClassVar[str]

    def __init__(self, *triggers: Trigger) -> None:
        self._set(triggers)

    @classmethod
    def joined(cls, *triggers: Trigger) -> Self:
        """One of this kind, into which those of the same kind are taken up."""
        return cls(*(inner for trigger in triggers for inner in (trigger.triggers if isinstance(trigger, cls) else (trigger,))))

    def _set(self, triggers: tuple[Any, ...]) -> None:
        if not triggers:
            raise InvalidSchedule(self.kind, [], "it needs at least one trigger")
        read = []
        for number, trigger in enumerate(triggers):
            try:
                read.append(parse_trigger(trigger))
            except InvalidSchedule as error:
                raise error.below(f"{self.kind}[{number}]") from error
        object.__setattr__(self, "triggers", tuple(read))

    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    def walk(self) -> Iterator[Leaf]:
        for trigger in self.triggers:
            yield from trigger.walk()

    def _judge(self, progress: Mapping[Leaf, Progress], now: datetime, *, satisfied: Any, since: Any) -> Judgement:
        parts = tuple(trigger.judge(progress, now) for trigger in self.triggers)
        enough = bool(satisfied(part.satisfied for part in parts))
        moments = [part.next_at for part in parts if part.next_at is not None and not part.satisfied]
        says = f" {self.word} ".join(f"({part.says})" if part.parts else part.says for part in parts)
        if not enough:
            return Judgement(False, says, min(moments, default=None), parts, self.word)
        from_when = [part.since for part in parts if part.satisfied and part.since is not None]
        return Judgement(True, says, None, parts, self.word, since=since(from_when, default=None))

    def to_json(self) -> dict[str, Any]:
        return {self.kind: [trigger.to_json() for trigger in self.triggers]}


@declaration
class AllOf(Composite):
    """All of these."""

    kind: ClassVar[str] = "all_of"
    word: ClassVar[str] = "and"
    triggers: tuple[Trigger, ...]

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._judge(progress, now, satisfied=all, since=max)


@declaration
class AnyOf(Composite):
    """One of these is enough."""

    kind: ClassVar[str] = "any_of"
    needs_all: ClassVar[bool] = False
    word: ClassVar[str] = "or"
    triggers: tuple[Trigger, ...]

    def judge(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return self._judge(progress, now, satisfied=any, since=min)


COMPOSITES: dict[str, type[AllOf] | type[AnyOf]] = {AllOf.kind: AllOf, AnyOf.kind: AnyOf}
BY_KIND: dict[str, type[Trigger]] = {**{leaf.kind: leaf for leaf in LEAVES}, Since.kind: Since, AtLatest.kind: AtLatest}


def _parse_deadline(said: object) -> Cron:
    by = parse_trigger(said)
    if not isinstance(by, Cron):
        raise ValueError('it must be a cron, such as {cron: "0 7 * * 1-5"}; for a period, use `any_of` with `every`')
    return by


def parse_trigger(said: object) -> Trigger:
    """A trigger as it is, or from its JSON: one name with its fields, or with a list for ``all_of`` and ``any_of``.

    :raises InvalidSchedule: it is none, with the field that is to blame.
    """
    if isinstance(said, Trigger):
        return said
    if not isinstance(said, Mapping) or len(said) != 1:
        raise InvalidSchedule("trigger", said, "it must be one trigger: a name with its fields, such as {every: 4h}")
    ((kind, body),) = said.items()
    if kind in COMPOSITES:
        if not isinstance(body, Iterable) or isinstance(body, str | Mapping):
            raise InvalidSchedule(kind, body, "it must be a list of triggers")
        return COMPOSITES[kind](*body)
    if kind not in BY_KIND:
        raise InvalidSchedule("trigger", kind, f"it is not known; use {', '.join([*BY_KIND, *COMPOSITES])}")
    return BY_KIND[kind].from_fields(body)
