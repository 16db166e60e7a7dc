"""Remove orphan files: plan first, then remove exactly the plan.

    1. refuse a place that another table of the catalog shares, or that lies outside the table
    2. list the orphans with ``dry_run``, and log them
    3. refuse again, by each table's current metadata: a listing takes long enough for a table to appear or to move,
       this one too
    4. remove the files of that list, and no other, unless the table's metadata names one by now

The invariant: nothing is deleted that was not in the plan. The removal gets the plan as its list of files, so a file that
appeared after the plan was made is never considered, and the location is not listed twice.
"""

from __future__ import annotations

import logging
from os.path import commonprefix
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.iceberg import LocationOutsideTable, location_conflicts
from airflow_snowpack.iceberg.locations import is_inside
from airflow_snowpack.iceberg.table_locations import TRUST_LOCATIONS_FOR
from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import procedures
from airflow_snowpack.maintenance.action_run import Effect, counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame

    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.options import RemoveOrphanFiles

log = logging.getLogger(__name__)

PATH_COLUMN = "orphan_file_location"
LOGGED_PATHS = 50
# Where Hadoop's own listing is the right one; Iceberg's listing by prefix serves object stores.
HADOOP_LISTS = ("file:", "hdfs:", "/")


class OrphanRemovalRefused(SnowpackError, kind=Kind.REFUSED):
    """Removing orphan files could delete another table's files."""


def remove_orphans(run: ActionRun, options: RemoveOrphanFiles) -> Effect:
    """Plan, and remove the plan.

    :raises OrphanRemovalRefused: another table keeps files there too.
    :raises LocationOutsideTable: the requested location is not inside the table's.
    :raises SparkInterrupted, SparkFailed: from the procedure.
    :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
    """
    location = run.table().location()
    if options.location and not is_inside(options.location, location):
        raise LocationOutsideTable(options.location, run.name.dotted, location)
    # Nothing is deleted yet: what was read of a REST catalog a moment ago will do here, and not before the removal.
    _refuse_foreign(run, location, trust_since=run.now - TRUST_LOCATIONS_FOR)
    prefix_listing = options.prefix_listing
    if prefix_listing is None:
        prefix_listing = not location.startswith(HADOOP_LISTS)
    planning = procedures.plan_orphan_removal(run.name, options, run.by, now=run.now, prefix_listing=prefix_listing)
    plan = run.frame(planning)
    planned = sorted(row[PATH_COLUMN] for row in plan.collect())
    _log_plan(run, planned)
    if not planned:
        return Effect(ActionOutcome.SUCCEEDED, "No orphan files", {"planned_files_count": 0, "removed_files_count": 0})
    try:
        _refuse_foreign(run, location)
        _refuse_moved(run, location)
    except SnowpackError as refused:
        metrics = {"planned_files_count": len(planned), "removed_files_count": 0}
        return Effect(ActionOutcome.FAILED, "Failed before anything was removed", metrics, str(refused))
    removed = _remove(run, options, plan, planned)
    metrics = {"planned_files_count": len(planned), "removed_files_count": removed}
    return Effect(ActionOutcome.SUCCEEDED, f"Removed {counted(removed, 'orphan file')}", metrics)


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


def _remove(run: ActionRun, options: RemoveOrphanFiles, plan: DataFrame, planned: Sequence[str]) -> int:
    view = f"snowpack_orphans_{uuid4().hex}"
    # The plan has only files that were old enough; the procedure's own check of their age needs some moment before that.
    old = plan.selectExpr(f"{PATH_COLUMN} AS file_path", "timestamp_seconds(0) AS last_modified")
    old.createOrReplaceTempView(view)
    # The procedure takes only files whose path begins with its location, and Hadoop spells file:/ where the table has file:///.
    # Any prefix will do, also one that ends in the middle of a name.
    location = commonprefix(list(planned))  # noqa: RUF071 - characters and not folders are meant
    removed = run.call(
        procedures.remove_planned_orphans(run.name, options, run.by, now=run.now, plan_view=view, location=location)
    )
    # Not after a failure: the JVM may be gone. The view goes with the session.
    run.session.catalog.dropTempView(view)
    return len(removed)
