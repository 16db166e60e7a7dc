"""Reads the health of a table from its manifests, one manifest at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.health.bounds import HealthBounds
from airflow_snowpack.iceberg.health.model import (
    MAX_PARTITIONS,
    FileCounts,
    PartitionHealth,
    Ref,
    SnapshotLog,
    SpecField,
    TableHealth,
)
from airflow_snowpack.iceberg.health.numbers import read_numbers
from airflow_snowpack.iceberg.metadata_reader import DeleteKind, LiveFile, MetadataReader, partition_label

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.metadata_reader import LiveDelete, PartitionKey, TableFiles

MANIFEST_TARGET_PROPERTY = "commit.manifest.target-size-bytes"
MANIFEST_TARGET = 8 * 1024**2
SMALLEST_BUCKET = 1024**2
PROPERTIES = ("snowpack.", "write.", "history.", "commit.", "gc.enabled", "compaction_skip")
KINDS = {
    DeleteKind.POSITION: "position_delete_files",
    DeleteKind.EQUALITY: "equality_delete_files",
    DeleteKind.VECTOR: "deletion_vectors",
}


def read_health(table: Table, *, now: datetime, bounds: HealthBounds | None = None) -> TableHealth:
    """Read the health of the table as it was loaded.

    :param now: the present moment; it becomes ``read_at``.
    :param bounds: what counts as small, large and many deletes; ``None`` for the defaults.
    """
    bounds = bounds or HealthBounds()
    reader = MetadataReader(table)
    files = reader.files()
    counts = _count(files, bounds)
    partitions = sorted(
        (
            PartitionHealth(**_sum([counted]), spec_id=key[0], values=key[1], label=partition_label(table, key))
            for key, counted in counts.items()
        ),
        key=lambda partition: (-partition.small_files, -partition.delete_files, partition.label),
    )
    spec_id = table.spec().spec_id
    return TableHealth(
        **_sum(counts.values()),
        table=".".join(table.name()),
        metadata_location=table.metadata_location,
        table_uuid=str(table.metadata.table_uuid),
        location=table.location(),
        format_version=table.format_version,
        read_at=now,
        bounds=bounds,
        totals=read_numbers(table, reader),
        **_manifests(table, files.manifests),
        snapshots=_snapshots(table),
        refs=_refs(table),
        file_sizes=_file_sizes(files),
        skew=_skew([partition.bytes for partition in partitions]),
        partition_count=len(partitions),
        partitions=tuple(partitions[:MAX_PARTITIONS]),
        rest=FileCounts(**_sum(counts[each.spec_id, each.values] for each in partitions[MAX_PARTITIONS:])),
        outdated=FileCounts(**_sum(counted for key, counted in counts.items() if key[0] != spec_id)),
        properties={name: value for name, value in table.properties.items() if name.startswith(PROPERTIES)},
        specs={spec.spec_id: _fields(table, spec.spec_id) for spec in table.specs().values()},
        spec_id=spec_id,
    )


def _count(files: TableFiles, bounds: HealthBounds) -> dict[PartitionKey, Counter[str]]:
    counts: dict[PartitionKey, Counter[str]] = defaultdict(Counter)
    for file in files.data:
        counted = counts[file.partition_key]
        counted.update(data_files=1, bytes=file.bytes, records=file.records)
        if file.bytes < bounds.min_file_size_bytes:
            counted.update(small_files=1, small_bytes=file.bytes)
        elif file.bytes > bounds.max_file_size_bytes:
            counted.update(large_files=1, large_bytes=file.bytes)
        elif _has_many_deletes(file, files.deletes_of(file), bounds):
            counted.update(with_deletes_files=1, with_deletes_bytes=file.bytes)
    for delete in files.deletes:
        counts[delete.partition_key].update({KINDS[delete.kind]: 1, "delete_bytes": delete.bytes})
    return counts


def _has_many_deletes(file: LiveFile, deletes: tuple[LiveDelete, ...], bounds: HealthBounds) -> bool:
    if len(deletes) >= bounds.delete_file_threshold:
        return True
    known = sum(delete.records for delete in deletes if delete.data_file is not None)
    return bool(deletes) and file.records > 0 and min(known, file.records) / file.records >= bounds.delete_ratio_threshold


def _sum(counts: Iterable[Counter[str]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(total)


def _manifests(table: Table, manifests: tuple[ManifestFile, ...]) -> dict[str, Any]:
    from pyiceberg.manifest import ManifestContent

    small = int(table.properties.get(MANIFEST_TARGET_PROPERTY, MANIFEST_TARGET)) / 2
    data = sum(manifest.content == ManifestContent.DATA for manifest in manifests)
    return {
        "data_manifests": data,
        "delete_manifests": len(manifests) - data,
        "manifests_bytes": sum(manifest.manifest_length for manifest in manifests),
        "small_manifests": sum(manifest.manifest_length < small for manifest in manifests),
    }


def _snapshots(table: Table) -> SnapshotLog:
    snapshots = sorted(table.metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
    return SnapshotLog(
        tuple(each.snapshot_id for each in snapshots),
        tuple(each.parent_snapshot_id for each in snapshots),
        tuple(each.timestamp_ms for each in snapshots),
        tuple(each.summary.operation.value if each.summary else "unknown" for each in snapshots),
    )


def _refs(table: Table) -> tuple[Ref, ...]:
    return tuple(
        Ref(
            name,
            ref.snapshot_ref_type.value,
            ref.snapshot_id,
            ref.max_ref_age_ms,
            ref.max_snapshot_age_ms,
            ref.min_snapshots_to_keep,
        )
        for name, ref in sorted(table.metadata.refs.items())
    )


def _file_sizes(files: TableFiles) -> tuple[int, ...]:
    counts = Counter((file.bytes // SMALLEST_BUCKET).bit_length() for file in files.data)
    return tuple(counts[place] for place in range(max(counts, default=-1) + 1))


def _skew(sizes: list[int]) -> float:
    return max(sizes) * len(sizes) / sum(sizes) if sum(sizes) else 0.0


def _fields(table: Table, spec_id: int) -> tuple[SpecField, ...]:
    schema = table.schema()
    fields = []
    for field in table.specs()[spec_id].fields:
        source = schema.find_column_name(field.source_id)
        source_type = None if source is None else str(schema.find_type(field.source_id))
        fields.append(SpecField(source, source_type, str(field.transform), field.name))
    return tuple(fields)
