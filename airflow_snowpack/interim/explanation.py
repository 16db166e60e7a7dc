"""Why an interim table still exists, and what the collector does next: one answer for the pages, API, CLI and reports.

    explanation = explain(registry.table(table_id), now)
    explanation.outlook, str(explanation.sentence)   # Outlook.STAYS, 'Needed by flights/r1/report, which has not finished …'

It reads the registry and does not query Airflow: a consumer counts as unfinished until a pass of the collector has found it
finished. Invariant: a table stays exactly if there is a reason, and every reason is listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_snowpack.humanize import Text, plural
from airflow_snowpack.interim.model import InterimTable, TableState
from airflow_snowpack.interim.names import Scope
from airflow_snowpack.preservation import Preservation

MAX_CONSUMERS_SHOWN = 5


class Outlook(StrEnum):
    """What the collector's next pass does with a table, unless Airflow reports a change."""

    STAYS = "stays"
    GOES = "goes"


@dataclass(frozen=True, slots=True)
class InterimExplanation:
    """What happens to a table and why, in full sentences, each of which suffices for a table that stays."""

    outlook: Outlook
    reasons: tuple[Text, ...]

    @property
    def sentence(self) -> Text:
        """All reasons as one text."""
        return Text(*[part for reason in self.reasons for part in (" ", *reason.parts)][1:])


def explain(table: InterimTable, now: datetime) -> InterimExplanation:
    if table.state is TableState.DROPPING:
        tries = plural(table.drops, "attempt")
        failed = f"The collector has failed to drop it in {tries} and retries. The last error: {table.error}"
        return InterimExplanation(Outlook.GOES, (Text("The collector is dropping it." if table.error is None else failed),))
    if table.state is TableState.WRITING:
        return _writing(table, now)
    is_past = table.expires_at is not None and table.expires_at <= now
    found = (_needed(table), _read(table), None if is_past else _preserved(table), _named(table, is_past))
    if reasons := tuple(reason for reason in found if reason):
        return InterimExplanation(Outlook.STAYS, reasons)
    return InterimExplanation(Outlook.GOES, (Text("No task needs it any more: the collector drops it at its next pass."),))


def _writing(table: InterimTable, now: datetime) -> InterimExplanation:
    this_try = f"try {table.try_number} of {table.producer.task}"
    if table.lease_until is None:
        superseded = f"Another attempt writes this output now; the collector drops the table of {this_try}."
        return InterimExplanation(Outlook.GOES, (Text(superseded),))
    if table.lease_until > now:
        return InterimExplanation(Outlook.STAYS, (Text(f"It is being written by {this_try}."),))
    silent = f"It was being written by {this_try}, whose lease has expired. The collector drops it when Airflow reports that "
    return InterimExplanation(Outlook.STAYS, (Text(f"{silent}this try has ended."),))


def _needed(table: InterimTable) -> Text | None:
    if not table.pins:
        return None
    more = len(table.pins) - MAX_CONSUMERS_SHOWN
    consumers = ", ".join(table.pins[:MAX_CONSUMERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    have = "has" if len(table.pins) == 1 else "have"
    return Text(f"Needed by {consumers}, which {have} not finished for good according to Airflow.")


def _read(table: InterimTable) -> Text | None:
    if table.readers:
        return Text("A task is reading it." if table.readers == 1 else f"{table.readers} tasks are reading it.")
    if not table.silent_readers:
        return None
    silent = table.silent_readers
    readers = "A task that was reading it has" if silent == 1 else f"{silent} tasks that were reading it have"
    until = "until the lease has expired and Airflow reports that the task has ended"
    return Text(f"{readers} missed several heartbeats. It stays {until}.")


def _preserved(table: InterimTable) -> Text | None:
    if table.preservation is not Preservation.FULL:
        return None
    until = ("without end",) if table.expires_at is None else ("until ", table.expires_at)
    return Text("Preserved ", *until, f". `airflow snowpack interim drop {table.table_id}` releases it.")


def _named(table: InterimTable, is_past: bool) -> Text | None:
    if not table.is_named:
        return None
    if table.scope is Scope.RUN:
        return Text(f"The name {table.name!r} points to it until its DAG run ends.")
    until = () if table.expires_at is None else (", until ", table.expires_at, " at the latest")
    points = f"The global name {table.name!r} points to it until another table takes the name"
    return None if is_past else Text(points, *until, ".")
