"""Two procedures of Iceberg without Spark, for tests of thousands of tables: what they delete is what Iceberg's would delete.

    run = run_without_spark(catalog, name, "remove_orphan_files", records, footprints=memory)
    RemoveOrphanFiles().run(run)

``remove_orphan_files`` lists as Hadoop does, symbolic links included, and compares with what the table itself names; it deletes
whatever it is given. ``expire_snapshots`` commits with PyIceberg, and deletes the files that only expired snapshots have used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from running_jobs import running_job

from airflow_snowpack.iceberg import FootprintMemory, MetadataReader, TableName
from airflow_snowpack.iceberg.locations import normalise
from airflow_snowpack.maintenance.action_run import ActionRun
from airflow_snowpack.maintenance.expiry import Expiry, only_of_expired
from airflow_snowpack.maintenance.procedures import ProcedureCall
from airflow_snowpack.maintenance.removals.of_job import JobRemovals
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.spark import SparkWork

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass
class PythonFrame:
    """Rows, as far as the actions use a data frame."""

    session: PythonSession
    rows: list[dict[str, Any]]

    def selectExpr(self, *_: str) -> PythonFrame:  # noqa: N802 - Spark's name
        return self

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
        self.session.views[name] = [row["file_path"] for row in self.rows]

    def orderBy(self, column: str) -> PythonFrame:  # noqa: N802
        return PythonFrame(self.session, sorted(self.rows, key=lambda row: str(row[column])))

    def toLocalIterator(self) -> Iterator[dict[str, Any]]:  # noqa: N802
        return iter(self.rows)


@dataclass
class PythonSession:
    """A session that has views, and nothing else."""

    views: dict[str, list[str]] = field(default_factory=dict)

    @property
    def catalog(self) -> PythonSession:
        return self

    def refreshTable(self, name: str) -> None:  # noqa: N802
        """A session that caches nothing has nothing to read again."""

    def dropTempView(self, name: str) -> None:  # noqa: N802
        self.views.pop(name)

    def createDataFrame(self, rows: list[tuple[str]], schema: str) -> PythonFrame:  # noqa: N802
        return PythonFrame(self, [{"file_path": path} for (path,) in rows])


class RunWithoutSpark(ActionRun):
    """An action's run whose procedures are those of this module."""

    __slots__ = ()

    def call(self, call: ProcedureCall) -> list[dict[str, Any]]:
        return [dict(row) for row in self._rows(call)]

    def frame(self, call: ProcedureCall) -> Any:
        return PythonFrame(self.session, self._rows(call))  # type: ignore[arg-type]

    def _rows(self, call: ProcedureCall) -> list[dict[str, Any]]:
        if self.action == "remove_orphan_files":
            return [{"orphan_file_location": path} for path in self._remove_orphans(call.args)]
        ids = [value for name, value in call.args.items() if name.startswith("snapshot_ids_")]
        return [{"deleted_data_files_count": expire(self.table(), ids)}]

    def _remove_orphans(self, args: Any) -> list[str]:
        table = self.table()
        known = MetadataReader(table).referenced_files()
        view = args.get("file_list_view")
        listed = self.session.views[view] if view else below(Path(normalise(args.get("location") or table.location())))  # type: ignore[attr-defined]
        found = [path for path in listed if normalise(path) not in known]
        for path in () if args.get("dry_run") else found:
            Path(normalise(path)).unlink(missing_ok=True)  # a link may list it twice
        return found


def below(folder: Path) -> list[str]:
    """Return the files below a folder as Hadoop spells and lists them."""
    found = []
    for root, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(("_", "."))]
        found += [f"file:{root}/{name}" for name in files if not name.startswith(("_", "."))]
    return found


def expire(table: Table, ids: list[int], *, keep_files: bool = False) -> int:
    """Expire snapshots and delete the files that no other snapshot of the table uses; return how many.

    :param keep_files: delete none, as an expiry that was killed after its commit.
    """
    gone = tuple(each for each in table.metadata.snapshots if each.snapshot_id in ids)
    kept = tuple(each for each in table.metadata.snapshots if each.snapshot_id not in ids)
    manifests, files = only_of_expired(MetadataReader(table), Expiry(gone, kept))
    paths = {each.manifest_path for each in manifests} | {each.path for each in files} | {each.manifest_list for each in gone}
    table.maintenance.expire_snapshots().by_ids(list(ids)).commit()
    for path in () if keep_files else paths:
        Path(normalise(path)).unlink(missing_ok=True)
    return len(paths)


def run_without_spark(
    catalog: Catalog, name: TableName, action: str, records: Removals, *, now: datetime, footprints: FootprintMemory | None
) -> RunWithoutSpark:
    """Return the run of an action, whose lists are kept in the store."""
    job = running_job(records.store, name, {})
    removals = JobRemovals(records, job)
    session: Any = PythonSession()
    return RunWithoutSpark(job.job_id, name, action, session, SparkWork(), catalog, now, 1, footprints, removals)
