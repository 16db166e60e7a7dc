"""The report of a pass: its numbers, the causes of failures, and what waits and why.

report = PassReport.of(planned, passes.entries(planned.pass_id), now)
report.lines()          # for the log, and for a notifier
report.to_json()        # for XCom, and in the store once the pass has ended
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from airflow_snowpack.humanize import duration, join, number, plural, sentence, size
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry
from airflow_snowpack.maintenance.options import rewrites_files
from airflow_snowpack.maintenance.planning.finding import Estimate

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.writers import DagsOfTables

MAX_LISTED = 50
"""How many tables of each outcome a report names; its numbers count all."""
MAX_NAMED = 3
"""How many tables of one cause a line names."""
MAX_CAUSES = 20
"""How many causes of each outcome a report has; the outcome's last line counts the others."""
MAX_CAUSE = 200
"""The maximum characters of a cause."""
MAX_EXAMPLE = 4_000
"""The maximum characters of an error in XCom."""
MAX_REASON = 500
"""The maximum characters of a reason in a line."""
VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\b[a-z0-9]+://\S+|(?<![\w.])/[\w./=%+-]+|\b[0-9a-f]{8}[0-9a-f-]{8,}\b|\d+")
"""What differs between errors of the same cause: quoted names, addresses, paths, ids and numbers."""
PARTED = re.compile(r"…(?:[.:/-]?…)+")
"""The remains of an IP address, a time or a version."""


def cause_of(error: str, table: TableName) -> str:
    """Return an error without the details of one table, so that errors of the same cause are equal."""
    line = error.strip().partition("\n")[0]
    cause = PARTED.sub("…", VARIABLE.sub("…", line.replace(str(table), "…").replace(table.dotted, "…")))
    return cause if len(cause) <= MAX_CAUSE else f"{cause[: MAX_CAUSE - 1]}…"


@dataclass(frozen=True, slots=True)
class ReportGroup:
    """Tables with the same cause, as :func:`cause_of` returns it, and the full reason of the first one as an example."""

    cause: str
    example: str
    tables: tuple[str, ...]
    job_ids: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the group as JSON values, with at most :data:`MAX_LISTED` tables."""
        listed = {"tables": list(self.tables[:MAX_LISTED]), "job_ids": list(self.job_ids[:MAX_LISTED])}
        return {"cause": self.cause, "example": self.example[:MAX_EXAMPLE], "count": len(self.tables), **listed}

    def line(self) -> str:
        more = len(self.tables) - MAX_NAMED
        named = [*self.tables[:MAX_NAMED], f"{more} more"] if more > 0 else self.tables
        reason = sentence(self.example)
        return f"{join(named)}: {reason if len(reason) <= MAX_REASON else f'{reason[:MAX_REASON]}…'}"


@dataclass(frozen=True, slots=True)
class PassReport:
    """The report of a pass.

    :param counts: of tables: those of the plan (``listed``, ``excluded``, ``unchanged``, ``healthy``), and one for each entry
        state.
    :param spent: by the ended jobs; ``estimated`` is the plan's estimate of the same jobs.
    :param failed, waiting, unreadable: grouped by cause, the largest group first.
    :param failed_writers: by DAG and table, failed runs during a rewrite of a table that they write to; Airflow does not show
        whether the rewrite was the cause.
    """

    pass_id: str
    started_at: datetime
    seconds: float
    has_ended: bool
    counts: Mapping[str, int]
    spent: Estimate
    estimated: Estimate
    failed: tuple[ReportGroup, ...] = ()
    waiting: tuple[ReportGroup, ...] = ()
    unreadable: tuple[ReportGroup, ...] = ()
    failed_writers: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, planned: Pass, entries: Sequence[PassEntry], now: datetime, dags: DagsOfTables | None = None) -> Self:
        """Return the current report of a pass; ``dags`` write to its tables, ``None`` omits them."""
        states = Counter(entry.state for entry in entries)
        planned_counts = {name: planned.counts.get(name, 0) for name in ("listed", "excluded", "unchanged", "healthy")}
        # Jobs cancelled before they ran also have an outcome, without any work.
        spent = [entry for entry in entries if entry.spent is not None]
        ended = [entry for entry in spent if entry.state is not EntryState.WAITING or entry.spent != Estimate()]
        return cls(
            pass_id=planned.pass_id,
            started_at=planned.started_at,
            seconds=((planned.ended_at or now) - planned.started_at).total_seconds(),
            has_ended=planned.ended_at is not None,
            counts=planned_counts | {state.value: states[state] for state in EntryState},
            spent=sum((entry.spent for entry in ended if entry.spent), Estimate()),
            estimated=sum((entry.estimate for entry in ended), Estimate()),
            failed=_grouped(entries, EntryState.FAILED),
            waiting=_grouped(entries, EntryState.WAITING),
            unreadable=_grouped(entries, EntryState.UNREADABLE),
            failed_writers={} if dags is None else _failed_writers(ended, dags),
        )

    def lines(self) -> list[str]:
        """Return the report as text: one line with what was done, then one for each outcome and cause."""
        counts, unfinished = self.counts, self.counts["chosen"] + self.counts["submitted"]
        listed = plural(counts["listed"], "table")
        lines = [
            f"{listed}: {number(counts['unchanged'])} unchanged, {number(counts['healthy'])} healthy, "
            f"{number(counts['maintained'])} maintained, {number(counts['failed'])} failed, {number(counts['waiting'])} waiting",
        ]
        if counts["excluded"]:
            lines.append(f"{plural(counts['excluded'], 'table')} excluded by policies")
        if counts["maintained"] or counts["failed"] or self.spent != Estimate():
            lines.append(f"{_amounts(self.spent)} in {duration(self.seconds)} (estimate: {_amounts(self.estimated)})")
        for label, groups in (("Failed", self.failed), ("Waiting", self.waiting), ("Unreadable", self.unreadable)):
            lines += [f"{label}: {plural(len(group.tables), 'table')}: {group.line()}" for group in groups[:MAX_CAUSES]]
            if rest := groups[MAX_CAUSES:]:
                tables = plural(sum(len(group.tables) for group in rest), "table")
                lines.append(f"{label}: {tables} for {plural(len(rest), 'more cause', 'more causes')}")
        if self.failed_writers:
            named = [f"{dag_id} ({table})" for dag_id, table in self.failed_writers][:MAX_NAMED]
            more = len(self.failed_writers) - len(named)
            runs = plural(sum(self.failed_writers.values()), "run")
            lines.append(
                f"Writers: {runs} of DAGs failed while a table that they write to was rewritten: "
                f"{join([*named, f'{more} more'] if more else named)}. A rewrite may have refused their commits."
            )
        if counts["gone"]:
            lines.append(f"Gone: {plural(counts['gone'], 'table')} dropped or renamed after the plan")
        if unfinished:
            lines.append(
                f"Not ended: {plural(unfinished, 'table')}: a worker still runs, or was lost and the sweep requeues its job"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        return {
            "pass_id": self.pass_id,
            "started_at": self.started_at.isoformat(),
            "seconds": self.seconds,
            "ended": self.has_ended,
            "counts": dict(self.counts),
            "spent": _cost_json(self.spent),
            "estimated": _cost_json(self.estimated),
            "files_removed": self.spent.files_removed,
            "files_removed_estimated": self.estimated.files_removed,
            "failed": [group.to_json() for group in self.failed[:MAX_CAUSES]],
            "waiting": [group.to_json() for group in self.waiting[:MAX_CAUSES]],
            "unreadable": [group.to_json() for group in self.unreadable[:MAX_CAUSES]],
            "failed_writers": [
                {"dag_id": dag_id, "table": table, "runs": runs}
                for (dag_id, table), runs in list(self.failed_writers.items())[:MAX_LISTED]
            ],
            "text": "\n".join(self.lines()),
        }


def _amounts(cost: Estimate) -> str:
    return f"{plural(cost.files_removed, 'file')} removed, {size(cost.bytes_rewritten)} rewritten, {cost.gb_hours:.2f} GB·h"


def _failed_writers(entries: Iterable[PassEntry], dags: DagsOfTables) -> Mapping[tuple[str, str], int]:
    """Count the failed runs during the jobs of these entries, highest count first."""
    found = Counter[tuple[str, str]]()
    for entry in entries:
        if entry.ended_at is None or entry.spent is None or not rewrites_files(entry.evidence):
            continue
        began = entry.ended_at - timedelta(seconds=entry.spent.seconds)
        found.update((run.dag_id, entry.table.dotted) for run in dags.failed_beside(entry.table, began, entry.ended_at))
    return dict(found.most_common())


def _cost_json(cost: Estimate) -> dict[str, float | int]:
    return {"gb_hours": cost.gb_hours, "bytes": cost.bytes_rewritten, "seconds": cost.seconds}


def _grouped(entries: Sequence[PassEntry], state: EntryState) -> tuple[ReportGroup, ...]:
    groups: defaultdict[str, list[PassEntry]] = defaultdict(list)
    for entry in entries:
        if entry.state is state:
            groups[cause_of(entry.reason or "", entry.table)].append(entry)
    made = [
        ReportGroup(
            cause,
            members[0].reason or "",
            tuple(entry.table.dotted for entry in members),
            tuple(entry.job_id for entry in members if entry.job_id),
        )
        for cause, members in groups.items()
    ]
    return tuple(sorted(made, key=lambda group: (-len(group.tables), group.cause)))
