"""The trigger of a schedule that only people start, such as a registered run without a cron."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Self

from airflow_snowpack.scheduling.declared import declaration
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.triggers.trigger import Judgement, Leaf, Progress, Trigger


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
