"""The definitions of schedules, each parsed once while a round of the checker lasts.

    definitions = Definitions(rows)
    definitions.known("nightly")                          # None when it cannot be read
    definitions.read("nightly", row.definition)           # parsed again only when it has changed since

To parse a schedule costs more than all the rest of its evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.schedule import Schedule


class Definitions:
    """Some schedules by name.

    :param read: their names and what is stored of them.
    """

    def __init__(self, read: Iterable[tuple[str, Any]]) -> None:
        self._parsed: dict[str, tuple[Any, Schedule | None]] = {name: (said, _readable(said)) for name, said in read}

    @property
    def readable(self) -> list[Schedule]:
        """Those that this version can read."""
        return [schedule for _, schedule in self._parsed.values() if schedule is not None]

    def read(self, name: str, said: Any) -> Schedule:
        """Return the schedule that is stored so.

        :raises InvalidSchedule: it cannot be read.
        """
        known, schedule = self._parsed.get(name, (None, None))
        return schedule if schedule is not None and known == said else Schedule.from_json(said)


def _readable(said: object) -> Schedule | None:
    try:
        return Schedule.from_json(said)
    except InvalidSchedule:
        return None  # said when its job is evaluated
