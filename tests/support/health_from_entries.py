"""The counts of a table's health, taken from PyIceberg's own manifest entries: to compare with what health streams."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from airflow_snowpack.iceberg import DeleteKind, HealthBounds, LiveDelete, LiveFile, MetadataReader
from airflow_snowpack.iceberg.health.reading import as_json
from airflow_snowpack.iceberg.metadata_reader import partition_label

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg import FileCounts, TableHealth

Place = tuple[int, str, str]
KINDS = {
    DeleteKind.POSITION: "position_delete_files",
    DeleteKind.EQUALITY: "equality_delete_files",
    DeleteKind.VECTOR: "deletion_vectors",
}
NAMES = (
    *("data_files", "bytes", "records", "small_files", "small_bytes", "large_files", "large_bytes"),
    *("with_deletes_files", "with_deletes_bytes", *KINDS.values()),
)


def counts_from_entries(table: Table, bounds: HealthBounds) -> dict[Place, dict[str, int]]:
    """Return the counts by partition spec, label and values, without zeros; two values may have one label, as null and "null"."""
    files = MetadataReader(table).files()
    counts: dict[Place, Counter[str]] = defaultdict(Counter)

    def place(file: LiveFile | LiveDelete) -> Place:
        return file.spec_id, partition_label(table, file.partition_key), repr(tuple(map(as_json, file.partition)))

    def many_deletes(file: LiveFile) -> bool:
        deletes = files.deletes_of(file)
        of_file = sum(delete.records for delete in deletes if delete.data_file is not None)
        share = min(of_file, file.records) / max(file.records, 1)
        return len(deletes) >= bounds.delete_file_threshold or (bool(deletes) and share >= bounds.delete_ratio_threshold)

    for file in files.data:
        counted = counts[place(file)]
        counted.update(data_files=1, bytes=file.bytes, records=file.records)
        if file.bytes < bounds.min_file_size_bytes:
            counted.update(small_files=1, small_bytes=file.bytes)
        elif file.bytes > bounds.max_file_size_bytes:
            counted.update(large_files=1, large_bytes=file.bytes)
        elif many_deletes(file):
            counted.update(with_deletes_files=1, with_deletes_bytes=file.bytes)
    for delete in files.deletes:
        counts[place(delete)].update({KINDS[delete.kind]: 1})
    return {key: {name: count for name, count in counted.items() if count} for key, counted in counts.items()}


def counts_of(part: FileCounts) -> dict[str, int]:
    """Return the counts of health that are compared, without zeros."""
    return {name: count for name in NAMES if (count := getattr(part, name))}


def check_counts(table: Table, health: TableHealth) -> None:
    """Compare the health of a table, partition by partition, with PyIceberg's entries."""
    expected = counts_from_entries(table, health.bounds)
    assert {(each.spec_id, each.label, repr(each.values)): counts_of(each) for each in health.partitions} == expected
    summed: Counter[str] = Counter()
    for counted in expected.values():
        summed.update(counted)
    assert counts_of(health) == dict(summed)
    assert health.partition_count == len(expected)
