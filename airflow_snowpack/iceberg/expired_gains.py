"""What snapshots brought that were expired before they were read, as far as the oldest snapshot that is left shows it.

    for expired in read_expired_gains(table, oldest, after=12, gained=4_000):
        expired.sequence, expired.gain.records

The files of a table keep the sequence number of the commit that brought their data. So the files that the oldest snapshot still
lists, and those that it removed, as a compaction does, show each commit after a number, with its partitions and amounts. What
cannot be seen is whether an expired commit rewrote data, so all of them together count with no more records than the table has
gained. Tables of format version 1 have no sequence numbers; what was expired unread there is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.gains import ADDED, DATA, DELETED, Gain

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(slots=True)
class ExpiredGain:
    """What one expired commit brought.

    :ivar snapshot_id: of the commit; ``None`` where only a later commit names its files.
    """

    sequence: int
    snapshot_id: int | None = None
    gain: Gain = field(default_factory=Gain)


def read_expired_gains(table: Table, oldest: Snapshot, after: int, gained: int | None) -> list[ExpiredGain]:
    """Return what the commits brought that are missing between a sequence number and a snapshot, the oldest first.

    :param oldest: the oldest snapshot that is left after the number.
    :param gained: how many records the table has gained by all of them; ``None`` where that is not known.
    """
    found: dict[int, ExpiredGain] = {}
    for spec_id, entry in _entries_after(table, oldest, after):
        assert entry.sequence_number is not None, "only numbered entries come after a number"
        expired = found.setdefault(entry.sequence_number, ExpiredGain(entry.sequence_number))
        expired.gain.count(entry.data_file)
        expired.gain.partitions.add(table.specs()[spec_id].partition_to_path(entry.data_file.partition, table.schema()))
        if entry.status != DELETED:
            expired.snapshot_id = entry.snapshot_id
    return _limited([found[sequence] for sequence in sorted(found)], gained)


def _limited(found: list[ExpiredGain], gained: int | None) -> list[ExpiredGain]:
    if gained is None:
        return found
    left = gained
    for expired in found:
        expired.gain.records = max(0, min(expired.gain.records, left))
        left -= expired.gain.records
    return [expired for expired in found if expired.gain.records]


def _entries_after(table: Table, oldest: Snapshot, after: int) -> Iterator[tuple[int, ManifestEntry]]:
    for manifest in oldest.manifests(table.io):
        if manifest.content != DATA or manifest.sequence_number <= after:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            is_of_oldest = entry.snapshot_id == oldest.snapshot_id
            came_before = is_of_oldest if entry.status == DELETED else not (is_of_oldest and entry.status == ADDED)
            if came_before and entry.sequence_number is not None and entry.sequence_number > after:
                yield manifest.partition_spec_id, entry


def records_after(snapshot: Snapshot) -> int | None:
    """Return how many records the table has at a snapshot, by its summary; ``None`` when the summary has no number."""
    return _number(snapshot, "total-records")


def records_before(snapshot: Snapshot) -> int | None:
    """Return how many records the table had just before a snapshot."""
    total = records_after(snapshot)
    if total is None:
        return None
    return total - (_number(snapshot, "added-records") or 0) + (_number(snapshot, "deleted-records") or 0)


def _number(snapshot: Snapshot, name: str) -> int | None:
    text = None if snapshot.summary is None else snapshot.summary[name]
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None
