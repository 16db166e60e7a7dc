"""Two procedures of Iceberg without Spark, for tests of thousands of tables: what they delete is what Iceberg's would delete.

    run = run_without_spark(catalog, name, "remove_orphan_files", records, footprints=memory)
    RemoveOrphanFiles().run(run)

``remove_orphan_files`` lists as Hadoop does, symbolic links included, and compares with what the table itself names; it deletes
whatever it is given. ``expire_snapshots`` commits with PyIceberg, and deletes the files that only expired snapshots have used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
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
from airflow_snowpack.spark import SparkWork, Statements
from airflow_snowpack.spark.statements import new_view

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@dataclass
class PythonStatements(Statements):
    """A session that has views of files, and knows only the statements about them."""

    views: dict[str, Sequence[str]] = field(default_factory=dict)

    def rows(self, sql: str, args: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        what, _, name = sql.partition(" VIEW ")
        if what == "DROP":
            self.views.pop(name)
        return []  # nothing is cached, so that a refresh has nothing to do

    def ordered_rows(self, sql: str, args: Mapping[str, Any], column: str) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def view_of_files(self, paths: Sequence[str]) -> str:
        name = new_view()
        self.views[name] = paths
        return name

    def setting(self, name: str) -> str | None:
        return None

    def change(self, name: str, value: str | None) -> None:
        raise NotImplementedError

    def tag(self, tag: str) -> None:
        """Nothing can be cancelled."""

    def untag(self, tag: str) -> None:
        """Nothing can be cancelled."""

    def cancel(self, tag: str) -> None:
        """Nothing can be cancelled."""


class RunWithoutSpark(ActionRun):
    """An action's run whose procedures are those of this module."""

    __slots__ = ()

    def call(self, call: ProcedureCall) -> list[dict[str, Any]]:
        if self.action == "remove_orphan_files":
            return [{"orphan_file_location": path} for path in self._remove_orphans(call.args)]
        ids = [value for name, value in call.args.items() if name.startswith("snapshot_ids_")]
        return [{"deleted_data_files_count": expire(self.table(), ids)}]

    def ordered(self, call: ProcedureCall, column: str) -> Iterator[dict[str, Any]]:
        return iter(sorted(self.call(call), key=lambda row: str(row[column])))

    def _remove_orphans(self, args: Any) -> list[str]:
        assert isinstance(self.statements, PythonStatements)
        table = self.table()
        known = MetadataReader(table).referenced_files()
        view = args.get("file_list_view")
        listed = self.statements.views[view] if view else below(Path(normalise(args.get("location") or table.location())))
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
    return RunWithoutSpark(job.job_id, name, action, PythonStatements(), SparkWork(), catalog, now, 1, footprints, removals)
