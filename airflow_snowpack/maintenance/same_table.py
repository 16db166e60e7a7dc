"""Whether Spark has the table that this process reads.

The settings of a server, or keys of Glue in the environment of a session, may give the catalog's name to another catalog. A plan
would be of one table, and the work on another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.locations import normalise
from airflow_snowpack.maintenance.errors import OtherTableInSpark
from airflow_snowpack.maintenance.procedures import procedure_call
from airflow_snowpack.spark import SparkFailed

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.action_run import ActionRun

NO_SNAPSHOT = "Cannot find snapshot: -1"
"""What ``ancestors_of`` answers for a table without a current snapshot."""
TRIES = 3
"""Writers may commit between the two reads, and Spark may keep a table until it is refreshed."""


def check_same_table(run: ActionRun) -> None:
    """Compare the snapshots that both sides have, whose ids are random; it runs no Spark job.

    A copy of the table in another catalog shares the earlier snapshots, and therefore the current one of each side must be among
    those of the other. A table without snapshots is compared by its location.

    :raises OtherTableInSpark: they are different tables.
    :raises SparkInterrupted, SparkFailed: from Spark, also if it has no such table.
    :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
    """
    for attempt in range(TRIES):
        before = run.table()
        if attempt:
            run.refresh()
        ours = before.metadata.current_snapshot_id
        if ours is None:
            theirs = _location(run)
            if theirs == normalise(before.location()):
                return
            continue
        ancestors = _ancestors(run)
        theirs = f"snapshot {ancestors[0]}" if ancestors else "no snapshot"
        if ours in ancestors and (ours == ancestors[0] or run.table().snapshot_by_id(ancestors[0]) is not None):
            return
    raise OtherTableInSpark(str(run.name), theirs, before.location() if ours is None else f"snapshot {ours}")


def _ancestors(run: ActionRun) -> list[int]:
    try:
        return [row["snapshot_id"] for row in run.call(procedure_call(run.name, "ancestors_of", {}))]
    except SparkFailed as error:
        if NO_SNAPSHOT not in str(error):
            raise
        return []


def _location(run: ActionRun) -> str:
    describe = f"DESCRIBE TABLE EXTENDED {run.name.quoted}"
    rows = run.work.run(run.statements, lambda: run.statements.rows(describe))
    return next((normalise(row["data_type"]) for row in rows if row["col_name"] == "Location"), "no location")
