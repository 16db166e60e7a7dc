"""Deletes old rows of the store as a task, to be scheduled once a day.

PruneStoreOperator(task_id="prune", older_than="180d")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_snowpack.operators.arguments import read_flag, read_period
from airflow_snowpack.operators.base import owner_of, refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from airflow.sdk import Context


class PruneStoreOperator(BaseOperator):
    """Deletes jobs, histories, records of builds, events and lineage that are older and not needed any more.

    :param older_than: the age, a ``timedelta`` or text such as ``180d``; a week at least.
    :param dry_run: only count what would be deleted.
    :param store_conn_id: the store's Airflow connection; ``None`` for the installation's.

    Returns how many rows were deleted, by table. A task that was killed leaves nothing half deleted, and the next one continues.
    """

    template_fields: Sequence[str] = ("older_than", "dry_run", "store_conn_id")

    def __init__(
        self, *, older_than: timedelta | str, dry_run: bool | str = False, store_conn_id: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.older_than = older_than
        self.dry_run = dry_run  # type: ignore[assignment, method-assign]  # BaseOperator has a debugging method of this name
        self.store_conn_id = store_conn_id

    def execute(self, context: Context) -> dict[str, int]:
        """Delete what is old, in small batches."""
        from airflow_snowpack.hooks.retention import prune
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.store import Actor

        with refusals_are_final():
            older_than, dry_run = read_period("older_than", self.older_than), read_flag("dry_run", self.dry_run)
            with SnowpackHook(self.store_conn_id) as hook:
                rows = prune(hook.store(), older_than, Actor(owner_of(context), "task"), dry_run=dry_run)
        self.log.info("%s %s rows that are older than %s", "Would delete" if dry_run else "Deleted", rows.total(), older_than)
        return dict(rows)
