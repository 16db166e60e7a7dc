"""Remove orphan files: plan first, then remove exactly the plan.

    1. refuse a place that another table of the catalog shares, or that lies outside the table
    2. list the orphans with ``dry_run``, and log them
    3. refuse again, by each table's current metadata: a listing takes long enough for a table to appear or to move,
       this one too
    4. remove the files of that list, and no other, unless the table's metadata names one by now

With ``approve_above_files`` or ``approve_above_bytes`` the plan is a removal in the store, which may wait for an approval; with
``removal_id`` the action deletes exactly such a list. See :mod:`airflow_snowpack.maintenance.removals`.

The invariant: nothing is deleted that was not in the plan. The removal gets the plan as its list of files, so a file that
appeared after the plan was made is never considered, and the location is not listed twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg import LocationOutsideTable, TableName, find_orphans, list_storage, location_conflicts
from airflow_snowpack.iceberg.locations import TRUST_LOCATIONS_FOR, is_inside
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionRun, Effect, Planning, counted
from airflow_snowpack.maintenance.options import ActionOptions, option, parse_options
from airflow_snowpack.maintenance.plan import GC_PROPERTY, is_protected, refused_plan, skip
from airflow_snowpack.maintenance.procedures import Call, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, one_of, text, text_map, whole_number
from airflow_snowpack.maintenance.removals.model import RemovalKind
from airflow_snowpack.maintenance.removals.options import check_removal_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import MetadataReader
    from airflow_snowpack.maintenance.removals.model import RemovalItem

log = logging.getLogger(__name__)

ORPHAN_AGE_FLOOR = timedelta(hours=24)
PATH_COLUMN = "orphan_file_location"
LOGGED_PATHS = 50
# Where Hadoop's own listing is the right one; Iceberg's listing by prefix serves object stores.
HADOOP_LISTS = ("file:", "hdfs:", "/")
FILE_TOTALS = ("total-data-files", "total-delete-files")
MOST_FILES, MOST_SNAPSHOTS = 10_000, 200
"""Of a table whose storage is listed without Spark."""


class PrefixMismatch(StrEnum):
    """What becomes of a file whose scheme or authority differs from the one that the metadata has for its path."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"


class OrphanRemovalRefused(SnowpackError, kind=Kind.REFUSED):
    """Removing orphan files could delete another table's files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles(ActionOptions):
    """Delete files below the table's location that no metadata names.

    :param older_than: only files of at least this age; never below Iceberg's floor of 24 hours, since a writer that has not
        committed yet owns files that look like orphans.
    :param location: a folder inside the table's location; without it, all of that. Free text, to be escaped and checked against
        the table.
    :param prefix_listing: list through the table's own file access instead of Hadoop's; object stores need it. Without a value,
        it is on for whatever is neither a local path nor HDFS.
    :param max_concurrent_deletes: threads that delete files; without it, Iceberg's own.
    :param prefix_mismatch_mode: what becomes of files whose scheme or authority is not the metadata's; an error by default.
    :param equal_schemes: schemes that mean the same, such as ``{"s3a,s3n": "s3"}``; ``equal_authorities`` likewise for hosts.
    :param approve_above_files: keep the list of files in the store, and wait for an approval if it has more; 0: always.
        ``approve_above_bytes`` likewise for the sum of their sizes.
    :param removal_id: delete the files of this list, which was approved, and no others.
    """

    action: ClassVar[str] = Action.REMOVE_ORPHAN_FILES

    older_than: timedelta = option(timedelta(days=3), duration(at_least=ORPHAN_AGE_FLOOR))
    location: str | None = option(None, text)
    prefix_listing: bool | None = option(None, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    prefix_mismatch_mode: PrefixMismatch | None = option(None, one_of(PrefixMismatch))
    equal_schemes: tuple[tuple[str, str], ...] = option((), text_map)
    equal_authorities: tuple[tuple[str, str], ...] = option((), text_map)
    approve_above_files: int | None = option(None, whole_number(at_least=0))
    approve_above_bytes: int | None = option(None, whole_number(at_least=0))
    removal_id: str | None = option(None, text)

    def check(self) -> None:
        check_removal_options(self)

    def plan(self, planning: Planning) -> Effect:
        reader, catalog, now = planning.reader, planning.catalog, planning.now
        table = reader.table
        if self.removal_id:
            return refused_plan(f"a list is shown by: airflow snowpack removals show {self.removal_id} --items")
        if is_protected(table):
            return refused_plan(f"the table's property {GC_PROPERTY} is false, so Iceberg deletes no files of it")
        *levels, last = table.name()
        name = TableName(catalog.name, ".".join(levels), last)
        conflicts = location_conflicts(
            catalog, name, planning.locations, location=table.location(), trust_since=now - TRUST_LOCATIONS_FOR
        )
        if conflicts:
            others = "; ".join(str(conflict) for conflict in conflicts[:5])
            return refused_plan(f"other tables keep files where this one does ({table.location()!r}): {others}", len(conflicts))
        try:
            orphans = find_orphans(table, older_than=now - self.older_than, location=self.location, reader=reader)
        except LocationOutsideTable as error:
            return refused_plan(str(error))
        size = sum(orphan.bytes for orphan in orphans)
        metrics = {"planned_files_count": len(orphans), "planned_bytes_count": size}
        found = f"Would remove {counted(len(orphans), 'orphan file')} of {counted(size, 'byte')}" if orphans else None
        return Effect(ActionOutcome.SUCCEEDED, found or "Would remove no orphan files", metrics)

    def nothing_to_do(self, read: Callable[[], MetadataReader], *, now: datetime) -> Effect | None:
        if self.prefix_mismatch_mode or self.equal_schemes or self.equal_authorities or self.removal_id:
            return None
        reader = read()
        if is_protected(reader.table) or not _is_small(reader.table):
            return None
        found = list_storage(reader, older_than=now - self.older_than, location=self.location)
        if found.orphans:
            return None
        metrics = {"planned_files_count": 0, "removed_files_count": 0, "considered_files_count": found.files}
        return skip(f"{counted(found.files, 'file')} in the storage, none of them an orphan that is old enough", metrics)

    def run(self, run: ActionRun) -> Effect:
        """Plan, and remove the plan.

        :raises OrphanRemovalRefused: another table keeps files there too.
        :raises LocationOutsideTable: the requested location is not inside the table's.
        :raises SparkInterrupted, SparkFailed: from the procedure.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        if self.removal_id:
            return self._delete_listed(run, self.removal_id)
        if self._keeps_list() and (effect := self._resumed(run)):
            return effect
        table = run.table()
        location = table.location()
        if self.location and not is_inside(self.location, location):
            raise LocationOutsideTable(self.location, run.name.dotted, location)
        # Nothing is deleted yet: what was read of a REST catalog a moment ago will do here, and not before the removal.
        _refuse_foreign(run, location, trust_since=run.now - TRUST_LOCATIONS_FOR)
        prefix_listing = self.prefix_listing
        if prefix_listing is None:
            prefix_listing = not location.startswith(HADOOP_LISTS)
        planning = self.planning_call(run.name, run.job_id, now=run.now, prefix_listing=prefix_listing)
        items = self._planned(run, table, planning)
        if self._keeps_list():
            return self._keep_list(run, table, items)
        planned = [item.name for item in items]
        _log_plan(run, planned)
        if not planned:
            return Effect(ActionOutcome.SUCCEEDED, "No orphan files", {"planned_files_count": 0, "removed_files_count": 0})
        try:
            _refuse_foreign(run, location)
            _refuse_moved(run, location)
        except SnowpackError as refused:
            metrics = {"planned_files_count": len(planned), "removed_files_count": 0}
            return Effect(ActionOutcome.FAILED, "Failed before anything was removed", metrics, str(refused))
        removed = len(self._remove(run, planned))
        metrics = {"planned_files_count": len(planned), "removed_files_count": removed}
        return Effect(ActionOutcome.SUCCEEDED, f"Removed {counted(removed, 'orphan file')}", metrics)

    def _keeps_list(self) -> bool:
        return self.approve_above_files is not None or self.approve_above_bytes is not None

    def _planned(self, run: ActionRun, table: Table, planning: Call) -> Iterator[RemovalItem]:
        """List the orphans with Spark, and return those that the storage still has and reports to be old enough."""
        from airflow_snowpack.maintenance.removals.orphan_files import planned_files

        skipped: Counter[str] = Counter()
        paths = (row[PATH_COLUMN] for row in run.frame(planning).orderBy(PATH_COLUMN).toLocalIterator())
        yield from planned_files(table, paths, older_than=run.now - self.older_than, skipped=skipped)
        for reason, count in skipped.items():
            log.info("Not listed for %s: %s: %s", run.name, counted(count, "file"), reason)

    def _keep_list(self, run: ActionRun, table: Table, items: Iterable[RemovalItem]) -> Effect:
        """Keep the plan in the store, and delete it unless it needs an approval."""
        from airflow_snowpack.maintenance.removals.of_job import ApprovalLimit
        from airflow_snowpack.maintenance.removals.running import planned_removal, removals_of

        limit = ApprovalLimit(self.approve_above_files, self.approve_above_bytes)
        removal = removals_of(run).plan(RemovalKind.ORPHANS, table, items, settings=self.to_json(), limit=limit)
        if removal is None:
            return Effect(ActionOutcome.SUCCEEDED, "No orphan files", {"planned_files_count": 0, "removed_files_count": 0})
        return planned_removal(removal) or self._delete_listed(run, removal.removal_id)

    def _resumed(self, run: ActionRun) -> Effect | None:
        from airflow_snowpack.maintenance.removals.orphan_files import OrphanFiles
        from airflow_snowpack.maintenance.removals.running import resumed

        return resumed(run, OrphanFiles(self._remove_listed))

    def _delete_listed(self, run: ActionRun, removal_id: str) -> Effect:
        from airflow_snowpack.maintenance.removals.orphan_files import OrphanFiles
        from airflow_snowpack.maintenance.removals.running import carry_out

        return carry_out(run, removal_id, OrphanFiles(self._remove_listed))

    def _remove_listed(self, run: ActionRun, settings: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
        planned_by = parse_options(self.action, settings)
        assert isinstance(planned_by, RemoveOrphanFiles)
        return planned_by._remove(run, paths)

    def _remove(self, run: ActionRun, planned: Sequence[str]) -> list[str]:
        """Remove the files of the plan that no metadata names by now; return their paths."""
        # A catalog of the session that caches tables would compare the files with metadata from before the last commits.
        run.session.catalog.refreshTable(run.name.quoted)
        view = f"snowpack_orphans_{uuid4().hex}"
        # The plan has only files that were old enough; the procedure's own check of their age needs some moment before that.
        frame = run.session.createDataFrame([(path,) for path in planned], "file_path STRING")
        frame.selectExpr("file_path", "timestamp_seconds(0) AS last_modified").createOrReplaceTempView(view)
        # The procedure takes only files whose path begins with its location, and Hadoop spells file:/ where the table has file:///.
        # Any prefix will do, also one that ends in the middle of a name.
        location = commonprefix(list(planned))  # noqa: RUF071 - characters and not folders are meant
        removed = run.call(self.removal_call(run.name, run.job_id, now=run.now, plan_view=view, location=location))
        # Not after a failure: the JVM may be gone. The view goes with the session.
        run.session.catalog.dropTempView(view)
        return [row[PATH_COLUMN] for row in removed]

    def planning_call(self, table: TableName, job_id: str, *, now: datetime, prefix_listing: bool) -> Call:
        """Return the statement that lists what would be removed."""
        arguments = {
            "older_than": now - self.older_than,
            "location": self.location,
            "dry_run": True,
            "prefix_listing": prefix_listing or None,
            **self._prefixes(),
        }
        return procedure_call(table, self.action, job_id, arguments)

    def removal_call(self, table: TableName, job_id: str, *, now: datetime, plan_view: str, location: str) -> Call:
        """Return the statement that removes the files of a plan, except those that metadata names by then.

        :param plan_view: a temporary view of ``file_path`` and ``last_modified``; no other files are considered.
        :param location: what the paths of the plan begin with; the procedure leaves out any other.
        """
        arguments = {
            "older_than": now - self.older_than,
            "location": location,
            "file_list_view": plan_view,
            "max_concurrent_deletes": self.max_concurrent_deletes,
            **self._prefixes(),
        }
        return procedure_call(table, self.action, job_id, arguments)

    def _prefixes(self) -> dict[str, Any]:
        """Return how paths that differ in scheme or authority alone are compared; the plan and the removal must agree."""
        return {
            "prefix_mismatch_mode": self.prefix_mismatch_mode,
            "equal_schemes": dict(self.equal_schemes) or None,
            "equal_authorities": dict(self.equal_authorities) or None,
        }


def _refuse_foreign(run: ActionRun, location: str, trust_since: datetime | None = None) -> None:
    conflicts = location_conflicts(run.catalog, run.name, run.locations, location=location, trust_since=trust_since)
    if conflicts:
        raise OrphanRemovalRefused(
            f"Files of other tables lie where {run.name.dotted} keeps its own ({location!r}): "
            f"{'; '.join(str(conflict) for conflict in conflicts[:5])}. To this table they would be orphans. Move one of the "
            "tables, or leave remove_orphan_files out."
        )


def _refuse_moved(run: ActionRun, location: str) -> None:
    """Spark lists where the table is when it plans: a table that moved meanwhile was compared with others elsewhere."""
    present = run.table().location()
    if present != location:
        raise OrphanRemovalRefused(
            f"{run.name.dotted} was moved from {location!r} to {present!r} while orphan files were listed. Run the action again."
        )


def _log_plan(run: ActionRun, planned: Sequence[str]) -> None:
    log.info("Plan for %s: remove %s", run.name, counted(len(planned), "orphan file"))
    for path in planned[:LOGGED_PATHS]:
        log.info("  %s", path)
    if len(planned) > LOGGED_PATHS:
        log.info("  and %d more", len(planned) - LOGGED_PATHS)


def _is_small(table: Table) -> bool:
    """Whether listing its storage here, and reading what all its snapshots name, takes less than starting Spark."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return True
    totals = [snapshot.summary.get(key) if snapshot.summary else None for key in FILE_TOTALS]
    known = [int(total) for total in totals if total is not None]
    return len(known) == len(totals) and sum(known) <= MOST_FILES and len(table.metadata.snapshots) <= MOST_SNAPSHOTS
