"""The values of a table's health."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, overload

from airflow_snowpack.iceberg.health.file_counts import FileCounts

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.health.bounds import HealthBounds
    from airflow_snowpack.iceberg.health.numbers import TableNumbers

MAX_PARTITIONS = 200
"""How many partitions the health of a table lists; the others are summed up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHealth(FileCounts):
    """One partition of the current snapshot.

    :param spec_id: the partition spec of its files.
    :param values: its partition values after the transform, in the order of the spec's fields, as JSON: whole numbers for years,
        months, days, hours, dates (days), times and timestamps (microseconds), ``"NaN"`` and the like for such floats, text for
        decimals and UUIDs, hexadecimal text for bytes, ``None`` for null.
    :param label: such as ``month=3/carrier=UA``; empty for files without partition values.
    :param newest_at: when a writer last committed a file to it that still exists; commits that only rewrite files do not count.
        ``None`` if the table no longer has the snapshot.
    :param data_manifests, delete_manifests: how many have files of it.
    :param own_deletes_files: data files with a delete file that applies only to them.
    """

    spec_id: int
    values: tuple[Any, ...]
    label: str
    newest_at: datetime | None = None
    data_manifests: int = 0
    delete_manifests: int = 0
    own_deletes_files: int = 0


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field of a partition spec.

    :param source: the source column, with dots for nested ones; ``None`` if the column was dropped, or its name contains a dot.
    :param source_type: its Iceberg type, such as ``timestamptz`` or ``decimal(9, 2)``; ``None`` if ``source`` is.
    :param transform: as the specification writes it, such as ``bucket[16]``.
    :param name: of the partition field.
    """

    source: str | None
    source_type: str | None
    transform: str
    name: str


@dataclass(frozen=True, slots=True)
class SnapshotHealth:
    """A snapshot that the table still has.

    :param operation: ``append``, ``overwrite``, ``delete``, ``replace`` or ``unknown``.
    :param rows_added, rows_removed: in data files, by the summary of the commit; a rewrite has both.
    :param files_added, files_removed: data and delete files. All four are ``None`` if the summary was not read.
    """

    snapshot_id: int
    parent_id: int | None
    committed_at: datetime
    operation: str
    rows_added: int | None = None
    rows_removed: int | None = None
    files_added: int | None = None
    files_removed: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotLog(Sequence[SnapshotHealth]):
    """All snapshots of a table, oldest first, stored as columns: a table may have ten thousand of them.

    :param committed_ms: milliseconds since 1970.
    :param added: how many data files, delete files and manifests each of them has that its parent does not have.
    :param dropped: how many of its parent's it does not have. Both follow from the summaries of the commits.
    """

    ids: tuple[int, ...] = ()
    parents: tuple[int | None, ...] = ()
    committed_ms: tuple[int, ...] = ()
    operations: tuple[str, ...] = ()
    added: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()

    @property
    def oldest_at(self) -> datetime | None:
        return moment(self.committed_ms[0]) if self.ids else None

    @property
    def newest_at(self) -> datetime | None:
        """When the newest snapshot was committed, on any branch; ``None`` without snapshots."""
        return moment(self.committed_ms[-1]) if self.ids else None

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> SnapshotHealth: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SnapshotHealth]: ...
    def __getitem__(self, index: int | slice) -> SnapshotHealth | Sequence[SnapshotHealth]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        committed_at = moment(self.committed_ms[index])
        return SnapshotHealth(self.ids[index], self.parents[index], committed_at, self.operations[index])

    def __iter__(self) -> Iterator[SnapshotHealth]:
        return (self[place] for place in range(len(self)))


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch or a tag.

    :param kind: ``branch`` or ``tag``.
    :param max_ref_age_ms, max_snapshot_age_ms, min_snapshots_to_keep: its own retention; ``None`` leaves it to the table.
    """

    name: str
    kind: str
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHealth(FileCounts):
    """The health of a table at one metadata location. Its counts are those of the current snapshot.

    :param table: ``database.table``.
    :param read_at: when it was read.
    :param totals: the totals of the current snapshot's summary, as :func:`.read_numbers` returns them.
    :param empty_data_manifests, empty_delete_manifests: without live files; the next commit drops them.
    :param outdated_data_manifests, outdated_delete_manifests: of older partition specs.
    :param small_manifests: manifests with live files that are smaller than half of ``commit.manifest.target-size-bytes``.
    :param metadata_bytes: the size of the metadata file; ``None`` if the storage does not report it.
    :param expirable_bytes: bytes of files that only expired snapshots need; ``None`` if that was not requested.
    :param file_sizes: the number of data files by size: first those below 1 MiB, then at index ``n`` those from ``2 ** (n - 1)``
        MiB to below ``2 ** n`` MiB.
    :param skew: the bytes of the largest partition as a multiple of those of an average one; 0 without data files.
    :param partition_count: partitions that have files.
    :param partitions: at most :data:`MAX_PARTITIONS`, those with most to improve first.
    :param rest: the sum of the partitions that are not listed.
    :param outdated: the sum of all partitions of older partition specs; ``rewrite_data_files`` rewrites these together.
    :param properties: the table's properties that maintenance uses: ``snowpack.*``, ``write.*``, ``history.*``, ``commit.*``,
        ``gc.enabled``, ``owner``, and its sort order as ``sort-order``.
    :param specs: the fields of each partition spec, by its id.
    :param spec_id: the current partition spec.
    """

    table: str
    metadata_location: str
    table_uuid: str
    location: str
    format_version: int
    read_at: datetime
    bounds: HealthBounds
    totals: TableNumbers
    data_manifests: int = 0
    delete_manifests: int = 0
    empty_data_manifests: int = 0
    empty_delete_manifests: int = 0
    outdated_data_manifests: int = 0
    outdated_delete_manifests: int = 0
    manifests_bytes: int = 0
    small_manifests: int = 0
    metadata_bytes: int | None = None
    expirable_bytes: int | None = None
    snapshots: SnapshotLog = field(default_factory=SnapshotLog)
    refs: tuple[Ref, ...] = ()
    file_sizes: tuple[int, ...] = ()
    skew: float = 0.0
    partition_count: int = 0
    partitions: tuple[PartitionHealth, ...] = ()
    rest: FileCounts = field(default_factory=FileCounts)
    outdated: FileCounts = field(default_factory=FileCounts)
    properties: Mapping[str, str] = field(default_factory=dict)
    specs: Mapping[int, tuple[SpecField, ...]] = field(default_factory=dict)
    spec_id: int = 0

    def oldest_snapshot_age(self, now: datetime) -> timedelta | None:
        """Return the age of the oldest snapshot; ``None`` without snapshots."""
        return None if self.snapshots.oldest_at is None else now - self.snapshots.oldest_at


def moment(milliseconds: int) -> datetime:
    """Return the moment of an Iceberg timestamp in milliseconds."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
