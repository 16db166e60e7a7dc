"""The results of an assessment: a row for each table, and the totals of the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from airflow_snowpack.humanize import number, plural, size
from airflow_snowpack.iceberg.health import ScorePart, TableHealth
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.options import rewrites_files
from airflow_snowpack.maintenance.planning import Decision, Estimate


class State(StrEnum):
    """Whether a table needs maintenance."""

    NEEDS_MAINTENANCE = "needs_maintenance"
    HEALTHY = "healthy"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class TableAssessment:
    """One table.

    :param table: ``database.table``.
    :param metadata_location: the metadata file that was read; empty if the table could not be loaded.
    :param health: ``None`` for an unreadable table.
    :param score: from 0 (sick) to 100 (healthy); ``None`` without health.
    :param parts: the parts of the score.
    :param needs: the actions that the policy would run if it had no windows, limits or exclusions; without actions whose need no
        metadata shows, such as ``remove_orphan_files``.
    :param blockers: what blocks or limits maintenance; one sentence each, without a full stop.
    :param problem: why the table cannot be read; ``None`` if it can.
    """

    table: str
    metadata_location: str = ""
    health: TableHealth | None = None
    score: int | None = None
    parts: tuple[ScorePart, ...] = ()
    needs: tuple[Decision, ...] = ()
    blockers: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def state(self) -> State:
        """Whether the policy would run an action now."""
        if self.problem is not None:
            return State.UNREADABLE
        return State.NEEDS_MAINTENANCE if self.needs else State.HEALTHY

    @property
    def wrong(self) -> tuple[str, ...]:
        """The evidence of the score's parts that lose points, worst first."""
        lost = sorted((part for part in self.parts if part.points < part.of), key=lambda part: part.points - part.of)
        return tuple(part.evidence for part in lost)

    @cached_property
    def estimate(self) -> Estimate:
        """The sum over the actions that the table needs."""
        return sum(self._estimates.values(), Estimate())

    @property
    def _estimates(self) -> dict[str, Estimate]:
        return {need.action: need.estimate for need in self.needs if need.estimate}

    @property
    def files(self) -> int:
        """Data and delete files now, as planned by a query over the whole table."""
        return self.health.data_files + self.health.delete_files if self.health else 0

    @cached_property
    def files_saved(self) -> int:
        """How many fewer files a query over the current snapshot plans with."""
        found = (estimate for action, estimate in self._estimates.items() if rewrites_files([action]))
        return max(sum(each.files_removed - each.files_added for each in found), 0)

    @property
    def manifests(self) -> int:
        """Manifests of the current snapshot, all of which a query over the whole table opens."""
        return self.health.data_manifests + self.health.delete_manifests if self.health else 0

    @cached_property
    def manifests_saved(self) -> int:
        """How many fewer manifests remain, including those that earlier rewrites of files merge."""
        left = self._estimates.get(Action.REWRITE_MANIFESTS, Estimate()).files_added
        return max(self.manifests - left, 0) if left else 0

    @property
    def planning_saved(self) -> float:
        """The share of files and manifests that a query over the whole table no longer plans with, from 0 to 1."""
        work = self.files + self.manifests
        return (self.files_saved + self.manifests_saved) / work if work else 0.0

    @property
    def savings(self) -> tuple[str, ...]:
        """What maintenance would save, for people: each number that is not zero."""
        total = len(self.health.snapshots) if self.health else 0
        counts = (
            (self.files_saved, self.files, "file"),
            (self.manifests_saved, self.manifests, "manifest"),
            (self.estimate.snapshots_expired, total, "snapshot"),
        )
        counted = tuple(f"{number(saved)} of {plural(before, noun)}" for saved, before, noun in counts if saved)
        freed = self.estimate.bytes_freed
        return (*counted, size(freed)) if freed else counted


@dataclass(frozen=True)
class Assessment:
    """A catalog, or its assessed part.

    :param rows: a row for each table: those that need maintenance first, by need; then unreadable ones; then healthy ones.
    :param left_out: listed tables and namespaces that were not assessed, with the reason.
    :param read: how many tables were read; the resume file had the others.
    :param old_snapshots: whether the manifests of expirable snapshots were read, for the bytes that expiry would free.
    """

    catalog: str
    made_at: datetime
    rows: tuple[TableAssessment, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    read: int = 0
    old_snapshots: bool = True

    def of(self, state: State) -> tuple[TableAssessment, ...]:
        """Return the rows of one state, in order."""
        return tuple(row for row in self.rows if row.state is state)

    @property
    def in_need(self) -> tuple[TableAssessment, ...]:
        """The tables that need maintenance, most need first."""
        return self.of(State.NEEDS_MAINTENANCE)

    @cached_property
    def estimate(self) -> Estimate:
        return sum((row.estimate for row in self.rows), Estimate())

    @cached_property
    def files(self) -> int:
        return sum(row.files for row in self.rows)

    @cached_property
    def files_saved(self) -> int:
        return sum(row.files_saved for row in self.rows)

    @cached_property
    def manifests(self) -> int:
        return sum(row.manifests for row in self.rows)

    @cached_property
    def manifests_saved(self) -> int:
        return sum(row.manifests_saved for row in self.rows)


def ranked(rows: list[TableAssessment]) -> tuple[TableAssessment, ...]:
    """Sort rows by need: the lowest score first, then by files and manifests saved."""
    order = {State.NEEDS_MAINTENANCE: 0, State.UNREADABLE: 1, State.HEALTHY: 2}

    def need(row: TableAssessment) -> tuple[int, int, int, str]:
        return order[row.state], row.score if row.score is not None else 0, -row.files_saved - row.manifests_saved, row.table

    return tuple(sorted(rows, key=need))
