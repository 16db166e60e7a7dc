"""The maintenance requests that delete an approved removal or restore files from quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.removals.errors import NothingInQuarantine, RemovalNotPossible
from airflow_snowpack.maintenance.removals.model import RemovalKind, RemovalState
from airflow_snowpack.maintenance.removals.options import ALL
from airflow_snowpack.maintenance.submit import MaintenanceRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.removals.model import Removal
    from airflow_snowpack.maintenance.removals.records import Removals

ACTIONS = {RemovalKind.ORPHANS: Action.REMOVE_ORPHAN_FILES, RemovalKind.SNAPSHOTS: Action.EXPIRE_SNAPSHOTS}


def request_of(removal: Removal, *, priority: int = 0) -> MaintenanceRequest:
    """Return the request of the job that deletes the removal.

    :raises RemovalNotPossible: it is not approved, or has ended.
    """
    if removal.state not in (RemovalState.APPROVED, RemovalState.DELETING):
        raise RemovalNotPossible(removal, "run")
    table, action = removal.table, ACTIONS[removal.kind]
    return MaintenanceRequest.parse(
        table.dotted,
        [action],
        catalog=table.catalog,
        catalog_id=table.catalog_id,
        options={action: {"removal_id": removal.removal_id}},
        priority=priority,
    )


def restore_request(removal: Removal, files: Sequence[str] = ()) -> MaintenanceRequest:
    """Return the request of the job that restores files of a removal.

    :param files: only these paths; empty for all that are in quarantine.
    :raises NothingInQuarantine: no file of the removal is in quarantine.
    """
    if removal.quarantined_until is None:
        raise NothingInQuarantine(removal)
    return _restore(removal.table, removal.removal_id, files)


def restore_table_request(removals: Removals, table: TableName, files: Sequence[str] = ()) -> MaintenanceRequest:
    """Return the request of the job that restores files of all removals of a table, even of a dropped one.

    :param files: only these paths; empty for all that are in quarantine.
    :raises NothingInQuarantine: no file of the table is in quarantine.
    """
    if not removals.in_quarantine(table):
        raise NothingInQuarantine(table)
    return _restore(table, ALL, files)


def _restore(table: TableName, removal_id: str, files: Sequence[str]) -> MaintenanceRequest:
    options = {"restore": removal_id, **({"restore_files": list(files)} if files else {})}
    action = Action.REMOVE_ORPHAN_FILES
    return MaintenanceRequest.parse(
        table.dotted, [action], catalog=table.catalog, catalog_id=table.catalog_id, options={action: options}
    )
