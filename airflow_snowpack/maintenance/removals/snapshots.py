"""Snapshots as a removal: how snapshots are listed for a plan, and guarded when they are expired.

The invariant: only listed snapshots are expired. Left out are snapshots that a branch or tag needs now, by the rules of the plan,
and those whose files another table names, because a table that is registered twice shares them. Branches and tags that were not
in the plan never expire.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import Equalities, ForeignFiles, MetadataReader, TableUnreadable
from airflow_snowpack.iceberg.catalog import unreadable_errors
from airflow_snowpack.iceberg.locations import NOTHING_DECIDED
from airflow_snowpack.iceberg.table_properties import is_number, retention_of
from airflow_snowpack.maintenance.expiry import KEEP_ALL, LONG_AGO, Expiry, only_of_expired, plan_expiry
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
"""What a plan adds to the options of its action; lists planned by another version of this package may lack it."""
DELETE_METADATA, METADATA_LIMIT = "write.metadata.delete-after-commit.enabled", "write.metadata.previous-versions-max"
NEEDED_NOW = "a branch or tag needs it now"
NAMED_BY = "the table {} names files of it"
TRUST_FOOTPRINTS_FOR = timedelta(minutes=10)
"""How long to trust footprints on catalogs that do not list metadata locations, because each expiry would load all other tables.

A pass expires snapshots of hundreds of tables. New tables in the list of names are always loaded.
"""
DELETED_WITHIN = timedelta(hours=1)
"""How long the deletion of a list that needs no approval usually takes at most."""


def planned_snapshots(metadata: TableMetadata, snapshots: Collection[Snapshot], now: datetime) -> list[RemovalItem]:
    """Return the snapshots of a plan, and those that soon exceed their branch's age, which Iceberg expires with the others.

    The guard leaves out those that have not exceeded it then.
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

    :param expire: takes the plan's options and ids, expires exactly these snapshots, and returns how many files were deleted.
    :param equal: takes the plan's options, and returns which spellings of locations mean the same.
    """

    expire: Callable[[ActionRun, Mapping[str, Any], Sequence[int]], Mapping[str, int]]
    equal: Callable[[Mapping[str, Any]], Equalities] = lambda _: NOTHING_DECIDED
    kind: RemovalKind = RemovalKind.SNAPSHOTS
    batch_parts: int = 1  # each id is a separate argument of the procedure
    files: Counter[str] = field(default_factory=Counter)

    def guard(self, run: ActionRun, removal: Removal, table: Table, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Pass the snapshots that would expire by the table's current branches and tags.

        :raises RemovalRefused: a branch, tag or snapshot would expire that was not in the plan or shares files with another
            table; the owner has changed the retention since the plan; or it is unknown whether other tables name the table's
            files.
        """
        metadata, settings, records = table.metadata, removal.settings, removals_of(run).records
        if missing := GUARDED_BY - settings.keys():
            raise RemovalRefused(
                f"The list of {run.name.dotted} was planned without {' and '.join(sorted(missing))}, which its guard needs. "
                "Plan the removal again."
            )
        if settings.get("retention", retention := retention_of(metadata.properties)) != retention:
            raise RemovalRefused(
                f"The properties history.expire.* of {run.name.dotted} were changed after its removal was planned. Plan the "
                "removal again."
            )
        now = max(run.now, records.store.clock())  # Iceberg measures ages from each call
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
        guarded = [_guarded(item, item.name in present, item.name in expirable) for item in items]
        going = {int(each.name) for each in guarded if each.outcome is ItemOutcome.STARTED}
        shared = refuse_bound(run, table, going, now, self.equal(settings)) if going else {}
        return [_left_out(item, shared) if int(item.name) in shared else item for item in guarded]

    def delete(self, run: ActionRun, removal: Removal, items: Sequence[RemovalItem]) -> list[RemovalItem]:
        """Expire the snapshots, and check which are left."""
        self.files.update(self.expire(run, removal.settings, [int(item.name) for item in items]))
        present = set(_names(run.table().metadata.snapshots))
        return [item if item.name in present else replace(item, outcome=ItemOutcome.DELETED) for item in items]


def refuse_bound(run: ActionRun, table: Table, ids: Collection[int], now: datetime, equal: Equalities) -> dict[int, str]:
    """Return the snapshots that share files with other tables, see :func:`shared_snapshots`.

    :param now: Iceberg measures the ages of branches from its call, at most :data:`DELETED_WITHIN` later.
    :raises RemovalRefused: Iceberg would expire another snapshot that shares files, because of its branch's age.
    """
    soon = plan_expiry(table.metadata, older_than=LONG_AGO, retain_last=KEEP_ALL, now=now + DELETED_WITHIN).snapshots
    by_age = {each.snapshot_id for each in soon}
    shared = shared_snapshots(run, table, {*ids, *by_age}, equal)
    if bound := sorted(by_age & shared.keys()):
        raise RemovalRefused(
            f"The snapshot {bound[0]} of {run.name.dotted} is past the age of its branch, so Iceberg expires it with any "
            f"other, and {NAMED_BY.format(shared[bound[0]])}. Drop one of the two tables without purging its files."
        )
    return shared


def shared_snapshots(run: ActionRun, table: Table, ids: Collection[int], equal: Equalities) -> dict[int, str]:
    """Return the snapshots whose expiry would delete files that another table names, each with that table's label.

    :raises RemovalRefused: it is unknown whether another table names files of this one, or the commit of the expiry would delete
        a metadata file that another table names.
    :raises TableUnreadable: the metadata of a table that keeps files in the same locations cannot be read.
    """
    foreign = ForeignFiles.of(
        run.catalog, run.name, run.footprints, trust_since=run.now - TRUST_FOOTPRINTS_FOR, table=table, equal=equal
    )
    places = foreign.own.places if foreign.own else ()
    if unknown := foreign.undecided(places):
        raise RemovalRefused(
            f"Whether other tables name files of {run.name.dotted} is not known: {'; '.join(map(str, unknown[:5]))}. Repair or "
            "drop these tables, or leave expire_snapshots out."
        )
    if not foreign.is_near(places):
        return {}
    if named := sorted(foreign.named(dropped_metadata(table.metadata), places).values()):
        raise RemovalRefused(
            f"Each commit to {run.name.dotted} deletes old metadata files ({DELETE_METADATA}), and the table {named[0]} names "
            "one of them. Set the property to false, or drop one of the two tables without purging its files."
        )
    try:
        return _shared(table, ids, foreign, places)
    except unreadable_errors() as error:
        raise TableUnreadable(run.name.dotted, error) from error


def dropped_metadata(metadata: TableMetadata) -> list[str]:
    """Return the metadata files that Iceberg deletes with the next commit, because their number is limited."""
    if str(metadata.properties.get(DELETE_METADATA, "false")).lower() != "true":
        return []
    limit = metadata.properties.get(METADATA_LIMIT, "100")
    kept = max(1, int(limit)) if is_number(limit) else 1
    return [entry.metadata_file for entry in metadata.metadata_log][: max(0, len(metadata.metadata_log) + 1 - kept)]


def _shared(table: Table, ids: Collection[int], foreign: ForeignFiles, places: Sequence[str]) -> dict[int, str]:
    reader = MetadataReader(table)
    gone = [each for each in table.metadata.snapshots if each.snapshot_id in ids]
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    manifests, files = only_of_expired(reader, Expiry(tuple(gone), tuple(kept)))
    unshared = {*(each.manifest_path for each in manifests), *(each.path for each in files)}
    of_each = {each: _files_of(reader, each) & unshared | _own_files_of(table, each) for each in gone}
    named = foreign.named(list(set[str]().union(*of_each.values())), places)
    return {each.snapshot_id: named[path] for each, paths in of_each.items() for path in paths if path in named}


def _files_of(reader: MetadataReader, snapshot: Snapshot) -> set[str]:
    manifests = reader.manifests_of([snapshot])
    return {*manifests, *reader.live_in(manifests.values())}


def _own_files_of(table: Table, snapshot: Snapshot) -> set[str]:
    """Return the manifest list and the statistics of a snapshot, which are deleted with it."""
    statistics = (*table.metadata.statistics, *table.metadata.partition_statistics)
    paths = {each.statistics_path for each in statistics if each.snapshot_id == snapshot.snapshot_id}
    return paths | ({snapshot.manifest_list} if snapshot.manifest_list else set())


def _left_out(item: RemovalItem, shared: Mapping[int, str]) -> RemovalItem:
    return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=NAMED_BY.format(shared[int(item.name)]))


def _names(snapshots: Iterable[Snapshot]) -> list[str]:
    return [str(snapshot.snapshot_id) for snapshot in snapshots]


def _guarded(item: RemovalItem, present: bool, free: bool) -> RemovalItem:
    if not present:
        started = item.outcome is ItemOutcome.STARTED
        return replace(item, outcome=ItemOutcome.DELETED if started else ItemOutcome.GONE)
    if not free:
        return replace(item, outcome=ItemOutcome.LEFT_OUT, reason=NEEDED_NOW)
    return replace(item, outcome=ItemOutcome.STARTED)
