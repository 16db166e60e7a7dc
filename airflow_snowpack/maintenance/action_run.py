"""One action of one job on one table: what each action needs to do its work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import load_table
from airflow_snowpack.jobs.model import ActionOutcome, ActionResult
from airflow_snowpack.maintenance.commits import CommitTrail, can_stamp, stamped
from airflow_snowpack.maintenance.procedures import Attribution
from airflow_snowpack.spark import CatalogNotConfigured, SparkFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.iceberg import LocationMemory, MetadataReader
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.procedures import Call
    from airflow_snowpack.spark import SparkWork


NO_PROCEDURES = "does not support procedures"


@dataclass(frozen=True, slots=True)
class ActionRun:
    """The table, the session and the way to call procedures in it.

    :param now: the moment that ages are counted back from.
    :param tries: how often a rewrite is tried while other writers' commits win.
    :param locations: where the catalog's tables keep their files, as read before; ``None``: they are all loaded when it matters.
    """

    job_id: str
    name: TableName
    action: str
    session: SparkSession
    work: SparkWork
    catalog: Catalog
    now: datetime
    app: str
    tries: int
    locations: LocationMemory | None = None

    @property
    def by(self) -> Attribution:
        return Attribution(self.app, self.job_id)

    def table(self) -> Table:
        """The table as it is now; a read of one metadata file.

        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        return load_table(self.catalog, self.name)

    def trail(self, table: Table, branch: str | None = None) -> CommitTrail:
        """Follow the commits to a branch of the table from here.

        :param branch: ``None`` for main.
        """
        return CommitTrail(self.job_id if can_stamp(self.session) else None, branch=branch).start(table)

    def call(self, call: Call) -> list[dict[str, Any]]:
        """Run the procedure; the answer is its rows.

        :raises SparkInterrupted: the engine was interrupted.
        :raises SparkFailed: the procedure failed.
        """
        return [row.asDict() for row in self.frame(call).collect()]

    def frame(self, call: Call) -> DataFrame:
        """Run the procedure; the answer is its rows, in Spark. A ``CALL`` runs at once and not when its rows are read."""
        return self.work.run(self.session, lambda: self._stamped(call))

    def jobs_run(self) -> int | None:
        """How many Spark jobs the calls have run so far, where that can be known."""
        return self.work.jobs_run(self.session)

    def _stamped(self, call: Call) -> DataFrame:
        with stamped(self.session, job_id=self.job_id, action=self.action):
            return self.session.sql(call.sql, args=dict(call.args))

    def explained(self, error: SparkFailed) -> Exception:
        """The error in the place of Spark's misleading one when the session does not know the catalog."""
        return CatalogNotConfigured(self.name.catalog) if NO_PROCEDURES in str(error) else error


@dataclass(frozen=True, slots=True)
class Planning:
    """What an action is planned from.

    :param reader: of the table, shared by the plans of several actions. It keeps bytes if an option of any has a ``where``.
    :param catalog: where tables that share the location are looked up, before orphans.
    :param now: the moment that ages count back from.
    :param locations: where the catalog's tables keep their files, as read before; without it, they are all loaded before orphans.
    """

    reader: MetadataReader
    catalog: Catalog
    now: datetime
    locations: LocationMemory | None = None


@dataclass(frozen=True, slots=True)
class Effect:
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


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``, ``1,284 files``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
