"""Reads the manifests of a table as it was loaded, each of them once, however many questions are answered from them.

    >>> reader = MetadataReader(table)  # doctest: +SKIP
    >>> files = reader.files()  # doctest: +SKIP
    >>> len(files.data), sum(file.bytes for file in files.data)  # doctest: +SKIP
    (1284, 81604378)

The invariant: metadata only. A manifest list or a manifest is opened once in the life of a reader (about 0.6 ms a manifest from a
local disk), and a data file never. What is kept of a manifest is what plans need of its entries: bounds of columns are not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from airflow_snowpack.iceberg.catalog import connection_errors, unreadable_errors
from airflow_snowpack.iceberg.locations import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    PartitionKey = tuple[int, tuple[Any, ...]]

# The column of a position-delete file that names the data file (Iceberg specification, reserved field ids).
DELETE_PATH_FIELD = 2147483546
REFERENCED_DATA_FILE_FIELD = 143


class MetadataReader:
    """The contents of the manifests of one table.

    :param table: as it was loaded; later commits are not seen.
    :param keep_bytes: keep the manifests themselves in memory too, for PyIceberg's own scans of :attr:`scanned`.
    """

    def __init__(self, table: Table, *, keep_bytes: bool = False) -> None:
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
            self._contents[manifest.manifest_path] = read_entries(manifest, self.io, self.table.format_version)
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

    def referenced_files(self) -> frozenset[str]:
        """Return every file that any snapshot of the table can still read, in the spelling of :func:`.locations.normalise`.

        These are metadata files, statistics, manifest lists, manifests, data and delete files. Metadata files that have fallen
        out of the log (``write.metadata.previous-versions-max``) are not among them, as for Iceberg's ``remove_orphan_files``.
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
        return frozenset(normalise(location) for location in named)


class DeleteKind(StrEnum):
    """How a delete file names the rows that are gone."""

    POSITION = "position"
    VECTOR = "vector"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True)
class _LiveEntry:
    """A file of the current snapshot.

    :param records: rows in the file, deleted ones included.
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

    :param data_file: the only data file that it applies to; ``None`` when it may apply to several.
    """

    kind: DeleteKind
    data_file: str | None = None

    def applies_at(self, sequence: int) -> bool:
        """Whether it is young enough for data of that sequence number."""
        return self.sequence > sequence if self.kind is DeleteKind.EQUALITY else self.sequence >= sequence


@dataclass(frozen=True)
class TableFiles:
    """What the current snapshot is made of."""

    data: tuple[LiveFile, ...] = ()
    deletes: tuple[LiveDelete, ...] = ()
    manifests: tuple[ManifestFile, ...] = ()

    def deletes_of(self, file: LiveFile) -> tuple[LiveDelete, ...]:
        """The delete files that a reader of this data file applies."""
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

    :raises ValueError: the manifest list is damaged: PyIceberg raises anything then, such as ``KeyError`` and ``zlib.error``.
    """
    try:
        return snapshot.manifests(io)
    except (*unreadable_errors(), *connection_errors()):
        raise
    except Exception as error:
        raise ValueError(f"{snapshot.manifest_list} is not a valid manifest list: {error!r}") from error


def read_entries(manifest: ManifestFile, io: FileIO, format_version: int) -> tuple[LiveFile | LiveDelete, ...]:
    """Open a manifest and return its live files; those of a data manifest are data files, the others delete files."""
    from pyiceberg.manifest import ManifestContent

    # Equal and not identical: in format version 1 the content is left out, and PyIceberg reads a bare 0.
    if manifest.content == ManifestContent.DATA:
        return tuple(_live_file(entry) for entry in manifest.fetch_manifest_entry(io))
    return tuple(_live_delete(entry, manifest) for entry in _delete_entries(manifest, io, format_version))


def partition_label(table: Table, key: PartitionKey) -> str:
    """A partition for people: ``"month=3/carrier=UA"``, or ``""`` without partitions."""
    from pyiceberg.typedef import Record

    spec_id, values = key
    return unquote_plus(table.specs()[spec_id].partition_to_path(Record(*values), table.schema()))


def _live_file(entry: ManifestEntry) -> LiveFile:
    file = entry.data_file
    sequence = entry.sequence_number or 0
    return LiveFile(file.file_path, file.file_size_in_bytes, file.record_count, file.spec_id, _values(file), sequence)


def _live_delete(entry: ManifestEntry, manifest: ManifestFile) -> LiveDelete:
    from pyiceberg.manifest import DataFileContent, FileFormat

    file = entry.data_file
    if file.content == DataFileContent.EQUALITY_DELETES:
        kind, about = DeleteKind.EQUALITY, None
    else:
        kind = DeleteKind.VECTOR if file.file_format is FileFormat.PUFFIN else DeleteKind.POSITION
        about = _only_data_file(file)
    # Added entries leave it out and have the manifest's (Iceberg specification, sequence number inheritance).
    sequence = manifest.sequence_number if entry.sequence_number is None else entry.sequence_number
    place = (manifest.partition_spec_id, _values(file), sequence)
    return LiveDelete(file.file_path, file.file_size_in_bytes, file.record_count, *place, kind, about)


def _delete_entries(manifest: ManifestFile, io: FileIO, format_version: int) -> list[ManifestEntry]:
    """Return the live entries of a delete manifest, with the column that names the data file of a deletion vector."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
    )

    if format_version < 3:
        return manifest.fetch_manifest_entry(io)
    # PyIceberg 0.12 reads every manifest with the columns of format version 2, so this reads it with those of version 3.
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [entry for entry in reader if entry.status is not ManifestEntryStatus.DELETED]


def _only_data_file(file: DataFile) -> str | None:
    """Return the one data file of a position-delete file: by its own field, or because its lower and upper path are equal."""
    from pyiceberg.manifest import DATA_FILE_TYPE

    columns = [column.field_id for column in DATA_FILE_TYPE[3].fields]
    position = columns.index(REFERENCED_DATA_FILE_FIELD)
    if len(file) > position and file[position]:
        return str(file[position])
    lowest = (file.lower_bounds or {}).get(DELETE_PATH_FIELD)
    highest = (file.upper_bounds or {}).get(DELETE_PATH_FIELD)
    return lowest.decode() if lowest and lowest == highest else None


def _values(file: DataFile) -> tuple[Any, ...]:
    return tuple(file.partition[position] for position in range(len(file.partition)))
