"""The maintenance request that deletes an approved removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.removals.errors import RemovalNotPossible
from airflow_snowpack.maintenance.removals.model import RemovalKind, RemovalState
from airflow_snowpack.maintenance.submit import MaintenanceRequest

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.removals.model import Removal

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
