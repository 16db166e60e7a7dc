"""What an action left in the table: the snapshots before and after our own commits.

    >>> watch = ChangeWatch()
    >>> watch.begin(run)
    >>> effect = …                              # the procedure runs, and may be interrupted
    >>> watch.change(effect)                    # TableChange(before=11, after=12, location='s3://lake/orders'), or None

It is for the lineage, so that whatever keeps it from being read is logged and nothing else. It costs one look at the table's
metadata before the action and one after it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.jobs.model import TableChange
from airflow_snowpack.maintenance.action import Action

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.action_run import ActionRun, Effect
    from airflow_snowpack.maintenance.commits import CommitTrail

log = logging.getLogger(__name__)

REMOVED = "removed_files_count"


class ChangeWatch:
    """Follows one table through one action."""

    def __init__(self) -> None:
        self._run: ActionRun | None = None
        self._trail: CommitTrail | None = None
        self._snapshots: frozenset[int] = frozenset()

    def begin(self, run: ActionRun, branch: str | None = None) -> None:
        """Read the table before the action.

        :param branch: the branch that the action commits to; ``None`` for main.

        :raises TableNotFound, TableUnreadable, CatalogUnreachable: from the catalog; the action could not begin either.
        """
        table = run.table()
        self._run, self._trail, self._snapshots = run, run.trail(table, branch), _snapshots(table)

    def change(self, effect: Effect) -> TableChange | None:
        """What the action changed; ``None`` when it changed nothing, never began, or that is unknown."""
        if self._run is None or self._trail is None:
            return None
        try:
            table = self._run.table()
        except SnowpackError as error:
            log.warning("What %s did to %s is missing in the lineage: %s", self._run.action, self._run.name, error)
            return None
        own = self._trail.since(table).own
        if own:
            return TableChange(own[0].parent_snapshot_id, own[-1].snapshot_id, table.location())
        if not self._took_away(table, effect, self._run.action):
            return None
        current = table.current_snapshot()
        now_at = current.snapshot_id if current else None
        return TableChange(now_at, now_at, table.location())

    def _took_away(self, table: Table, effect: Effect, action: str) -> bool:
        if action == Action.EXPIRE_SNAPSHOTS:
            return bool(self._snapshots - _snapshots(table))
        return bool(effect.metrics.get(REMOVED))


def _snapshots(table: Table) -> frozenset[int]:
    return frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
