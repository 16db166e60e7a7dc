"""Why an interim table is still there, and what the collector does with it next, in words: one answer for every face.

    standing = standing_of(registry.table(table_id), now)
    standing.outlook, standing.because      # Outlook.STAYS, ('It is needed by flights/r1/report, which …',)

It reads what is on record and asks Airflow nothing: a consumer counts as unfinished until a pass of the collector has heard that
it is finished. The invariant: a table stays exactly if there is a reason, and the reason is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.preservation import Preservation

SHOWN = 5
"""So many consumers are named in a sentence."""


class Outlook(StrEnum):
    """What the next pass of the collector makes of a table, unless Airflow tells it something new."""

    STAYS = "stays"
    GOES = "goes"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a table stands.

    :param because: whole sentences; for a table that stays each of them alone is enough.
    """

    outlook: Outlook
    because: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """All of it."""
        return " ".join(self.because)


def standing_of(table: InterimTable, now: datetime) -> Standing:
    """Where it stands at this moment."""
    if table.state is TableState.DROPPING:
        return Standing(Outlook.GOES, (_dropping(table),))
    if table.state is TableState.WRITING:
        return _writing(table, now)
    reasons = tuple(reason for reason in (_needed(table), _read(table), _preserved(table, now), _named(table, now)) if reason)
    if reasons:
        return Standing(Outlook.STAYS, reasons)
    return Standing(Outlook.GOES, ("Nobody needs it any more: the collector drops it at its next pass.",))


def _dropping(table: InterimTable) -> str:
    if table.error is None:
        return "The collector is dropping it."
    times = "once" if table.drops == 1 else f"{table.drops} times"
    return f"The collector has tried {times} to drop it and tries again: {table.error}"


def _writing(table: InterimTable, now: datetime) -> Standing:
    this_try = f"try {table.try_number} of {_of(table)}"
    if table.lease_until is None:
        return Standing(Outlook.GOES, (f"Another attempt makes this output now: what {this_try} has left goes soon.",))
    if table.lease_until > now:
        return Standing(Outlook.STAYS, (f"It is being made by {this_try}.",))
    return Standing(
        Outlook.STAYS,
        (f"It was being made by {this_try}, not heard of lately: it goes when Airflow says that this try is over.",),
    )


def _needed(table: InterimTable) -> str | None:
    if not table.pins:
        return None
    more = f" and {len(table.pins) - SHOWN} more" if len(table.pins) > SHOWN else ""
    which = "each of which Airflow has" if len(table.pins) > 1 else "which Airflow has"
    return f"It is needed by {', '.join(table.pins[:SHOWN])}{more}, {which} not said to be finished for good."


def _read(table: InterimTable) -> str | None:
    if table.readers:
        return "A task is reading it." if table.readers == 1 else f"{table.readers} tasks are reading it."
    if not table.silent_readers:
        return None
    tasks = (
        "A task that was reading it has"
        if table.silent_readers == 1
        else f"{table.silent_readers} tasks that were reading it have"
    )
    return f"{tasks} not reported lately: it stays until the lease is over and Airflow says that the task has ended."


def _preserved(table: InterimTable, now: datetime) -> str | None:
    if table.preservation is not Preservation.FULL or _is_past(table, now):
        return None
    until = f"until {_moment(table.expires_at)}" if table.expires_at else "until somebody lets go of it"
    return f"It is preserved {until} (`airflow snowpack interim drop {table.table_id}` lets go of it)."


def _named(table: InterimTable, now: datetime) -> str | None:
    if not table.is_named or table.name is None:
        return None
    if table.scope is Scope.RUN:
        return f"It is what the name {table.name!r} means in its DAG run, until that is over."
    if _is_past(table, now):
        return None
    until = f", until {_moment(table.expires_at)} at the latest" if table.expires_at else ""
    return f"It is what the name {table.name!r} means everywhere, until another table takes the name{until}."


def _is_past(table: InterimTable, now: datetime) -> bool:
    return table.expires_at is not None and table.expires_at <= now


def _of(table: InterimTable) -> str:
    producer = table.producer
    mapped = f"[{producer.map_index}]" if producer.map_index >= 0 else ""
    return f"{producer.dag_id}/{producer.run_id}/{producer.task_id}{mapped}"


def _moment(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
