"""Reads each manifest of a loaded table once, however many questions are answered from it.

    >>> reader = MetadataReader(table)  # doctest: +SKIP
    >>> files = reader.files()  # doctest: +SKIP
    >>> len(files.data), sum(file.bytes for file in files.data)  # doctest: +SKIP
    (1284, 81604378)

The invariant: metadata only. A reader opens a manifest list or a manifest once (about 0.6 ms a manifest from a local disk), and
never a data file. It keeps what plans need of the entries, without the bounds of columns.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from airflow_snowpack.iceberg.avro_columns import AvroColumns, read_blocks
from airflow_snowpack.iceberg.catalog import check_refs, connection_errors, unreadable_errors
from airflow_snowpack.iceberg.locations import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    PartitionKey = tuple[int, tuple[Any, ...]]
    Place = tuple[str, int, int, int, tuple[Any, ...], int]

# Field ids of the Iceberg specification, of manifests and of position-delete files.
STATUS, SNAPSHOT_ID, SEQUENCE, PATH, FORMAT, PARTITION, RECORDS, BYTES = 0, 1, 3, 100, 101, 102, 103, 104
LOWER_BOUNDS, UPPER_BOUNDS, CONTENT, REFERENCED_DATA_FILE, CONTENT_BYTES = 125, 128, 134, 143, 145
DELETE_PATH_FIELD = 2147483546
DELETED, EQUALITY_DELETES = 2, 2
REQUIRED = (STATUS, PATH, BYTES, RECORDS, PARTITION)
COLUMNS = (STATUS, SEQUENCE, PATH, BYTES, RECORDS, PARTITION)
ABOUT_ONE_FILE = (REFERENCED_DATA_FILE, LOWER_BOUNDS, UPPER_BOUNDS)
DATA_READER = AvroColumns(COLUMNS, required=REQUIRED)
DELETE_READER = AvroColumns((*COLUMNS, CONTENT, FORMAT, *ABOUT_ONE_FILE), required=(*REQUIRED, CONTENT, FORMAT))


class MetadataReader:
    """The contents of the manifests of one table.

    :param table: as it was loaded; later commits are not seen.
    :param keep_bytes: also keep the manifests themselves in memory, for PyIceberg's scans of :attr:`scanned`.
    :raises TableUnreadable: a branch or tag names a snapshot that the table does not have.
    """

    def __init__(self, table: Table, *, keep_bytes: bool = False) -> None:
        check_refs(table)
        self.table = table
        self.io: FileIO = table.io
        if keep_bytes:
            from airflow_snowpack.iceberg.read_once import ReadOnce

            self.io = ReadOnce(table.io)
        self._manifests: dict[int, tuple[ManifestFile, ...]] = {}
        self._contents: dict[str, tuple[LiveFile | LiveDelete, ...]] = {}
        self._files: dict[str | None, TableFiles] = {}

    @property
    def scanned(self) -> Table:
        """The same table, whose scans read through this reader."""
        from pyiceberg.table import Table

        table = self.table
        return Table(table.name(), table.metadata, table.metadata_location, self.io, table.catalog)

    def manifests(self, snapshot: Snapshot | None) -> tuple[ManifestFile, ...]:
        """Return the manifests of a snapshot, from its manifest list."""
        if snapshot is None:
            return ()
        if snapshot.snapshot_id not in self._manifests:
            self._manifests[snapshot.snapshot_id] = tuple(read_manifest_list(snapshot, self.io))
        return self._manifests[snapshot.snapshot_id]

    def contents(self, manifest: ManifestFile) -> tuple[LiveFile | LiveDelete, ...]:
        """Return the files that are live in a manifest."""
        if manifest.manifest_path not in self._contents:
            self._contents[manifest.manifest_path] = read_entries(manifest, self.io)
        return self._contents[manifest.manifest_path]

    def files(self, branch: str | None = None) -> TableFiles:
        """Return the files of a branch's current snapshot; ``None`` is main."""
        if branch not in self._files:
            snapshot = self.table.current_snapshot() if branch is None else self.table.snapshot_by_name(branch)
            manifests = self.manifests(snapshot)
            contents = [each for manifest in manifests for each in self.contents(manifest)]
            data = tuple(each for each in contents if isinstance(each, LiveFile))
            deletes = tuple(each for each in contents if isinstance(each, LiveDelete))
            self._files[branch] = TableFiles(data, deletes, manifests)
        return self._files[branch]

    def manifests_of(self, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
        """Return the manifests of these snapshots by path, each one once."""
        return {manifest.manifest_path: manifest for snapshot in snapshots for manifest in self.manifests(snapshot)}

    def live_in(self, manifests: Iterable[ManifestFile]) -> dict[str, LiveFile | LiveDelete]:
        """Return the data and delete files that are live in these manifests, by path."""
        return {file.path: file for manifest in manifests for file in self.contents(manifest)}

    def referenced_files(self, spelling: Callable[[str], str] = normalise) -> frozenset[str]:
        """Return every file that any snapshot of the table can still read.

        These are metadata files, statistics, manifest lists, manifests, data and delete files; as for Iceberg's
        ``remove_orphan_files``, not metadata files that have left the log (``write.metadata.previous-versions-max``).

        :param spelling: returns a path in the spelling in which the files are compared.
        """
        table, metadata = self.table, self.table.metadata
        manifests = self.manifests_of(metadata.snapshots)
        named = {
            table.metadata_location,
            f"{table.location()}/metadata/version-hint.text",
            *(entry.metadata_file for entry in metadata.metadata_log),
            *(statistics.statistics_path for statistics in (*metadata.statistics, *metadata.partition_statistics)),
            *(snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list),
            *manifests,
            *self.live_in(manifests.values()),
        }
        return frozenset(map(spelling, named))


class DeleteKind(StrEnum):
    """How a delete file names the deleted rows."""

    POSITION = "position"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True)
class _LiveEntry:
    """A file of the current snapshot.

    :param records: rows in the file, including deleted ones.
    :param partition: the values of its partition spec, transformed.
    :param sequence: the sequence number of its commit; deletes apply to data of their own age or older.
    """

    path: str
    bytes: int
    records: int
    spec_id: int
    partition: tuple[Any, ...]
    sequence: int

    @property
    def partition_key(self) -> PartitionKey:
        return (self.spec_id, self.partition)


class LiveFile(_LiveEntry):
    """A data file that the current snapshot reads."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LiveDelete(_LiveEntry):
    """A delete file that the current snapshot applies.

    :param data_file: the only data file to which it applies; ``None`` if it may apply to several.
    """

    kind: DeleteKind
    data_file: str | None = None

    def applies_at(self, sequence: int) -> bool:
        """Return whether it is new enough for data with this sequence number."""
        return self.sequence > sequence if self.kind is DeleteKind.EQUALITY else self.sequence >= sequence


@dataclass(frozen=True)
class TableFiles:
    """The files of the current snapshot."""

    data: tuple[LiveFile, ...] = ()
    deletes: tuple[LiveDelete, ...] = ()
    manifests: tuple[ManifestFile, ...] = ()

    def deletes_of(self, file: LiveFile) -> tuple[LiveDelete, ...]:
        """Return the delete files that a reader of this data file applies."""
        by_path, by_partition, everywhere = self._deletes
        candidates = (*by_path.get(file.path, ()), *by_partition.get(file.partition_key, ()), *everywhere)
        return tuple(delete for delete in candidates if delete.applies_at(file.sequence))

    @cached_property
    def _deletes(self) -> tuple[dict[str, list[LiveDelete]], dict[PartitionKey, list[LiveDelete]], list[LiveDelete]]:
        by_path: dict[str, list[LiveDelete]] = defaultdict(list)
        by_partition: dict[PartitionKey, list[LiveDelete]] = defaultdict(list)
        everywhere: list[LiveDelete] = []
        for delete in self.deletes:
            if delete.data_file is not None:
                by_path[delete.data_file].append(delete)
            elif delete.kind is DeleteKind.EQUALITY and not delete.partition:
                # An equality delete of an unpartitioned spec applies to every partition (Iceberg specification, scan planning).
                everywhere.append(delete)
            else:
                by_partition[delete.partition_key].append(delete)
        return by_path, by_partition, everywhere


def read_manifest_list(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
    """Return the manifests of a snapshot.

    :raises ValueError: the manifest list is damaged; PyIceberg raises anything then, even ``KeyError`` or ``zlib.error``.
    """
    try:
        return snapshot.manifests(io)
    except (*unreadable_errors(), *connection_errors()):
        raise
    except Exception as error:
        raise ValueError(f"{snapshot.manifest_list} is not a valid manifest list: {error!r}") from error


def read_entries(manifest: ManifestFile, io: FileIO) -> tuple[LiveFile | LiveDelete, ...]:
    """Return the live files of a manifest: data files of a data manifest, delete files of any other.

    :raises OSError: the manifest cannot be opened.
    :raises ValueError: it is damaged.
    """
    from pyiceberg.manifest import ManifestContent

    entries = read_blocks(io.new_input(manifest.manifest_path))
    # Equal, not identical: format version 1 leaves the content out, and PyIceberg reads a bare 0.
    if manifest.content == ManifestContent.DATA:
        return tuple(LiveFile(*place) for place, _ in _live(manifest, DATA_READER.rows(entries)))
    found = list[LiveDelete]()
    for place, (content, format_, *about) in _live(manifest, DELETE_READER.rows(entries)):
        kind = kind_of(content, format_)
        about_one = None if kind is DeleteKind.EQUALITY else only_data_file(*about)
        found.append(LiveDelete(*place, kind=kind, data_file=about_one))
    return tuple(found)


def _live(manifest: ManifestFile, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Place, tuple[Any, ...]]]:
    for status, sequence, path, size, records, partition, *rest in rows:
        if status != DELETED:
            # Added entries leave it out and inherit the manifest's (Iceberg specification, sequence number inheritance).
            sequence = (manifest.sequence_number or 0) if sequence is None else sequence
            yield (path, size, records, manifest.partition_spec_id, partition, sequence), tuple(rest)


def kind_of(content: int, file_format: str) -> DeleteKind:
    if content == EQUALITY_DELETES:
        return DeleteKind.EQUALITY
    return DeleteKind.VECTOR if file_format.upper() == "PUFFIN" else DeleteKind.POSITION


def only_data_file(referenced: str | None, lower: list[tuple[int, bytes]] | None, upper: Any) -> str | None:
    """Return the only data file of a position-delete file: by its field, or because its lower and upper path are equal."""
    if referenced:
        return referenced
    lowest, highest = (dict(bounds or ()).get(DELETE_PATH_FIELD) for bounds in (lower, upper))
    return lowest.decode() if lowest and lowest == highest else None


def partition_label(table: Table, key: PartitionKey) -> str:
    """Format a partition for people: ``"month=3/carrier=UA"``, or ``""`` without partitions."""
    from pyiceberg.typedef import Record

    spec_id, values = key
    return unquote_plus(table.specs()[spec_id].partition_to_path(Record(*values), table.schema()))
