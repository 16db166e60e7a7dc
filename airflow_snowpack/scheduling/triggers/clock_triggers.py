"""Triggers that need no events: cron expressions, deadlines, periods since the last launch, and by hand only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling.cron import next_tick, parse_cron, parse_zone
from airflow_snowpack.scheduling.declared import as_period, declaration, parse_period
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.triggers.trigger import Clock, Judgement, Leaf, Progress, Trigger


@declaration
class Cron(Clock):
    """A moment of a cron expression came.

    :param expression: five fields, or six with the seconds first.
    :param tz: an IANA zone.
    """

    kind: ClassVar[str] = "cron"
    checks: ClassVar = {"expression": parse_cron, "tz": parse_zone}
    expression: str
    tz: str = "UTC"

    def __str__(self) -> str:
        return f"{self.expression} ({self.tz})"

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        came = (known := progress.get(self, Progress())).amount > 0
        text = f"cron {self} {'is due' if came else 'is not due yet'}"
        return Judgement(came, text, since=self._since(known))

    def next_after(self, moment: datetime) -> datetime:
        return next_tick(self.expression, self.tz, moment)

    def as_deadline(self) -> Deadline:
        return Deadline(self.expression, self.tz)


class Deadline(Cron):
    """The time by which ``at_latest`` starts a run. Any launch moves it to the next period."""

    kind: ClassVar[str] = "deadline"
    restarts: ClassVar[bool] = True

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        passed = (known := progress.get(self, Progress())).amount > 0
        text = f"the deadline {self} has passed" if passed else f"at the latest by {self}"
        return Judgement(passed, text, since=self._since(known))


@declaration
class Every(Clock):
    """A period has passed since the schedule last launched or, before its first launch, since it was enabled."""

    kind: ClassVar[str] = "every"
    fixed: ClassVar[bool] = False
    restarts: ClassVar[bool] = True
    checks: ClassVar = {"period": parse_period}
    period: timedelta | str

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        passed = (known := progress.get(self, Progress())).amount > 0
        text = f"{'' if passed else 'less than '}{duration(as_period(self.period))} since the last launch"
        return Judgement(passed, text, since=self._since(known))

    def next_after(self, moment: datetime) -> datetime:
        return moment + as_period(self.period)


@declaration
class ByHand(Trigger):
    """Never satisfied: a run starts only on request."""

    kind: ClassVar[str] = "by_hand"

    @classmethod
    def from_fields(cls, fields: object) -> Self:
        if fields not in (None, {}):
            raise InvalidSchedule(cls.kind, fields, "it has no fields; write {by_hand: {}}")
        return cls()

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": ["object", "null"], "maxProperties": 0, "description": str(cls.__doc__)}

    def evaluate(self, progress: Mapping[Leaf, Progress], now: datetime) -> Judgement:
        return Judgement(False, "it is started by hand only")
