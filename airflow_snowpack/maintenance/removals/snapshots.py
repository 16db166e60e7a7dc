"""Snapshots as a removal: what is listed at the plan, and what guards a listed snapshot when it is expired.

The invariant: only listed snapshots are expired. One that a branch or tag needs now, by the rules that it was planned by, is left
out, and a branch or tag that was not in the plan never goes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.expiry import KEEP_ALL, LONG_AGO, plan_expiry
from airflow_snowpack.maintenance.removals.errors import RemovalRefused
from airflow_snowpack.maintenance.removals.model import ItemOutcome, RemovalItem, RemovalKind
from airflow_snowpack.maintenance.removals.running import removals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.maintenance.action_run import ActionRun
    from airflow_snowpack.maintenance.removals.model import Removal

GUARDED_BY = frozenset({"expired_refs", "committed_before"})
"""What a plan adds to the options of its action; a list that another version of this package has planned may lack it."""
NEEDED_NOW = "a branch or tag needs it now"
DELETED_WITHIN = timedelta(hours=1)
"""A list that needs no approval is usually deleted in less."""


def planned_snapshots(metadata: TableMetadata, snapshots: Collection[Snapshot], now: datetime) -> list[RemovalItem]:
    """Return the snapshots of a plan, and those that pass the age of their branch soon: Iceberg expires them with the others.

    The guard leaves out what has not passed it by then.
    """
    soon = plan_expiry(metadata, older_than=LONG_AGO, retain_last=KEEP_ALL, now=now + DELETED_WITHIN) if snapshots else None
    listed = {each.snapshot_id for each in snapshots}
    more = [each for each in soon.snapshots if each.snapshot_id not in listed] if soon else []
    return [_item(each) for each in (*snapshots, *more)]


def _item(snapshot: Snapshot) -> RemovalItem:
    return RemovalItem(str(snapshot.snapshot_id), at=datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC))


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Guards and expires snapshots.

    :param expire: takes the options of the plan and ids, expires exactly these snapshots, and returns how many files went.
    """

    expire: Callable[[ActionRun, Mapping[str, Any], Sequence[int]], Mapping[str, int]]
    kind: RemovalKind = RemovalKind.SNAPSHOTS
    batch_parts: int = 1  # each id is an argument of its own of the procedure's call
    files: Counter[str] = field(default_factory=Counter)

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Pass the snapshots that would be expired by the table's branches and tags of now.

        :raises RemovalRefused: a branch, tag or snapshot would go that was not in the plan.
        """
        metadata, settings, records = table.metadata, removal.settings, removals_of(run).records
        if missing := GUARDED_BY - settings.keys():
            raise RemovalRefused(
                f"The list of {run.name.dotted} was planned without {' and '.join(sorted(missing))}, which its guard needs. "
                "Plan the removal again."
            )
        now = max(run.now, records.store.clock())  # Iceberg counts ages back from each call
        anyway = plan_expiry(metadata, older_than=LONG_AGO, retain_last=KEEP_ALL, now=now)
        listed = {item.name for item in items}
        unplanned = [f"branch or tag {name!r}" for name in anyway.refs if name not in settings["expired_refs"]]
        if others := [name for name in _names(anyway.snapshots) if name not in listed]:
            listed |= {item.name for item in records.items(removal.removal_id)}
            unplanned += [f"snapshot {name}" for name in others if name not in listed]
        if unplanned:
            raise RemovalRefused(
                f"The {unplanned[0]} of {run.name.dotted} is past its own age now and would go as well. Plan the removal again."
            )
        retain_last = 1 if settings.get("snapshot_ids") else settings["retain_last"]
        older_than = datetime.fromisoformat(settings["committed_before"])
        free = plan_expiry(metadata, older_than=older_than, retain_last=retain_last, now=now).snapshots
        present, expirable = set(_names(metadata.snapshots)), set(_names(free))
        return [_guarded(item, item.name in present, item.name in expirable) for item in items]

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Expire the snapshots, and read which are left."""
        self.files.update(self.expire(run, removal.settings, [int(item.name) for item in items]))
        present = set(_names(run.table().metadata.snapshots))
        return [item if item.name in present else replace(item, outcome=ItemOutcome.DELETED) for item in items]


def _names(snapshots: Iterable[Snapshot]) -> list[str]:
    return [str(snapshot.snapshot_id) for snapshot in snapshots]


def _guarded(item: RemovalItem, present: bool, free: bool) -> RemovalItem:
    if not present:
        started = item.outcome is ItemOutcome.STARTED
        return replace(item, outcome=ItemOutcome.DELETED if started else ItemOutcome.GONE)
    if not free:
        return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=NEEDED_NOW)
    return replace(item, outcome=ItemOutcome.STARTED)
