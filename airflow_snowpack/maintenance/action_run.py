"""One run of an action on a table: its inputs, its effect, and how it changed the table."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, TableChange
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.commits import ACTION, JOB_ID, CommitTrail, remedy_of
from airflow_snowpack.spark import CatalogNotConfigured, SparkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import FootprintMemory, MetadataReader
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.procedures import ProcedureCall
    from airflow_snowpack.maintenance.removals.of_job import JobRemovals
    from airflow_snowpack.spark import SparkWork
    from airflow_snowpack.spark.statements import Statements


log = logging.getLogger(__name__)

REMOVED = "removed_files_count"
NO_PROCEDURES = "does not support procedures"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The inputs of one run of an action, with access to the table and its procedures.

    :param now: the time from which ages are measured.
    :param tries: how often a rewrite is tried when commits of other writers win.
    :param footprints: stored locations of tables' files; ``None``: load all tables when these matter.
    :param removals: the store of removal lists; ``None``: there is none.
    :param reader: the reader of the table that the job's plan used last; ``None``: nothing was planned.
    """

    job_id: str
    name: TableName
    action: str
    statements: Statements
    work: SparkWork
    catalog: Catalog
    now: datetime
    tries: int
    footprints: FootprintMemory | None = None
    removals: JobRemovals | None = None
    reader: MetadataReader | None = None
    attempt: int = 1

    def table(self) -> Table:
        """Load the current table; reads one metadata file.

        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        return load_table(self.catalog, self.name)

    def trail(self, table: Table, branch: str | None = None) -> CommitTrail:
        """Track the commits to a branch from this version of the table on; ``None`` means ``main``."""
        return CommitTrail(self.job_id if self.statements.stamps_commits else None, branch=branch).start(table)

    def call(self, call: ProcedureCall) -> list[dict[str, Any]]:
        """Run the procedure and return its rows.

        :raises SparkInterrupted: the engine was interrupted.
        :raises SparkFailed: the procedure failed.
        """
        return self.work.run(self.statements, lambda: self._stamped(call.of(self.job_id, self.attempt)))

    def ordered(self, call: ProcedureCall, column: str) -> Iterator[dict[str, Any]]:
        """Run a procedure that commits nothing, and return its rows in the order of a column; raises like :meth:`call`."""
        named = call.of(self.job_id, self.attempt)
        return self.work.run(self.statements, lambda: self.statements.ordered_rows(named.sql, named.args, column))

    def refresh(self) -> None:
        """Have Spark read the table again: a session catalog that caches tables would work with outdated metadata."""
        self.work.run(self.statements, lambda: self.statements.rows(f"REFRESH TABLE {self.name.quoted}"))

    def jobs_run(self) -> int | None:
        """Return how many Spark jobs the calls have run so far; ``None`` if unknown."""
        return self.work.jobs_run(self.statements)

    def _stamped(self, call: ProcedureCall) -> list[dict[str, Any]]:
        with self.statements.stamping({JOB_ID: self.job_id, ACTION: self.action}):
            return self.statements.rows(call.sql, call.args)

    def explained(self, error: SparkFailed) -> Exception:
        """Return the error with a remedy; replace Spark's misleading one when the session lacks the catalog."""
        if NO_PROCEDURES in str(error):
            return CatalogNotConfigured(self.name.catalog)
        remedy = remedy_of(error)
        return SparkFailed(f"{remedy}: {error}", error.causes) if remedy else error


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What an action is planned from.

    :param reader: the table's reader, shared by the plans of several actions. It keeps bytes if any option has a ``where``.
    :param catalog: where tables that share the location are looked up.
    :param now: the time from which ages are measured.
    :param footprints: stored locations of tables' files; ``None``: load all tables before orphans are planned.
    """

    reader: MetadataReader
    catalog: Catalog
    now: datetime
    footprints: FootprintMemory | None = None


@dataclass(frozen=True, slots=True)
class ActionEffect:
    """What an action did to the table.

    :param message: for people.
    :param metrics: the procedure's numbers by column name, and further counts.
    :param error: the full cause, unless the action succeeded or was skipped.
    :param final: a retry with the same options would fail again.
    """

    outcome: ActionOutcome
    message: str
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    error: str | None = None
    final: bool = False

    def result(self, action: str, elapsed_seconds: float) -> ActionResult:
        """Return the effect as the job stores it."""
        return ActionResult(action, self.outcome, self.message, elapsed_seconds, self.error, self.metrics, self.final)


class ChangeWatch:
    """Reads a table before and after an action, to find what it changed, for the lineage. Errors are only logged."""

    def __init__(self) -> None:
        self._run: ActionRun | None = None
        self._trail: CommitTrail | None = None
        self._snapshots: frozenset[int] = frozenset()

    def begin(self, run: ActionRun, branch: str | None = None) -> Table:
        """Load the table before the action, and return it.

        :param branch: the branch that the action commits to; ``None`` for ``main``.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog; the action could not begin either.
        """
        table = run.table()
        self._run, self._trail, self._snapshots = run, run.trail(table, branch), snapshot_ids(table)
        return table

    def change(self, effect: ActionEffect) -> TableChange | None:
        """Return what the action changed; ``None`` if it changed nothing, never began, or the change is unknown."""
        if self._run is None or self._trail is None:
            return None
        try:
            table = self._run.table()
        except SnowpackError as error:
            log.warning("What %s did to %s is missing in the lineage: %s", self._run.action, self._run.name, error)
            return None
        own = self._trail.since(table).own
        if own:
            return TableChange(own[0].parent_snapshot_id, own[-1].snapshot_id, table.location())
        expires = self._run.action == Action.EXPIRE_SNAPSHOTS
        removed = self._snapshots - snapshot_ids(table) if expires else effect.metrics.get(REMOVED)
        if not removed:
            return None
        current = table.current_snapshot()
        now_at = current.snapshot_id if current else None
        return TableChange(now_at, now_at, table.location())


def snapshot_ids(table: Table) -> frozenset[int]:
    return frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
