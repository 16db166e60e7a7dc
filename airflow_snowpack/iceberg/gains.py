"""What snapshots brought to their table: the net gain of records and files, and all that they changed, read from manifests.

    effect = read_effect(table, snapshot)
    effect.gained.records, effect.gained.partitions     # a gain without partitions is none
    effect.changed.records                              # also what was deleted or written again
    for expired in read_expired_gains(table, oldest, after=12, gained=4_000):
        expired.sequence, expired.gain.records

An append brings all that it adds. An overwrite brings what its partitions have more of than before: a copy-on-write DELETE or
UPDATE writes the remaining rows again, and a merge-on-read UPDATE deletes the old rows by position. A partition from which
nothing was removed gains all of its files, and so does every partition of an overwrite that replaces whole partitions (Iceberg's
``replace-partitions``). Equality deletes do not record how many rows they delete and are left out.

With row lineage (format version 3), rows that are written again keep their row ids, and new rows have none yet. If the metrics of
all new files of a partition have the number of rows without an id, exactly these rows are its gain.

Snapshots that expired unread count as far as the oldest remaining snapshot shows them. The files of a table keep the sequence
number of the commit that brought their data, so the files that this snapshot still lists, and those that it removed (as a
compaction does), show each commit after a number. Whether an expired commit rewrote data is not visible, so all of them together
count with at most as many records as the table has gained. Tables of format version 1 have no sequence numbers: there it is lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

ADDED, DELETED = 1, 2  # the status of a manifest's entry, by the Iceberg specification
DATA, POSITION_DELETES = 0, 1  # the content of a file
ROW_ID = 2_147_483_540
"""The id of the column of row ids, by the Iceberg specification."""
MAX_KNOWN_EFFECTS = 100


@dataclass(slots=True)
class Gain:
    """Files, records and bytes that were gained, and the names of the partitions that gained records."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    partitions: set[str] = field(default_factory=set)

    def net(self, partitions: set[str]) -> Gain:
        """Return the gain of these partitions, which is none without a gain of records."""
        return Gain() if self.records <= 0 else Gain(max(0, self.files), self.records, max(0, self.bytes), partitions)

    def add(self, other: Gain) -> None:
        self.files += other.files
        self.records += other.records
        self.bytes += other.bytes
        self.partitions |= other.partitions

    def count(self, file: DataFile, sign: int = 1) -> None:
        self.files += sign
        self.records += sign * file.record_count
        self.bytes += sign * file.file_size_in_bytes


@dataclass(frozen=True, slots=True)
class SnapshotEffect:
    """What a snapshot did to its table.

    :ivar gained: what the table has more of.
    :ivar changed: of each partition, what was added or what was removed, whichever is more. With copy-on-write that includes the
        unchanged rows of rewritten files.
    """

    gained: Gain
    changed: Gain


@dataclass(slots=True)
class _Change:
    """What happened to one partition.

    :ivar added: what its new files contain.
    :ivar removed: what its removed files contained and its delete files delete.
    :ivar fresh: what is new in its new files, by their row ids; ``None`` if the metrics of one of them lack it.
    :ivar equality_deletes: delete files that do not record how many rows they delete.
    :ivar took: whether anything was removed.
    """

    name: str
    added: Gain = field(default_factory=Gain)
    removed: Gain = field(default_factory=Gain)
    fresh: Gain | None = field(default_factory=Gain)
    equality_deletes: int = 0
    took: bool = False

    def note(self, file: DataFile, sign: int) -> None:
        if file.content == DATA:
            (self.added if sign > 0 else self.removed).count(file)
            self.fresh = _with_new_rows(self.fresh, file) if sign > 0 else self.fresh
            self.took |= sign < 0
        elif file.content == POSITION_DELETES:
            self.removed.records += sign * file.record_count
            self.took |= sign > 0
        elif sign > 0:
            self.equality_deletes += file.record_count

    @property
    def balance(self) -> Gain:
        added, removed = self.added, self.removed
        return Gain(added.files - removed.files, added.records - removed.records, added.bytes - removed.bytes)

    def gain(self, *, replaces: bool) -> Gain:
        if not self.added.files:
            return Gain()
        if self.fresh is not None:
            return self.fresh.net({self.name})
        if replaces or not self.took:
            return replace(self.added, partitions={self.name})
        return self.balance.net({self.name})

    def change(self) -> Gain:
        added, removed = self.added, self.removed
        records = max(added.records, removed.records + self.equality_deletes)
        return Gain(max(added.files, removed.files), records, max(added.bytes, removed.bytes)).net({self.name})


def _with_new_rows(fresh: Gain | None, file: DataFile) -> Gain | None:
    """Add the rows of a new file that have no row id yet, with their share of its bytes."""
    new = (file.null_value_counts or {}).get(ROW_ID)
    if fresh is None or new is None:
        return None
    if new:
        fresh.add(Gain(1, new, file.file_size_in_bytes * new // file.record_count))
    return fresh


_lock = threading.Lock()
_known: OrderedDict[tuple[str, int, str], Future[SnapshotEffect]] = OrderedDict()


def read_effect(table: Table, snapshot: Snapshot) -> SnapshotEffect:
    """Return what a snapshot did; the result is shared and must not be changed.

    A snapshot and its manifest list never change, so the latest effects are cached: in one process, many readers may count the
    arrivals of one table, also concurrently.
    """
    key = (str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.manifest_list)
    with _lock:
        known = _known.get(key)
        effect = _known[key] = known or Future()
        _known.move_to_end(key)
        while len(_known) > MAX_KNOWN_EFFECTS:
            _known.popitem(last=False)
    if known is None:
        try:
            effect.set_result(_read_effect(table, snapshot))
        except BaseException as problem:  # noqa: BLE001 - it is raised here, and in the threads that wait for this reading
            with _lock:
                _known.pop(key, None)  # the next count reads again
            effect.set_exception(problem)
    return effect.result()


def _read_effect(table: Table, snapshot: Snapshot) -> SnapshotEffect:
    changes: dict[str, _Change] = {}
    added_specs: set[int] = set()
    removed_specs: set[int] = set()
    for spec_id, sign, file in _changed_files(table, snapshot):
        (added_specs if sign > 0 else removed_specs).add(spec_id)
        name = table.specs()[spec_id].partition_to_path(file.partition, table.schema())
        changes.setdefault(name, _Change(name)).note(file, sign)
    replaces = snapshot.summary is not None and snapshot.summary["replace-partitions"] == "true"
    gained = _total(change.gain(replaces=replaces) for change in changes.values())
    has_lineage = all(change.fresh is not None for change in changes.values())
    if not (removed_specs <= added_specs or replaces or has_lineage):
        # Rewritten rows may have moved to the partitions of another spec: only the sums can be compared.
        gained = _total(change.balance for change in changes.values()).net(gained.partitions)
    return SnapshotEffect(gained, _total(change.change() for change in changes.values()))


def _total(gains: Iterable[Gain]) -> Gain:
    total = Gain()
    for gain in gains:
        total.add(gain)
    return total


def _changed_files(table: Table, snapshot: Snapshot) -> Iterator[tuple[int, int, DataFile]]:
    """Yield the files that a snapshot added (``1``) and removed (``-1``), with their partition specs."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status in (ADDED, DELETED) and entry.snapshot_id in (None, snapshot.snapshot_id):
                yield manifest.partition_spec_id, 1 if entry.status == ADDED else -1, entry.data_file


@dataclass(slots=True)
class ExpiredGain:
    """What one expired commit brought; its snapshot is ``None`` if only a later commit names its files."""

    sequence: int
    snapshot_id: int | None = None
    gain: Gain = field(default_factory=Gain)


def read_expired_gains(table: Table, oldest: Snapshot, after: int, gained: int | None) -> list[ExpiredGain]:
    """Return what the commits brought that are missing between a sequence number and a snapshot, the oldest first.

    Only commits whose data the snapshot still names are known: numbers are also missing where a branch was dropped.

    :param oldest: the oldest remaining snapshot after the number.
    :param gained: how many records the table has gained by all of them; ``None`` if unknown.
    """
    found: dict[int, ExpiredGain] = {}
    for spec_id, entry in _entries_after(table, oldest, after):
        assert entry.sequence_number is not None, "only numbered entries come after a number"
        expired = found.setdefault(entry.sequence_number, ExpiredGain(entry.sequence_number))
        expired.gain.count(entry.data_file)
        expired.gain.partitions.add(table.specs()[spec_id].partition_to_path(entry.data_file.partition, table.schema()))
        if entry.status != DELETED:
            expired.snapshot_id = entry.snapshot_id
    in_order = [found[sequence] for sequence in sorted(found)]
    if gained is None:
        return in_order
    for expired in in_order:
        expired.gain.records = max(0, min(expired.gain.records, gained))
        gained -= expired.gain.records
    return in_order


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
    """Return how many records the table has at a snapshot; ``None`` if its summary has no number."""
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
