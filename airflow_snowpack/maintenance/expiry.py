"""Which snapshots an expiry removes, by the rules of Iceberg's ``RemoveSnapshots``.

    expiry = plan_expiry(table.metadata, older_than=now - timedelta(days=5), retain_last=3, now=now)
    expiry.snapshots, expiry.kept, expiry.refs

Each branch keeps its newest snapshots, by its settings or else the caller's, and each tag its snapshot. Snapshots that no branch
or tag reaches are kept while they are young. Branches and tags other than ``main`` expire once their snapshot is older than
``max-ref-age-ms``; without this setting they never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.table_properties import MAX_REF_AGE, value_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from airflow_snowpack.iceberg import LiveDelete, LiveFile, MetadataReader

MAIN = "main"
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
KEEP_ALL = 2**31 - 1
"""With :data:`LONG_AGO`, only named snapshots expire, and those of branches that set both an age and a number to keep."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """The snapshots that would expire, those that would stay, and the names of the branches and tags that would expire."""

    snapshots: tuple[Snapshot, ...]
    kept: tuple[Snapshot, ...]
    refs: tuple[str, ...] = ()


def plan_expiry(metadata: TableMetadata, *, older_than: datetime, retain_last: int, now: datetime) -> Expiry:
    """Separate the snapshots that would expire from those that would stay.

    :param older_than: snapshots from this time on stay.
    :param retain_last: how many snapshots of each branch stay, whatever their age.
    """
    cutoff, now_ms = _milliseconds(older_than), _milliseconds(now)
    by_id = {each.snapshot_id: each for each in metadata.snapshots}  # PyIceberg scans all snapshots to find one
    refs = {name: ref for name, ref in metadata.refs.items() if _stays(name, ref, by_id, metadata.properties, now_ms)}
    kept: set[int] = {ref.snapshot_id for ref in refs.values()}
    led_to: set[int] = set(kept)
    for ref in refs.values():
        if ref.snapshot_ref_type == "branch":
            line = list(_ancestors(ref.snapshot_id, by_id))
            led_to |= {snapshot.snapshot_id for snapshot in line}
            kept |= _kept_of_branch(line, ref, cutoff, retain_last, now_ms)
    kept |= {each.snapshot_id for each in metadata.snapshots if each.snapshot_id not in led_to and each.timestamp_ms >= cutoff}
    return Expiry(
        snapshots=tuple(each for each in metadata.snapshots if each.snapshot_id not in kept),
        kept=tuple(each for each in metadata.snapshots if each.snapshot_id in kept),
        refs=tuple(sorted(metadata.refs.keys() - refs.keys())),
    )


def plan_expiry_of(metadata: TableMetadata, snapshot_ids: Collection[int], *, now: datetime) -> Expiry:
    """Separate the named snapshots from those that would stay. Branches and tags still expire by age."""
    by_age = plan_expiry(metadata, older_than=LONG_AGO, retain_last=KEEP_ALL, now=now)
    gone = {*snapshot_ids, *(snapshot.snapshot_id for snapshot in by_age.snapshots)}
    return Expiry(
        snapshots=tuple(each for each in metadata.snapshots if each.snapshot_id in gone),
        kept=tuple(each for each in metadata.snapshots if each.snapshot_id not in gone),
        refs=by_age.refs,
    )


def only_of_expired(reader: MetadataReader, expiry: Expiry) -> tuple[list[ManifestFile], list[LiveFile | LiveDelete]]:
    """Return the manifests, data and delete files that only the expired snapshots use.

    Opens manifests of kept snapshots only if the result may depend on them.
    """
    kept = reader.manifests_of(expiry.kept if expiry.snapshots else ())
    gone = [manifest for path, manifest in reader.manifests_of(expiry.snapshots).items() if path not in kept]
    candidates = reader.live_in(gone)
    shared = reader.live_in(kept.values()) if candidates else {}
    return gone, [file for path, file in candidates.items() if path not in shared]


def _stays(name: str, ref: SnapshotRef, by_id: Mapping[int, Snapshot], properties: Mapping[str, str], now_ms: int) -> bool:
    if name == MAIN:
        return True
    snapshot = by_id.get(ref.snapshot_id)
    # An unusable property keeps the branch or tag: Iceberg refuses to expire snapshots then.
    limit = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else value_of(properties, MAX_REF_AGE)
    return snapshot is not None and (limit is None or now_ms - snapshot.timestamp_ms <= limit)


def _kept_of_branch(line: list[Snapshot], ref: SnapshotRef, cutoff: int, retain_last: int, now_ms: int) -> set[int]:
    if ref.max_snapshot_age_ms is not None:
        cutoff = now_ms - ref.max_snapshot_age_ms
    at_least = ref.min_snapshots_to_keep if ref.min_snapshots_to_keep is not None else retain_last
    kept: set[int] = set()
    for snapshot in line:
        # Iceberg stops at the first that expires: a younger ancestor, which only a wrong clock makes, expires too.
        if len(kept) >= at_least and snapshot.timestamp_ms < cutoff:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _ancestors(snapshot_id: int, by_id: Mapping[int, Snapshot]) -> Iterator[Snapshot]:
    """Yield the snapshot and its ancestors, down to the oldest that the table still has."""
    following: int | None = snapshot_id
    while following is not None:
        snapshot = by_id.get(following)
        if snapshot is None:
            return
        yield snapshot
        following = snapshot.parent_snapshot_id


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
