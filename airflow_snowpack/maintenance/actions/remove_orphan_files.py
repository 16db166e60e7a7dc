"""Remove orphan files: plan first, then remove exactly the plan.

    1. refuse a location that another table shares, or that lies outside the table
    2. list the orphans with ``dry_run``, drop files that another table names, and keep the list in the store as a removal,
       which may wait for an approval
    3. refuse again, by the current metadata of each table: other tables may have appeared or moved since, this one too
    4. remove the files of the list that no table's metadata names now, or move them to quarantine

See :mod:`airflow_snowpack.maintenance.removals`.

The invariant: nothing is deleted that was not in the plan. The procedure gets the plan as its list of files, so files that
appeared later are never considered, and the location is not listed twice.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.durations import format_duration
from airflow_snowpack.humanize import duration as in_words, plural, timestamp
from airflow_snowpack.iceberg import (
    Equalities,
    ForeignFiles,
    LocationOutsideTable,
    QuarantineNotPossible,
    TableName,
    find_orphans,
    is_inside,
    list_storage,
)
from airflow_snowpack.iceberg.quarantine import is_moved_cheaply
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.action_run import ActionEffect, ActionRun, PlanningContext
from airflow_snowpack.maintenance.options import ActionOptions, option, refused
from airflow_snowpack.maintenance.plan import refused_plan, skip
from airflow_snowpack.maintenance.planning.finding import Facts, Finding, Rate
from airflow_snowpack.maintenance.procedures import ProcedureCall, procedure_call
from airflow_snowpack.maintenance.readers import duration, flag, one_of, paths, text, text_map, whole_number
from airflow_snowpack.maintenance.removals.errors import RemovalsNotKept, RemovalTakenOver
from airflow_snowpack.maintenance.removals.model import Removal, RemovalItem, RemovalKind
from airflow_snowpack.maintenance.removals.options import ORPHAN_AGE_FLOOR, check_removal_options, planned_with
from airflow_snowpack.maintenance.removals.orphan_files import ForeignGuard, OrphanFiles
from airflow_snowpack.maintenance.removals.quarantine import purge, quarantine_settings, restore
from airflow_snowpack.maintenance.removals.running import removals_of, run_removal
from airflow_snowpack.maintenance.writers import TableWriters

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.removals.of_job import JobRemovals


log = logging.getLogger(__name__)

PATH_COLUMN = "orphan_file_location"
# Listed by Hadoop; object stores need Iceberg's listing by prefix.
HADOOP_LISTS = ("file:", "hdfs:", "/")
FILE_TOTALS = ("total-data-files", "total-delete-files")
TRUST_FOOTPRINTS_FOR = timedelta(hours=1)
"""How long footprints are trusted on catalogs that do not list metadata locations, while nothing is deleted."""
SHORTEST_QUARANTINE, LONGEST_QUARANTINE = timedelta(hours=1), timedelta(days=365)
FIRST_QUARANTINE = timedelta(days=7)
"""How long the files of a table's first removal stay in quarantine."""
MOST_FILES, MOST_SNAPSHOTS = 10_000, 200
"""Limits of a table whose storage is listed without Spark."""


class PrefixMismatch(StrEnum):
    """How to treat a file whose scheme or authority differs from that in the metadata."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles(ActionOptions):
    """Delete files below the table's location that no metadata names.

    :param older_than: only files of at least this age; never less than Iceberg's 24 hours, because files of uncommitted writers
        look like orphans.
    :param location: a folder inside the table's location; by default, all of it. Free text, to be escaped and checked against the
        table.
    :param prefix_listing: list through the table's file access instead of Hadoop's, as object stores need it; by default, for all
        but local paths and HDFS.
    :param max_concurrent_deletes: threads that delete files; by default, Iceberg's number.
    :param prefix_mismatch_mode: how to treat files whose scheme or authority differs from the metadata's; an error by default.
    :param equal_schemes: schemes that mean the same, such as ``{"s3a,s3n": "s3"}``, also when files of other tables are compared.
    :param equal_authorities: hosts that mean the same; any others are different.
    :param follow_symlinks: also delete files reached through a symbolic link below the location, if no table names them by any
        path. By default, they are kept.
    :param approve_above_files: require an approval if the list has more files; 0: always.
    :param approve_above_bytes: require an approval if the files have more bytes; 0: always.
    :param quarantine: keep the files this long, to be restored; ``None``: delete them at once.
    :param quarantine_copy: copy files to quarantine where neither a move nor a delete marker is possible.
    :param removal_id: delete the files of this approved list.
    :param restore: restore the files of this list, or ``all`` of the table, from quarantine, and remove nothing.
    :param restore_files: restore only these paths.
    """

    action: ClassVar[str] = Action.REMOVE_ORPHAN_FILES
    rate: ClassVar[Rate] = Rate(2.0, per_file=0.005)
    deadline: ClassVar[timedelta | None] = timedelta(days=7)

    older_than: timedelta = option(timedelta(days=3), duration(at_least=ORPHAN_AGE_FLOOR))
    location: str | None = option(None, text)
    prefix_listing: bool | None = option(None, flag)
    max_concurrent_deletes: int | None = option(None, whole_number(at_least=1, at_most=1000))
    prefix_mismatch_mode: PrefixMismatch | None = option(None, one_of(PrefixMismatch))
    equal_schemes: tuple[tuple[str, str], ...] = option((), text_map)
    equal_authorities: tuple[tuple[str, str], ...] = option((), text_map)
    follow_symlinks: bool = option(False, flag)
    approve_above_files: int | None = option(None, whole_number(at_least=0))
    approve_above_bytes: int | None = option(None, whole_number(at_least=0))
    quarantine: timedelta | None = option(None, duration(at_least=SHORTEST_QUARANTINE, at_most=LONGEST_QUARANTINE))
    quarantine_copy: bool = option(False, flag)
    removal_id: str | None = option(None, text, of_request=True)
    restore: str | None = option(None, text, of_request=True)
    restore_files: tuple[str, ...] = option((), paths, of_request=True)

    def check(self) -> None:
        check_removal_options(self)
        if self.quarantine_copy and self.quarantine is None:
            raise refused(self, "quarantine_copy", "is only for a removal with quarantine")
        if self.restore_files and self.restore is None:
            raise refused(self, "restore_files", "needs restore: the id of a removal, or 'all'")

    def find(self, facts: Facts) -> Finding:
        last = facts.record.last_success_at
        never = "never searched for orphan files"
        return facts.found_by_time(never if last is None else f"last searched for orphan files at {timestamp(last)}")

    def protected(
        self,
        finding: Finding,
        facts: Facts,
        writers: Callable[[], TableWriters] | None,
        first_removal: Callable[[], bool] | None,
    ) -> Finding:
        """Protect files that an active run may still commit, and make a first removal reversible or subject to approval."""
        evidence, options = finding.evidence, dict(finding.options)
        age, why = (self.older_than, "") if writers is None else writers().protected_age(facts.now)
        if age > self.older_than:
            evidence, options = f"{evidence}; {why}", {"older_than": format_duration(age)}
        given = (self.quarantine, self.approve_above_files, self.approve_above_bytes)
        if first_removal is not None and all(each is None for each in given) and first_removal():
            if is_moved_cheaply(facts.health.location):
                evidence += f"; first removal: files stay in quarantine for {in_words(FIRST_QUARANTINE)}"
                options["quarantine"] = format_duration(FIRST_QUARANTINE)
            else:
                evidence += "; first removal: its list waits for an approval"
                options["approve_above_files"] = 0
        return replace(finding, evidence=evidence, options=options)

    def plan(self, planning: PlanningContext) -> ActionEffect:
        reader, catalog, now = planning.reader, planning.catalog, planning.now
        table = reader.table
        if self.removal_id:
            return refused_plan(f"a list is shown by: airflow snowpack removals show {self.removal_id} --items")
        if self.restore:
            return refused_plan("what can be restored is listed by: airflow snowpack removals list --state quarantined")
        *levels, last = table.name()
        name = TableName(catalog.name, ".".join(levels), last)
        guard, trust_since = self._guard(), now - TRUST_FOOTPRINTS_FOR
        foreign = ForeignFiles.of(catalog, name, planning.footprints, trust_since=trust_since, complete=False, equal=guard.equal)
        if conflicts := foreign.conflicts(table.location()):
            others = "; ".join(str(conflict) for conflict in conflicts[:5])
            return refused_plan(f"other tables keep files where this one does ({table.location()!r}): {others}", len(conflicts))
        try:
            if self.quarantine is not None:
                self._quarantine_settings(table)
            orphans = find_orphans(table, older_than=now - self.older_than, location=self.location, reader=reader)
        except (LocationOutsideTable, QuarantineNotPossible) as error:
            return refused_plan(str(error))
        kept = guard.reasons(reader, foreign, [orphan.path for orphan in orphans], table.location())
        orphans = tuple(orphan for orphan in orphans if orphan.path not in kept)
        size = sum(orphan.bytes for orphan in orphans)
        metrics = {"planned_files_count": len(orphans), "planned_bytes_count": size}
        found = f"Would remove {plural(len(orphans), 'orphan file')} of {plural(size, 'byte')}" if orphans else None
        if found and self.quarantine is not None:
            found += f"; they stay in quarantine for {in_words(self.quarantine)}"
        return ActionEffect(ActionOutcome.SUCCEEDED, found or "Would remove no orphan files", metrics)

    def without_spark(
        self, removals: JobRemovals | None, catalog: Callable[[], Catalog], stopped: Callable[[], bool]
    ) -> ActionEffect | None:
        """Restore files if requested; otherwise delete the table's files whose quarantine has ended.

        :raises RemovalsNotKept: files are to be restored, and the engine has no store.
        :raises RemovalTakenOver: the attempt has lost its job.
        :raises RemovalNotFound, NothingInQuarantine, RemovalNotPossible: nothing can be restored.
        """
        if self.restore is not None:
            if removals is None:
                raise RemovalsNotKept
            return restore(removals, catalog(), self.restore, self.restore_files, stopped)
        if removals is not None:
            try:
                purge(removals, catalog, stopped)
            except RemovalTakenOver:
                raise
            except Exception as problem:  # noqa: BLE001 - the next job of the table repeats it
                log.warning("purge_failed: %s: %s", removals.job.table, problem)
        return None

    def nothing_to_do(self, planning: PlanningContext) -> ActionEffect | None:
        compares = self.prefix_mismatch_mode or self.equal_schemes or self.equal_authorities
        if compares or not _is_small(planning.reader.table):
            return None
        found = list_storage(planning.reader, older_than=planning.now - self.older_than, location=self.location)
        if found.orphans:
            return None
        metrics = {"planned_files_count": 0, "removed_files_count": 0, "considered_files_count": found.files}
        return skip(f"{plural(found.files, 'file')} in the storage, none of them an orphan that is old enough", metrics)

    def run(self, run: ActionRun) -> ActionEffect:
        """Plan, and remove exactly the plan.

        :raises RemovalRefused: another table keeps files in the location.
        :raises LocationOutsideTable: the requested location is not inside the table's.
        :raises SparkInterrupted, SparkFailed: from the procedure.
        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
        """
        read: dict[str, frozenset[str]] = {}
        deletion = OrphanFiles(
            lambda run, settings, paths: planned_with(self, settings)._remove(run, paths),
            lambda settings: planned_with(self, settings)._guard(read),
        )
        return run_removal(run, deletion, self.removal_id, plan=lambda: self._plan_removal(run))

    def _plan_removal(self, run: ActionRun) -> Removal | ActionEffect:
        table = run.table()
        location = table.location()
        if self.location and not is_inside(self.location, location):
            raise LocationOutsideTable(self.location, run.name.dotted, location)
        # Nothing is deleted yet, so recent reads of a REST catalog are good enough; before the removal they are not.
        guard = self._guard()
        foreign = guard.refuse_shared(run, location, trust_since=run.now - TRUST_FOOTPRINTS_FOR)
        prefix_listing = self.prefix_listing
        if prefix_listing is None:
            prefix_listing = not location.startswith(HADOOP_LISTS)
        planning = self.planning_call(run.name, now=run.now, prefix_listing=prefix_listing)
        settings = self.to_json()
        if self.quarantine is not None:
            settings |= self._quarantine_settings(table)
        planned = self._planned(run, table, planning, guard, foreign)
        removal = removals_of(run).plan(RemovalKind.ORPHANS, table, planned, settings=settings)
        nothing = {"planned_files_count": 0, "removed_files_count": 0}
        return removal or ActionEffect(ActionOutcome.SUCCEEDED, "No orphan files", nothing)

    def _guard(self, read: dict[str, frozenset[str]] | None = None) -> ForeignGuard:
        equal = Equalities(self.equal_schemes, self.equal_authorities)
        return ForeignGuard(equal, self.follow_symlinks, {} if read is None else read)

    def _planned(
        self, run: ActionRun, table: Table, planning: ProcedureCall, guard: ForeignGuard, foreign: ForeignFiles
    ) -> Iterator[RemovalItem]:
        """Yield the orphans listed by Spark that no table names and that are old enough by the storage."""
        skipped: Counter[str] = Counter()
        paths = (row[PATH_COLUMN] for row in run.ordered(planning, PATH_COLUMN))
        yield from guard.planned(table, foreign, paths, older_than=run.now - self.older_than, skipped=skipped)
        for reason, count in skipped.items():
            log.info("Not listed for %s: %s: %s", run.name, plural(count, "file"), reason)

    def _remove(self, run: ActionRun, planned: Sequence[str]) -> list[str]:
        """Remove the planned files that no metadata names now, and return their paths; with ``quarantine``, only return them."""
        run.refresh()
        # The planned files were old enough; the procedure's check needs any time before that.
        view = run.work.run(run.statements, lambda: run.statements.view_of_files(planned))
        # The procedure only considers files whose path begins with its location, which Hadoop may spell file:/ for the table's
        # file:///. Any prefix works, even one that ends within a name.
        location = commonprefix(list(planned))  # noqa: RUF071 - characters and not folders are meant
        removed = run.call(self.removal_call(run.name, now=run.now, plan_view=view, location=location))
        # Not after a failure, when the JVM may be gone. The view ends with the session.
        run.work.run(run.statements, lambda: run.statements.rows(f"DROP VIEW {view}"))
        return [row[PATH_COLUMN] for row in removed]

    def planning_call(self, table: TableName, *, now: datetime, prefix_listing: bool) -> ProcedureCall:
        """Return the statement that lists what would be removed."""
        arguments = {
            "older_than": now - self.older_than,
            "location": self.location,
            "dry_run": True,
            "prefix_listing": prefix_listing or None,
            **self._prefixes(),
        }
        return procedure_call(table, self.action, arguments)

    def removal_call(self, table: TableName, *, now: datetime, plan_view: str, location: str) -> ProcedureCall:
        """Return the statement that removes the planned files that no metadata names then; ``quarantine`` only lists them.

        :param plan_view: a temporary view of ``file_path`` and ``last_modified``; no other files are considered.
        :param location: a prefix of all planned paths; the procedure skips any other path.
        """
        arguments = {
            "older_than": now - self.older_than,
            "location": location,
            "file_list_view": plan_view,
            "dry_run": True if self.quarantine is not None else None,
            "max_concurrent_deletes": self.max_concurrent_deletes,
            **self._prefixes(),
        }
        return procedure_call(table, self.action, arguments)

    def _quarantine_settings(self, table: Table) -> dict[str, str]:
        """:raises QuarantineNotPossible: the storage cannot take files away at no cost, and they may not be copied."""
        return quarantine_settings(table, may_copy=self.quarantine_copy)

    def _prefixes(self) -> dict[str, Any]:
        """Return how to compare paths that differ only in scheme or authority; the plan and the removal must agree."""
        return {
            "prefix_mismatch_mode": self.prefix_mismatch_mode,
            "equal_schemes": dict(self.equal_schemes) or None,
            "equal_authorities": dict(self.equal_authorities) or None,
        }


def _is_small(table: Table) -> bool:
    """Return whether listing the table's storage and reading all its snapshots here takes less than starting Spark."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return True
    totals = [snapshot.summary.get(key) if snapshot.summary else None for key in FILE_TOTALS]
    known = [int(total) for total in totals if total is not None]
    return len(known) == len(totals) and sum(known) <= MOST_FILES and len(table.metadata.snapshots) <= MOST_SNAPSHOTS
