"""One action of one job on one table: what it needs to do its work, what it did, and what that changed of the table."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg import load_table
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult, TableChange
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.commits import CommitTrail, exhausted, stamped
from airflow_snowpack.spark import CatalogNotConfigured, SparkFailed
from airflow_snowpack.spark.work import is_connect

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.iceberg import FootprintMemory, MetadataReader
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.procedures import ProcedureCall
    from airflow_snowpack.maintenance.removals.of_job import JobRemovals
    from airflow_snowpack.spark import SparkWork


log = logging.getLogger(__name__)

REMOVED = "removed_files_count"
NO_PROCEDURES = "does not support procedures"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The table, the session and the way to call procedures in it.

    :param now: the moment that ages are counted back from.
    :param tries: how often a rewrite is tried while other writers' commits win.
    :param footprints: where the files of tables lie, as read before; ``None``: all tables are loaded when it matters.
    :param removals: where the lists of what is deleted are kept; ``None``: there is no store for them.
    :param reader: of the table as the plan of the job read it last; ``None`` when nothing was planned.
    """

    job_id: str
    name: TableName
    action: str
    session: SparkSession
    work: SparkWork
    catalog: Catalog
    now: datetime
    tries: int
    footprints: FootprintMemory | None = None
    removals: JobRemovals | None = None
    reader: MetadataReader | None = None

    def table(self) -> Table:
        """The table as it is now; a read of one metadata file.

        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        return load_table(self.catalog, self.name)

    def trail(self, table: Table, branch: str | None = None) -> CommitTrail:
        """Follow the commits to a branch of the table from here.

        :param branch: ``None`` for main.
        """
        return CommitTrail(None if is_connect(self.session) else self.job_id, branch=branch).start(table)

    def call(self, call: ProcedureCall) -> list[dict[str, Any]]:
        """Run the procedure; the answer is its rows.

        :raises SparkInterrupted: the engine was interrupted.
        :raises SparkFailed: the procedure failed.
        """
        return [row.asDict() for row in self.frame(call).collect()]

    def frame(self, call: ProcedureCall) -> DataFrame:
        """Run the procedure; the answer is its rows, in Spark. A ``CALL`` runs at once and not when its rows are read."""
        return self.work.run(self.session, lambda: self._stamped(call))

    def jobs_run(self) -> int | None:
        """How many Spark jobs the calls have run so far, where that can be known."""
        return self.work.jobs_run(self.session)

    def _stamped(self, call: ProcedureCall) -> DataFrame:
        with stamped(self.session, job_id=self.job_id, action=self.action):
            return self.session.sql(call.sql, args=dict(call.args))

    def explained(self, error: SparkFailed) -> Exception:
        """The error with what to do; of a session that does not know the catalog, in the place of Spark's misleading one."""
        if NO_PROCEDURES in str(error):
            return CatalogNotConfigured(self.name.catalog)
        remedy = exhausted(error)
        return SparkFailed(f"{remedy}: {error}", error.causes) if remedy else error


@dataclass(frozen=True, slots=True)
class PlanningContext:
    """What an action is planned from.

    :param reader: of the table, shared by the plans of several actions. It keeps bytes if an option of any has a ``where``.
    :param catalog: where tables that share the location are looked up, before orphans.
    :param now: the moment that ages count back from.
    :param footprints: where the files of tables lie, as read before; ``None``: all tables are loaded before orphans.
    """

    reader: MetadataReader
    catalog: Catalog
    now: datetime
    footprints: FootprintMemory | None = None


@dataclass(frozen=True, slots=True)
class ActionEffect:
    """What an action did to the table.

    :param message: for people.
    :param metrics: the procedure's own numbers by their column names, and what was counted beside them.
    :param error: the cause in full unless it succeeded or was skipped.
    :param final: the same options would fail again.
    """

    outcome: ActionOutcome
    message: str
    metrics: Mapping[str, int | float] = field(default_factory=dict)
    error: str | None = None
    final: bool = False

    def result(self, action: str, elapsed_seconds: float) -> ActionResult:
        """The same as the job keeps it."""
        return ActionResult(action, self.outcome, self.message, elapsed_seconds, self.error, self.metrics, self.final)


class ChangeWatch:
    """Follows one table through one action, for the lineage: whatever keeps it from being read is logged and nothing else.

    It reads the table's metadata once before the action and once after it.
    """

    def __init__(self) -> None:
        self._run: ActionRun | None = None
        self._trail: CommitTrail | None = None
        self._snapshots: frozenset[int] = frozenset()

    def begin(self, run: ActionRun, branch: str | None = None) -> Table:
        """Read the table before the action, and return it.

        :param branch: the branch that the action commits to; ``None`` for main.

        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog; the action could not begin either.
        """
        table = run.table()
        self._run, self._trail, self._snapshots = run, run.trail(table, branch), snapshot_ids(table)
        return table

    def change(self, effect: ActionEffect) -> TableChange | None:
        """What the action changed; ``None`` when it changed nothing, never began, or that is unknown."""
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
    """Return the ids of the snapshots that the table has."""
    return frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
