"""Expire snapshots. What branches and tags need stays; that is Iceberg's own rule and nothing here can switch it off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.jobs.model import ActionOutcome
from airflow_snowpack.maintenance import procedures
from airflow_snowpack.maintenance.action_run import Effect, counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.options import ExpireSnapshots

EXPIRED = "expired_snapshots_count"


def expire(run: ActionRun, options: ExpireSnapshots) -> Effect:
    """Expire, and count the snapshots that are gone: the procedure itself only counts files.

    :raises SparkInterrupted, SparkFailed: from the procedure.
    :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog.
    """
    before = _snapshot_ids(run.table())
    (row,) = run.call(procedures.expire_snapshots(run.name, options, run.by, now=run.now))
    # A writer may have added some meanwhile, so the difference of two totals would be wrong.
    expired = len(before - _snapshot_ids(run.table()))
    files = {column: int(value or 0) for column, value in row.items()}
    metrics = {EXPIRED: expired, **files}
    if not expired:
        return Effect(ActionOutcome.SUCCEEDED, "No snapshot was old enough to expire", metrics)
    deleted = sum(files.values())
    message = f"Expired {counted(expired, 'snapshot')} and deleted {counted(deleted, 'file')}"
    return Effect(ActionOutcome.SUCCEEDED, message, metrics)


def _snapshot_ids(table: Table) -> frozenset[int]:
    return frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
