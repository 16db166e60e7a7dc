"""What a snapshot brought to its table: the net gain of records and files, read from its manifests.

    gain = read_gain(table, snapshot)
    gain.records, gain.partitions            # a gain without partitions is none

An append brings all that it adds. An overwrite brings what its partitions have more of than before: a copy-on-write DELETE or
UPDATE writes the rows that stay once more, and a merge-on-read UPDATE deletes the old rows by position. A partition from which
nothing was removed gets all of its files, and so does every partition of an overwrite that replaces whole partitions (Iceberg's
``replace-partitions``): what it writes was not there before. Equality deletes do not record how many rows they delete and are
left out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

ADDED, DELETED = 1, 2  # the status of a manifest's entry, by the Iceberg specification
DATA, POSITION_DELETES = 0, 1  # the content of a file
MAX_KNOWN_GAINS = 100


@dataclass(slots=True)
class Gain:
    """Files, records and bytes that were gained, and the names of the partitions that gained records."""

    files: int = 0
    records: int = 0
    bytes: int = 0
    partitions: set[str] = field(default_factory=set)

    def add(self, other: Gain) -> None:
        self.files += other.files
        self.records += other.records
        self.bytes += other.bytes
        self.partitions |= other.partitions

    def count(self, file: DataFile, sign: int = 1) -> None:
        self.files += sign
        self.records += sign * file.record_count
        self.bytes += sign * file.file_size_in_bytes


@dataclass(slots=True)
class _Change:
    """What happened to one partition.

    :ivar added: what its new files hold.
    :ivar net: the same without what was removed.
    :ivar took: whether anything was removed.
    """

    name: str
    added: Gain = field(default_factory=Gain)
    net: Gain = field(default_factory=Gain)
    took: bool = False

    def note(self, file: DataFile, sign: int) -> None:
        if file.content == DATA:
            self.net.count(file, sign)
            if sign > 0:
                self.added.count(file)
            self.took |= sign < 0
        elif file.content == POSITION_DELETES:
            self.net.records -= sign * file.record_count
            self.took |= sign > 0

    def gain(self, *, replaces: bool) -> Gain:
        if not self.added.files:
            return Gain()
        if replaces or not self.took:
            return Gain(self.added.files, self.added.records, self.added.bytes, {self.name})
        if self.net.records <= 0:
            return Gain()
        return Gain(max(0, self.net.files), self.net.records, max(0, self.net.bytes), {self.name})


class _KnownGains:
    """What the snapshots brought that were read last: in one process, many may count what arrives in the same table.

    A snapshot and its list of manifests never change, so they are read once, also for threads that count at the same time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gains: OrderedDict[tuple[str, int, str], Future[Gain]] = OrderedDict()

    def get(self, table: Table, snapshot: Snapshot) -> Gain:
        key = (str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.manifest_list)
        with self._lock:
            known = self._gains.get(key)
            gain = self._gains[key] = known or Future()
            self._gains.move_to_end(key)
            while len(self._gains) > MAX_KNOWN_GAINS:
                self._gains.popitem(last=False)
        if known is None:
            try:
                gain.set_result(_read_gain(table, snapshot))
            except BaseException as problem:  # noqa: BLE001 - it is raised here, and in the threads that wait for this reading
                with self._lock:
                    self._gains.pop(key, None)  # the next count reads again
                gain.set_exception(problem)
        return gain.result()


_known_gains = _KnownGains()


def read_gain(table: Table, snapshot: Snapshot) -> Gain:
    """Return what a snapshot brought; it is shared, and not to be changed."""
    return _known_gains.get(table, snapshot)


def _read_gain(table: Table, snapshot: Snapshot) -> Gain:
    changes: dict[str, _Change] = {}
    added_specs: set[int] = set()
    removed_specs: set[int] = set()
    for spec_id, sign, file in _changed_files(table, snapshot):
        (added_specs if sign > 0 else removed_specs).add(spec_id)
        name = table.specs()[spec_id].partition_to_path(file.partition, table.schema())
        changes.setdefault(name, _Change(name)).note(file, sign)
    replaces = snapshot.summary is not None and snapshot.summary["replace-partitions"] == "true"
    gains = [change.gain(replaces=replaces) for change in changes.values()]
    if removed_specs <= added_specs or replaces:
        return _total(gains)
    # What was rewritten may have moved to the partitions of another spec, so only the sums can be compared.
    net = _total(change.net for change in changes.values())
    if net.records <= 0:
        return Gain()
    return Gain(max(0, net.files), net.records, max(0, net.bytes), _total(gains).partitions)


def _total(gains: Iterable[Gain]) -> Gain:
    total = Gain()
    for gain in gains:
        total.add(gain)
    return total


def _changed_files(table: Table, snapshot: Snapshot) -> Iterator[tuple[int, int, DataFile]]:
    """The files that a snapshot added (``1``) and removed (``-1``), with their partition specs."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status in (ADDED, DELETED) and entry.snapshot_id in (None, snapshot.snapshot_id):
                yield manifest.partition_spec_id, 1 if entry.status == ADDED else -1, entry.data_file
