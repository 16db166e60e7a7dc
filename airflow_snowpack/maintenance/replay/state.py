"""The simulated state of a table: the commits of its writers, with simulated maintenance instead of the recorded one.

Simulated files consist of shares of files that writers wrote, their *sources*. When a writer's commit removes a file that was
compacted, by the simulation or in the recorded history, its shares of sources are removed, which shrinks the simulated files.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.metadata_reader import DeleteKind, LiveDelete, LiveFile, TableFiles, partition_label
from airflow_snowpack.maintenance.replay.history import ReplayedManifest, key_of
from airflow_snowpack.maintenance.replay.model import Point

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from airflow_snowpack.iceberg.metadata_reader import PartitionKey
    from airflow_snowpack.maintenance.replay.history import Commit, File, Key, TableHistory

GONE = 1e-6
"""A smaller share of a source is a rounding error."""
FIRST_ID = -1_000_000
"""Simulated snapshots have ids below this one; a plan numbers the commits that it expects from -1 downwards."""
SMALLEST_MANIFEST = 4096
BYTES_PER_ENTRY = 150
"""In a simulated manifest."""


@dataclass(slots=True)
class WrittenFile:
    """The rest of a file that a writer wrote.

    :param bytes, records: of the whole file, spread evenly over the simulated files that contain it.
    :param inside: the paths of these files; its path until it is compacted.
    :param share: the remaining share, from 0 to 1.
    """

    bytes: float
    records: float
    inside: set[str]
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A simulated snapshot; ``number`` is its position among all snapshots of the replay."""

    snapshot_id: int
    number: int
    at: datetime
    operation: str


@dataclass(frozen=True, slots=True)
class Dead:
    """A file that is not in the current snapshot; ``born`` and ``died`` number the first snapshots with and then without it."""

    bytes: int
    born: int
    died: int


class SimulatedTable:
    """The state of one simulation.

    :ivar data: the data files, by path.
    :ivar deletes: the delete files, by their key in the recorded history.
    :ivar newest_at: by partition, when a writer last added a file since the start.
    :ivar sequence: the last sequence number of a writer.
    """

    def __init__(self, history: TableHistory) -> None:
        self.table = history.table
        self._ratio = history.compaction_ratio
        self.data: dict[str, LiveFile] = {}
        self.deletes: dict[Key, LiveDelete] = {}
        self.manifests: dict[str, ReplayedManifest] = {}
        self.snapshots: list[Snapshot] = []
        self.dead: list[Dead] = []
        self.newest_at: dict[PartitionKey, datetime] = {}
        self.sequence = 0
        self._labels: dict[PartitionKey, str] = {}
        self._born: dict[Key, int] = {}
        self._manifest_of: dict[Key, str] = {}
        self._live_bytes = self._dead_bytes = 0
        self._sources: dict[str, WrittenFile] = {}
        self._sources_in: dict[str, set[str]] = defaultdict(set)
        self._recorded: dict[str, dict[str, float]] = {}
        self._names = count(1)
        for snapshot_id, at in history.earlier:
            self._add_snapshot(snapshot_id, at, "unknown")
        self.write(history.start)

    def write(self, commit: Commit) -> None:
        """Apply a commit of a writer."""
        is_start = not self.manifests and not self.data
        self._add_snapshot(commit.snapshot_id, commit.at, commit.operation)
        # The simulation has no manifests of recorded maintenance, so their replacements are not new in it.
        unknown = sum(each.bytes for each in commit.removed_manifests if self.manifests.pop(each.path, None) is None)
        for file in commit.removed:
            if isinstance(file, LiveFile):
                for source, share in self._recorded.pop(file.path, {file.path: 1.0}).items():
                    self._take(source, share)
            else:
                self.drop(key_of(file))
        self.sequence = max(self.sequence, commit.sequence)
        for file in commit.added:
            if not is_start:
                self.newest_at[file.partition_key] = commit.at
            if isinstance(file, LiveFile):
                self.add(file.path, file)
                self._sources[file.path] = WrittenFile(file.bytes, file.records, {file.path})
                self._sources_in[file.path] = {file.path}
            else:
                self.add(key_of(file), replace(file, data_file=self._holder(file.data_file)))
        self._write_manifests(commit, unknown)

    def skip(self, commit: Commit) -> None:
        """Skip recorded maintenance, and track the sources of the files that it wrote."""
        made_of: dict[PartitionKey, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for file in commit.removed:
            if isinstance(file, LiveFile):
                for source, share in self._recorded.pop(file.path, {file.path: 1.0}).items():
                    made_of[file.partition_key][source] += share
        for partition, files in _by_partition(commit.added).items():
            # If nothing of the partition was removed, its sources are of another partition spec.
            shares = made_of.get(partition) or {source: share for each in made_of.values() for source, share in each.items()}
            records = sum(file.records for file in files) or 1
            for file in files:
                self._recorded[file.path] = {source: share * file.records / records for source, share in shares.items()}

    def replace_data(self, group: Sequence[LiveFile], outputs: int, snapshot: Snapshot) -> list[LiveFile]:
        """Compact data files, apply deletes of exactly these files, and return the new files.

        Deletion vectors go with their data files. Position deletes stay until all data files are newer.
        """
        paths = {file.path for file in group}
        applied = {key: delete for key, delete in self.deletes.items() if delete.data_file in paths}
        deleted = sum(delete.records for delete in applied.values() if delete.kind is not DeleteKind.EQUALITY)
        size, records, first = sum(file.bytes for file in group), sum(file.records for file in group), group[0]
        left = max(1 - deleted / records, 0.0) if records else 1.0
        sources = {name for path in paths for name in self._sources_in.pop(path, ())}
        vectors = [key for key, delete in applied.items() if delete.kind is DeleteKind.VECTOR]
        for key in (*paths, *vectors):
            self.drop(key)
        share = left * self._ratio if len(group) > outputs else left
        place = (round(size * share / outputs), round(records * left / outputs), first.spec_id, first.partition, self.sequence)
        written = [LiveFile(f"simulated-{next(self._names)}", *place) for _ in range(outputs)]
        for file in written:
            self.add(file.path, file, snapshot)
            self._sources_in[file.path] = set(sources)
        for name in sources:
            source = self._sources[name]
            inside = len(source.inside & paths) / len(source.inside)
            source.bytes *= 1 - (1 - share) * inside
            source.records *= 1 - (1 - left) * inside
            source.inside = (source.inside - paths) | {file.path for file in written}
        return written

    def add(self, key: Key, file: File, snapshot: Snapshot | None = None) -> None:
        if isinstance(file, LiveFile):
            self.data[file.path] = file
        else:
            self.deletes[key] = file
        self._born[key] = (snapshot or self.snapshots[-1]).number
        self._live_bytes += file.bytes

    def drop(self, key: Key) -> None:
        """Remove a file from the current snapshot, if it is there."""
        found = self.data.pop(key, None) if isinstance(key, str) else self.deletes.pop(key, None)
        if found is not None:
            self._keep_for_older_snapshots(found.bytes, self._born.pop(key))
            self._live_bytes -= found.bytes
            self._drop_entry(key)

    def emptied(self) -> set[Key]:
        """Return the delete files of whole partitions whose data files are all newer: the files that they name are gone."""
        oldest: dict[PartitionKey, int] = {}
        for path, file in self.data.items():
            oldest[file.partition_key] = min(oldest.get(file.partition_key, self._born[path]), self._born[path])
        return {
            key
            for key, delete in self.deletes.items()
            if delete.data_file is None and self._born[key] < oldest.get(delete.partition_key, self._born[key] + 1)
        }

    def drop_outlived_deletes(self) -> None:
        """Drop the delete files that are older than all data files, as Iceberg's commits do."""
        oldest = min((file.sequence for file in self.data.values()), default=self.sequence)
        for key in [key for key, delete in self.deletes.items() if delete.sequence < oldest]:
            self.drop(key)

    def commit(self, at: datetime, operation: str = "replace") -> Snapshot:
        """Begin a snapshot of the simulation."""
        return self._add_snapshot(FIRST_ID - next(self._names), at, operation)

    def expire(self, kept: list[Snapshot], needed: list[Dead]) -> None:
        """Keep only these snapshots, and only these files that the current one does not have."""
        self.snapshots, self.dead = kept, needed
        self._dead_bytes = sum(each.bytes for each in needed)

    def write_manifest(self, keys: set[Key], *, spec_id: int, is_data: bool, size: int | None = None) -> None:
        """Add a manifest of a simulated commit; without a size in bytes, it is estimated."""
        if keys:
            size = SMALLEST_MANIFEST + BYTES_PER_ENTRY * len(keys) if size is None else size
            self._hold(ReplayedManifest(f"simulated-{next(self._names)}", size, is_data, spec_id, keys))

    @property
    def files(self) -> TableFiles:
        """The files of the current snapshot, as the rules of actions read them."""
        return TableFiles(tuple(self.data.values()), tuple(self.deletes.values()))

    def file(self, key: Key) -> File:
        """Return a file of the current snapshot.

        :raises KeyError: the snapshot does not have it.
        """
        return self.data[key] if isinstance(key, str) else self.deletes[key]

    def partition_keys(self) -> set[PartitionKey]:
        return {file.partition_key for file in (*self.data.values(), *self.deletes.values())}

    def label(self, key: PartitionKey) -> str:
        """Return the display name of a partition."""
        if key not in self._labels:
            self._labels[key] = partition_label(self.table, key)
        return self._labels[key]

    def point(self, at: datetime) -> Point:
        """Return the current numbers of the table."""
        stored = self._live_bytes + self._dead_bytes
        return Point(at, len(self.data), len(self.deletes), len(self.snapshots), len(self.manifests), stored)

    def _add_snapshot(self, snapshot_id: int, at: datetime, operation: str) -> Snapshot:
        number = self.snapshots[-1].number + 1 if self.snapshots else 0
        self.snapshots.append(Snapshot(snapshot_id, number, at, operation))
        return self.snapshots[-1]

    def _holder(self, data_file: str | None) -> str | None:
        """Return the simulated file that contains most of a recorded one; ``None`` if unknown."""
        if data_file is None or data_file in self.data:
            return data_file
        shares = self._recorded.get(data_file, {data_file: 1.0})
        held = [self._sources[source] for source in shares if source in self._sources]
        return min(held[0].inside) if held else None

    def _take(self, name: str, share: float) -> None:
        """Remove a share of a source, as a writer's commit does."""
        source = self._sources.get(name)
        if source is None:
            return
        taken = min(share, source.share)
        source.share -= taken
        is_gone = source.share <= GONE
        if is_gone:
            del self._sources[name]
        for path in source.inside:
            if is_gone:
                self._sources_in[path].discard(name)
            if self._sources_in[path]:
                part = taken / len(source.inside)
                self._shrink(path, round(part * source.bytes), round(part * source.records))
            else:
                del self._sources_in[path]
                self.drop(path)

    def _shrink(self, path: str, size: int, records: int) -> None:
        file = self.data[path]
        size = min(size, file.bytes - 1)
        self.data[path] = replace(file, bytes=file.bytes - size, records=max(file.records - records, 1))
        self._live_bytes -= size
        self._keep_for_older_snapshots(size, self._born[path])

    def _keep_for_older_snapshots(self, size: int, born: int) -> None:
        """Keep bytes that only older snapshots need."""
        self.dead.append(Dead(size, born, self.snapshots[-1].number))
        self._dead_bytes += size

    def _write_manifests(self, commit: Commit, unknown: int) -> None:
        for manifest in commit.added_manifests:
            # The simulation has no files of recorded maintenance.
            live = {key for key in manifest.files if key in self._born}
            if live or not manifest.files:
                size = max(manifest.bytes - unknown, SMALLEST_MANIFEST) if unknown else manifest.bytes
                self._hold(replace(manifest, bytes=size, files=live))

    def _hold(self, manifest: ReplayedManifest) -> None:
        self.manifests[manifest.path] = manifest
        self._manifest_of.update(dict.fromkeys(manifest.files, manifest.path))

    def _drop_entry(self, key: Key) -> None:
        """Remove a file from its manifest, and drop the manifest if it becomes empty."""
        path = self._manifest_of.pop(key, "")
        manifest = self.manifests.get(path)
        if manifest is None or key not in manifest.files:
            return
        manifest.bytes = max(manifest.bytes - manifest.bytes // len(manifest.files), min(manifest.bytes, SMALLEST_MANIFEST))
        manifest.files.discard(key)
        if not manifest.files:
            del self.manifests[path]


def _by_partition(files: Iterable[File]) -> dict[PartitionKey, list[LiveFile]]:
    found: dict[PartitionKey, list[LiveFile]] = defaultdict(list)
    for file in files:
        if isinstance(file, LiveFile):
            found[file.partition_key].append(file)
    return found
