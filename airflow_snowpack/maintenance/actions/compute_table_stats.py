"""Compute statistics of a table's columns.

With Spark, Iceberg reads the columns and stores a sketch of each one's distinct values in a Puffin file, which the table's
metadata assigns to one snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_snowpack.humanize import number, plural, timestamp
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import skip
from airflow_snowpack.maintenance.planning.finding import Estimate, Facts, Finding, Rate, Threshold
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import columns, whole_number

if TYPE_CHECKING:
    from pyiceberg.table import Table

WRITTEN = "statistics_files_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeTableStats(ActionOptions):
    """Count the distinct values of columns, which help query engines to order joins.

    :param snapshot_id: the snapshot to read; by default, the current one.
    :param columns: by default, all columns except structs, lists and maps.
    """

    action: ClassVar[str] = "compute_table_stats"
    thresholds: ClassVar[Mapping[str, Threshold]] = {
        "commits": Threshold(20, "Commits of writers since statistics were last computed."),
    }
    rate: ClassVar[Rate] = Rate(10.0)
    deletes_files: ClassVar[bool] = False

    snapshot_id: int | None = option(None, whole_number(at_least=1, at_most=2**63 - 1), of_request=True, of_table=True)
    columns: tuple[str, ...] = option((), columns, of_table=True)

    def check_table(self, table: Table, name: str) -> None:
        if self.snapshot_id is not None and table.snapshot_by_id(self.snapshot_id) is None:
            raise refused(self, "snapshot_id", f"names {self.snapshot_id}, and {name} has no such snapshot")
        schema = table.schema()
        for column in self.columns:
            # Iceberg compares the case of names, even where Spark ignores it.
            if column not in schema.column_names or not schema.find_type(column).is_primitive:
                problem = f"names {column!r}, and {name} has no such column, or it is a struct, a list or a map"
                raise refused(self, "columns", problem)

    def call(self, table: TableName) -> ProcedureCall:
        return procedure_call(table, self.action, {"snapshot_id": self.snapshot_id, "columns": self.columns or None})

    def find(self, facts: Facts) -> Finding:
        """Return whether enough was committed since the last success. Rewrites do not count, because they change no row."""
        last, log, threshold = facts.record.last_success_at, facts.health.snapshots, facts.thresholds["commits"]
        commits = sum(
            operation != "replace" and (last is None or at > last.timestamp() * 1000)
            for at, operation in zip(log.committed_ms, log.operations, strict=True)
        )
        since = "never computed" if last is None else f"last computed at {timestamp(last)}"
        evidence = f"{plural(commits, 'commit')}; statistics were {since}; threshold {number(threshold)}"
        needed = commits >= threshold or last is None
        return Finding(evidence, {"commits": commits}, Estimate() if commits else None, needed)

    def plan(self, planning: PlanningContext) -> ActionEffect:
        nothing = self._reason_to_skip(planning.reader.table)
        message = f"no statistics: {nothing}" if nothing else f"statistics of {self._of_columns}"
        return ActionEffect(ActionOutcome.SUCCEEDED, f"Would compute {message}", {WRITTEN: 0 if nothing else 1})

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        nothing = self._reason_to_skip(planning.reader.table)
        return skip(nothing, {WRITTEN: 0}) if nothing else None

    def run(self, run: ActionRun) -> ActionEffect:
        run.refresh()
        written = len(run.call(self.call(run.name)))
        message = f"Computed statistics of {self._of_columns}" if written else "Computed no statistics: the table has no snapshot"
        return ActionEffect(ActionOutcome.SUCCEEDED, message, {WRITTEN: written})

    @property
    def _of_columns(self) -> str:
        return plural(len(self.columns), "column") if self.columns else "all columns"

    def _reason_to_skip(self, table: Table) -> str | None:
        """Return why there is nothing to compute, as a part of a sentence; ``None`` if there is.

        :raises InvalidOption: the table has lost a column that a policy or an earlier request names.
        """
        self.check_table(table, ".".join(table.name()[-2:]))
        snapshot = table.current_snapshot() if self.snapshot_id is None else table.snapshot_by_id(self.snapshot_id)
        if snapshot is None:
            return "the table has no snapshot"
        of_snapshot = [each for each in table.metadata.statistics if each.snapshot_id == snapshot.snapshot_id]
        known = {field for each in of_snapshot for blob in each.blob_metadata for field in blob.fields}
        schema = table.schema() if snapshot.schema_id is None else table.schemas()[snapshot.schema_id]
        asked = {table.schema().find_field(column).field_id for column in self.columns} or {
            column.field_id for column in schema.fields if column.field_type.is_primitive
        }
        return f"snapshot {snapshot.snapshot_id} has statistics" if known and asked <= known else None
