"""Errors of removals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName
    from airflow_snowpack.maintenance.removals.model import Removal


class RemovalError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of removals."""


class RemovalNotFound(RemovalError, kind=Kind.NOT_FOUND):
    """There is no such removal."""

    def __init__(self, removal_id: str) -> None:
        super().__init__(f"There is no removal {removal_id!r:.80}. List them with: airflow snowpack removals list")


class RemovalNotPossible(RemovalError, kind=Kind.REFUSED):
    """The state of the removal does not allow the change."""

    def __init__(self, removal: Removal, change: str) -> None:
        super().__init__(f"The removal {removal.removal_id} cannot be {change}: it {removal.state_text}.")


class RemovalRefused(RemovalError, kind=Kind.REFUSED):
    """The table no longer allows the removal."""


class RemovalOfAnotherTable(RemovalError, kind=Kind.REFUSED):
    """The removal is of another table, or of another action."""

    def __init__(self, removal: Removal, table: TableName) -> None:
        super().__init__(
            f"The removal {removal.removal_id} is a list of {removal.kind} of {removal.table.dotted}, and this job is of "
            f"{table.dotted}. Run it with: airflow snowpack removals run {removal.removal_id}"
        )


class NothingInQuarantine(RemovalError, kind=Kind.REFUSED):
    """Nothing can be restored."""

    def __init__(self, of: Removal | TableName) -> None:
        what = f"table {of.dotted}" if hasattr(of, "dotted") else f"removal {of.removal_id}"
        super().__init__(
            f"No file of the {what} is in quarantine. List what is with: airflow snowpack removals list --state quarantined"
        )


class RemovalTakenOver(RemovalError, kind=Kind.CONFLICT):
    """Another attempt runs the removal, or its job was cancelled."""

    def __init__(self, removal_id: str) -> None:
        super().__init__(f"This attempt no longer runs the removal {removal_id}: its job was cancelled or taken over.")


class RemovalsNotKept(RemovalError, kind=Kind.MISCONFIGURED):
    """The process that runs the job has no store for lists of removals."""

    def __init__(self) -> None:
        super().__init__(
            "The list of what is deleted is kept in the store, and this engine has none. Run the job in a worker or a task, or "
            "give the engine removals."
        )
