"""A table's files and the counts of its health by PyIceberg's own manifest entries: to compare with what is streamed."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg import (
    DeleteKind,
    FileCounts,
    HealthBounds,
    LiveDelete,
    LiveFile,
    MetadataReader,
    TableFiles,
    TableHealth,
)
from airflow_snowpack.iceberg.avro_values import number
from airflow_snowpack.iceberg.health.reading import as_json
from airflow_snowpack.iceberg.metadata_reader import DELETE_PATH_FIELD, REFERENCED_DATA_FILE, partition_label

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table

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


def files_from_entries(table: Table) -> TableFiles:
    """Return the files of the current snapshot."""
    from pyiceberg.manifest import ManifestContent

    data, deletes = list[LiveFile](), list[LiveDelete]()
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if manifest.content == ManifestContent.DATA:
            data += [LiveFile(*_place(entry, manifest)) for entry in manifest.fetch_manifest_entry(table.io)]
        else:
            deletes += [_live_delete(entry, manifest) for entry in _delete_entries(manifest, table)]
    return TableFiles(tuple(data), tuple(deletes))


def _place(entry: ManifestEntry, manifest: ManifestFile) -> tuple[Any, ...]:
    file = entry.data_file
    sequence = manifest.sequence_number if entry.sequence_number is None else entry.sequence_number
    partition = (file.partition[position] for position in range(len(file.partition)))
    values = tuple(number(value) if isinstance(value, float) else value for value in partition)
    return (file.file_path, file.file_size_in_bytes, file.record_count, manifest.partition_spec_id, values, sequence or 0)


def _live_delete(entry: ManifestEntry, manifest: ManifestFile) -> LiveDelete:
    from pyiceberg.manifest import DataFileContent, FileFormat

    file = entry.data_file
    if file.content == DataFileContent.EQUALITY_DELETES:
        return LiveDelete(*_place(entry, manifest), DeleteKind.EQUALITY)
    kind = DeleteKind.VECTOR if file.file_format is FileFormat.PUFFIN else DeleteKind.POSITION
    return LiveDelete(*_place(entry, manifest), kind, _only_data_file(file))


def _delete_entries(manifest: ManifestFile, table: Table) -> list[ManifestEntry]:
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

    if table.format_version < 3:
        return manifest.fetch_manifest_entry(table.io)
    # PyIceberg 0.12 reads every manifest with the columns of format version 2, so this reads it with those of version 3.
    with AvroFile[ManifestEntry](
        table.io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        return [entry for entry in reader if entry.status is not ManifestEntryStatus.DELETED]


def _only_data_file(file: DataFile) -> str | None:
    from pyiceberg.manifest import DATA_FILE_TYPE

    position = [column.field_id for column in DATA_FILE_TYPE[3].fields].index(REFERENCED_DATA_FILE)
    if len(file) > position and file[position]:
        return str(file[position])
    lowest, highest = ((bounds or {}).get(DELETE_PATH_FIELD) for bounds in (file.lower_bounds, file.upper_bounds))
    return lowest.decode() if lowest and lowest == highest else None


def counts_from_entries(table: Table, bounds: HealthBounds) -> dict[Place, dict[str, int]]:
    """Return the counts by partition spec, label and values, without zeros; two values may have one label, as null and "null"."""
    files = files_from_entries(table)
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
    streamed, expected = MetadataReader(table).files(), counts_from_entries(table, health.bounds)
    # As text, in which NaN is the same as NaN.
    assert repr(TableFiles(streamed.data, streamed.deletes)) == repr(files_from_entries(table))
    assert {(each.spec_id, each.label, repr(each.values)): counts_of(each) for each in health.partitions} == expected
    summed: Counter[str] = Counter()
    for counted in expected.values():
        summed.update(counted)
    assert counts_of(health) == dict(summed)
    assert health.partition_count == len(expected)
