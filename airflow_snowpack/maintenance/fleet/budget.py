"""What a pass may cost, and what the maintenance of one table is estimated to cost.

>>> budget = Budget(gb_hours=200, tables=50)
>>> Cost(gb_hours=250, bytes=0, seconds=600).beyond(budget)
'gb_hours'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from airflow_snowpack.errors import Kind, SnowpackError


class InvalidBudget(SnowpackError, kind=Kind.INVALID):
    """A limit of the budget is not usable."""

    def __init__(self, limit: str, value: object) -> None:
        super().__init__(f"The budget has {limit} = {value!r}. Use a number above zero, or leave it out for no limit.")


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one pass; ``None`` for no limit. A pass exceeds none of them.

    :param gb_hours: gigabytes of memory times hours of Spark work, by estimate.
    :param bytes: bytes rewritten, by estimate.
    :param tables: tables maintained.
    :param time: from the start of the pass; a worker starts no table that is not estimated to end before.
    :raises InvalidBudget: a limit is zero or negative.
    """

    gb_hours: float | None = None
    bytes: int | None = None
    tables: int | None = None
    time: timedelta | None = None

    def __post_init__(self) -> None:
        limits = {"gb_hours": self.gb_hours, "bytes": self.bytes, "tables": self.tables}
        limits["time"] = None if self.time is None else self.time.total_seconds()
        for limit, value in limits.items():
            if value is not None and not value > 0:
                raise InvalidBudget(limit, value)

    def to_json(self) -> dict[str, float | int | None]:
        """Return the limits as JSON values, the time in seconds."""
        seconds = None if self.time is None else self.time.total_seconds()
        return {"gb_hours": self.gb_hours, "bytes": self.bytes, "tables": self.tables, "time_s": seconds}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the budget that :meth:`to_json` wrote."""
        seconds = values["time_s"]
        time = None if seconds is None else timedelta(seconds=seconds)
        return cls(values["gb_hours"], values["bytes"], values["tables"], time)


@dataclass(frozen=True, slots=True)
class Cost:
    """What the maintenance of one table costs, by estimate or in fact.

    :param bytes: bytes rewritten.
    :param seconds: wall-clock time of one worker.
    """

    gb_hours: float = 0.0
    bytes: int = 0
    seconds: float = 0.0

    def beyond(self, budget: Budget) -> str | None:
        """Return the limit that this cost alone exceeds; ``None`` if a whole budget allows it."""
        if budget.gb_hours is not None and self.gb_hours > budget.gb_hours:
            return "gb_hours"
        if budget.bytes is not None and self.bytes > budget.bytes:
            return "bytes"
        if budget.time is not None and self.seconds > budget.time.total_seconds():
            return "time"
        return None


NOTHING = Cost()
