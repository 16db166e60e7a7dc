"""The limits of a pass.

>>> budget = Budget(gb_hours=200, tables=50)
>>> budget.exceeded_by(Estimate(gb_hours=250, seconds=600))
'gb_hours'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import Any, Self

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.maintenance.planning.finding import Estimate
from airflow_snowpack.sizes import parse_bytes


class InvalidBudget(SnowpackError, kind=Kind.INVALID):
    """A limit of the budget is not usable."""

    def __init__(self, limit: str, value: object) -> None:
        super().__init__(f"The budget has {limit} = {value!r}. Use {USAGE[limit]}, or leave it out for no limit.")


class UnknownLimit(SnowpackError, kind=Kind.INVALID):
    """A budget has no such limit."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"A budget has no limit {limit!r}. Use one or more of {', '.join(READERS)}.")


USAGE = {
    "gb_hours": "a number above zero",
    "bytes": "a size such as 500 GiB",
    "tables": "a number above zero",
    "time": "a duration such as 4h",
}
READERS: Mapping[str, Callable[[Any], Any]] = {
    "gb_hours": float,
    "bytes": parse_bytes,
    "tables": int,
    "time": parse_duration,
}


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one pass, which it never exceeds; ``None`` for no limit.

    :param gb_hours: gigabytes of memory times hours of Spark work; a job that would exceed them is stopped.
    :param bytes: estimated bytes rewritten.
    :param tables: tables maintained.
    :param time: from the start of the pass. A worker starts a table only if it should end in time, and stops its job at the end.
    :raises InvalidBudget: a limit is zero, negative or infinite.
    """

    gb_hours: float | None = None
    bytes: int | None = None
    tables: int | None = None
    time: timedelta | None = None

    def __post_init__(self) -> None:
        limits = {"gb_hours": self.gb_hours, "bytes": self.bytes, "tables": self.tables}
        limits["time"] = None if self.time is None else self.time.total_seconds()
        for limit, value in limits.items():
            if value is not None and not (value > 0 and isfinite(value)):
                raise InvalidBudget(limit, value)

    @classmethod
    def parse(cls, limits: Mapping[str, Any]) -> Self:
        """Parse limits such as ``{"gb_hours": 200, "bytes": "500 GiB", "time": "4h"}``.

        :raises InvalidBudget: a limit is unknown or not usable.
        """
        unknown = limits.keys() - READERS.keys()
        if unknown:
            raise UnknownLimit(sorted(unknown)[0])
        given = {limit: value for limit, value in limits.items() if value is not None}
        try:
            return cls(**{(name := limit): READERS[limit](value) for limit, value in given.items()})
        except (TypeError, ValueError, OverflowError):
            raise InvalidBudget(name, limits[name]) from None

    def to_json(self) -> dict[str, float | int | None]:
        """Return the limits as JSON values, the time in seconds."""
        seconds = None if self.time is None else self.time.total_seconds()
        return {"gb_hours": self.gb_hours, "bytes": self.bytes, "tables": self.tables, "time_s": seconds}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        seconds = values["time_s"]
        time = None if seconds is None else timedelta(seconds=seconds)
        return cls(values["gb_hours"], values["bytes"], values["tables"], time)

    def exceeded_by(self, cost: Estimate) -> str | None:
        """Return the limit that one table exceeds even with the whole budget; ``None`` if there is none."""
        if self.gb_hours is not None and cost.gb_hours > self.gb_hours:
            return "gb_hours"
        if self.bytes is not None and cost.bytes_rewritten > self.bytes:
            return "bytes"
        if self.time is not None and cost.seconds > self.time.total_seconds():
            return "time"
        return None
