"""Snapshots as a removal: what is listed at the plan, and what guards a listed snapshot when it is expired.

The invariant: only listed snapshots are expired. One that a branch or tag needs now, by the rules that it was planned by, is left
out, and a branch or tag that was not in the plan never goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.durations import parse_duration
from airflow_snowpack.maintenance.expiry import DEFAULT_MAX_AGE, DEFAULT_RETAIN_LAST, plan_expiry
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalItem, RemovalKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.removals.model import Removal

NEEDED_NOW = "a branch or tag needs it now"


def planned_snapshots(snapshots: Iterable[Snapshot]) -> list[RemovalItem]:
    """Return the snapshots of a plan."""
    return [RemovalItem(str(each.snapshot_id), at=datetime.fromtimestamp(each.timestamp_ms / 1000, tz=UTC)) for each in snapshots]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Guards and expires snapshots.

    :param expire: takes the options of the plan and ids, and expires exactly these snapshots.
    """

    expire: Callable[[ActionRun, Mapping[str, Any], Sequence[int]], None]
    kind: RemovalKind = RemovalKind.SNAPSHOTS

    @property
    def batch_parts(self) -> int:
        """Return how many parts one call of the procedure gets: each id is an argument of its own."""
        return 1

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Pass the snapshots that would be expired by the table's branches and tags of now.

        :raises RemovalRefused: a branch or tag would go that was not in the plan.
        """
        metadata, settings = table.metadata, removal.settings
        older_than = removal.planned_at - parse_duration(settings.get("max_age", DEFAULT_MAX_AGE))
        retain_last = settings.get("retain_last", DEFAULT_RETAIN_LAST)
        if settings.get("snapshot_ids"):
            # None that is named by its id is too young, and branches and tags keep what they need all the same.
            older_than, retain_last = run.now + timedelta(days=1), 1
        expiry = plan_expiry(metadata, older_than=older_than, retain_last=retain_last, now=run.now)
        if unplanned := [name for name in expiry.refs if name not in settings.get("expired_refs", ())]:
            raise RemovalRefused(
                f"The branch or tag {unplanned[0]!r} of {run.name.dotted} is past its own age now and would go as well. "
                "Plan the removal again."
            )
        present = {str(snapshot.snapshot_id) for snapshot in metadata.snapshots}
        free = {str(snapshot.snapshot_id) for snapshot in expiry.snapshots}
        return [_guarded(item, item.name in present, item.name in free) for item in items]

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Expire the snapshots, and read which are left."""
        self.expire(run, removal.settings, [int(item.name) for item in items])
        present = {str(snapshot.snapshot_id) for snapshot in run.table().metadata.snapshots}
        return [item if item.name in present else replace(item, outcome=ItemOutcome.DELETED) for item in items]


def _guarded(item: RemovalItem, present: bool, free: bool) -> RemovalItem:
    if not present:
        started = item.outcome is ItemOutcome.STARTED
        return replace(item, outcome=ItemOutcome.DELETED if started else ItemOutcome.GONE)
    if not free:
        return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=NEEDED_NOW)
    return replace(item, outcome=ItemOutcome.STARTED)
