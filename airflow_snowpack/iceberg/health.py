"""How a table is doing, and where: small files, deletes, manifests and snapshots, down to the partition.

    >>> health = read_health(table, now=utc_now())  # doctest: +SKIP
    >>> health.small_files, health.partitions[0].label, health.partitions[0].small_files  # doctest: +SKIP
    (847, 'month=7', 93)
    >>> read_numbers(table).to_metrics()  # doctest: +SKIP
    {'data_files': 1284, 'delete_files': 36, 'bytes': 81604378, 'records': 336776, …}

The invariant: metadata only, no JVM. :func:`read_health` reads each manifest of the current snapshot once. :func:`read_numbers`
is cheap enough to call around every action: the totals are in the summary that each commit writes into its snapshot, so it opens
one manifest list. Orphan files are not part of the health, since only a listing of the storage finds those.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg.metadata_reader import DeleteKind, MetadataReader, partition_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import LiveDelete, LiveFile, PartitionKey, TableFiles

TARGET_FILE_SIZE = 512 * 1024 * 1024
# A file below this share of the target is worth compacting (Iceberg's default for ``min-file-size-bytes``).
SMALL_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """One partition of the current snapshot.

    :param label: such as ``month=3``; empty for a table without partitions.
    :param bytes: of its data files.
    """

    label: str
    data_files: int
    small_files: int
    delete_files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotHealth:
    """A snapshot that the table still has."""

    snapshot_id: int
    committed_at: datetime
    age: timedelta
    operation: str


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag; its ``kind`` is ``branch`` or ``tag``."""

    name: str
    kind: str
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class TableHealth:
    """The health of a table, as maintenance needs it.

    :param small_files: data files below 75 % of the target size.
    :param small_files_bytes: what these have together.
    :param position_delete_files: Parquet (or Avro, ORC) files with positions; deletion vectors are counted apart.
    :param manifests_bytes: of the current snapshot's data and delete manifests.
    :param snapshots: oldest first.
    :param partitions: the one with most small files first.
    """

    table: str
    location: str
    format_version: int
    numbers: TableNumbers
    target_file_size_bytes: int
    small_files: int
    small_files_bytes: int
    data_bytes: int
    position_delete_files: int
    equality_delete_files: int
    deletion_vectors: int
    data_manifests: int
    delete_manifests: int
    manifests_bytes: int
    snapshots: tuple[SnapshotHealth, ...]
    refs: tuple[Ref, ...]
    partitions: tuple[PartitionHealth, ...]

    @property
    def small_files_ratio(self) -> float:
        """Small files as a share of all data files, 0 for a table without any."""
        return self.small_files / self.numbers.data_files if self.numbers.data_files else 0.0

    @property
    def average_file_bytes(self) -> float:
        """The mean size of a data file, 0 for a table without any."""
        return self.data_bytes / self.numbers.data_files if self.numbers.data_files else 0.0

    @property
    def oldest_snapshot_age(self) -> timedelta | None:
        return self.snapshots[0].age if self.snapshots else None

    def to_metrics(self) -> dict[str, int | float]:
        """The numbers by name, without the lists."""
        oldest = self.oldest_snapshot_age
        return {
            **self.numbers.to_metrics(),
            "small_files": self.small_files,
            "small_files_bytes": self.small_files_bytes,
            "small_files_ratio": round(self.small_files_ratio, 4),
            "average_file_bytes": round(self.average_file_bytes, 1),
            "position_delete_files": self.position_delete_files,
            "equality_delete_files": self.equality_delete_files,
            "deletion_vectors": self.deletion_vectors,
            "data_manifests": self.data_manifests,
            "delete_manifests": self.delete_manifests,
            "manifests_bytes": self.manifests_bytes,
            "partitions": len(self.partitions),
            "oldest_snapshot_seconds": round(oldest.total_seconds(), 3) if oldest is not None else 0,
        }


def read_health(table: Table, *, now: datetime, target_file_size_bytes: int = TARGET_FILE_SIZE) -> TableHealth:
    """Read the table as it was loaded.

    :param now: the moment that ages count from.
    :param target_file_size_bytes: what a good data file has; below 75 % of it a file is small.
    """
    from pyiceberg.manifest import ManifestContent

    reader = MetadataReader(table)
    files = reader.files()
    small = [file for file in files.data if file.bytes < target_file_size_bytes * SMALL_SHARE]
    kinds = [delete.kind for delete in files.deletes]
    contents = [manifest.content for manifest in files.manifests]
    return TableHealth(
        table=".".join(table.name()),
        location=table.location(),
        format_version=table.format_version,
        numbers=read_numbers(table, reader),
        target_file_size_bytes=target_file_size_bytes,
        small_files=len(small),
        small_files_bytes=sum(file.bytes for file in small),
        data_bytes=sum(file.bytes for file in files.data),
        position_delete_files=kinds.count(DeleteKind.POSITION),
        equality_delete_files=kinds.count(DeleteKind.EQUALITY),
        deletion_vectors=kinds.count(DeleteKind.VECTOR),
        data_manifests=contents.count(ManifestContent.DATA),
        delete_manifests=contents.count(ManifestContent.DELETES),
        manifests_bytes=sum(manifest.manifest_length for manifest in files.manifests),
        snapshots=_snapshots(table, now),
        refs=tuple(Ref(name, ref.snapshot_ref_type.value, ref.snapshot_id) for name, ref in sorted(table.metadata.refs.items())),
        partitions=_partitions(table, files, target_file_size_bytes),
    )


def _snapshots(table: Table, now: datetime) -> tuple[SnapshotHealth, ...]:
    aged = []
    for snapshot in table.metadata.snapshots:
        committed_at = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC)
        operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
        aged.append(SnapshotHealth(snapshot.snapshot_id, committed_at, now - committed_at, operation))
    return tuple(sorted(aged, key=lambda snapshot: snapshot.committed_at))


def _partitions(table: Table, files: TableFiles, target: int) -> tuple[PartitionHealth, ...]:
    data: dict[PartitionKey, list[LiveFile]] = defaultdict(list)
    deletes: dict[PartitionKey, list[LiveDelete]] = defaultdict(list)
    for file in files.data:
        data[file.partition_key].append(file)
    for delete in files.deletes:
        deletes[delete.partition_key].append(delete)
    partitions = (
        PartitionHealth(
            label=partition_label(table, key),
            data_files=len(data[key]),
            small_files=sum(file.bytes < target * SMALL_SHARE for file in data[key]),
            delete_files=len(deletes[key]),
            bytes=sum(file.bytes for file in data[key]),
        )
        for key in data.keys() | deletes.keys()
    )
    return tuple(sorted(partitions, key=lambda partition: (-partition.small_files, -partition.delete_files, partition.label)))


SUMMARY_KEYS = {
    "data_files": "total-data-files",
    "delete_files": "total-delete-files",
    "bytes": "total-files-size",
    "records": "total-records",
    "position_deletes": "total-position-deletes",
    "equality_deletes": "total-equality-deletes",
}


@dataclass(frozen=True, slots=True)
class TableNumbers:
    """The totals of the current snapshot; all zero for a table without one.

    :param bytes: of data and delete files together.
    :param records: rows in data files; rows that delete files hide are still among them.
    :param position_deletes: rows in position-delete files.
    :param equality_deletes: rows in equality-delete files.
    :param snapshots: all that the table still has.
    :param manifests: of the current snapshot.
    """

    snapshot_id: int | None = None
    data_files: int = 0
    delete_files: int = 0
    bytes: int = 0
    records: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    snapshots: int = 0
    manifests: int = 0

    def to_metrics(self) -> dict[str, int]:
        """The numbers by name, without the snapshot's id."""
        return {name: getattr(self, name) for name in (*SUMMARY_KEYS, "snapshots", "manifests")}


def read_numbers(table: Table, reader: MetadataReader | None = None) -> TableNumbers:
    """Return the totals of the table as it was loaded; call ``table.refresh()`` first for those of now."""
    reader = reader or MetadataReader(table)
    snapshot = table.current_snapshot()
    if snapshot is None:
        return TableNumbers(snapshots=len(table.metadata.snapshots))
    totals = _from_summary(snapshot.summary) or _from_manifests(reader.files())
    return TableNumbers(
        snapshot_id=snapshot.snapshot_id,
        snapshots=len(table.metadata.snapshots),
        manifests=len(reader.manifests(snapshot)),
        **totals,
    )


def _from_summary(summary: Mapping[str, str] | None) -> dict[str, int] | None:
    found = {name: summary.get(key) if summary else None for name, key in SUMMARY_KEYS.items()}
    totals = {name: int(value) for name, value in found.items() if value is not None and value.isdigit()}
    return totals if len(totals) == len(SUMMARY_KEYS) else None


def _from_manifests(files: TableFiles) -> dict[str, int]:
    equality = [delete.records for delete in files.deletes if delete.kind is DeleteKind.EQUALITY]
    return {
        "data_files": len(files.data),
        "delete_files": len(files.deletes),
        "bytes": sum(file.bytes for file in files.data) + sum(delete.bytes for delete in files.deletes),
        "records": sum(file.records for file in files.data),
        "position_deletes": sum(delete.records for delete in files.deletes) - sum(equality),
        "equality_deletes": sum(equality),
    }
