"""Counts the files of manifests by partition, one entry at a time.

    counting = Counting(bounds, committed_ms)
    for manifest, file in delete_manifests: counting.add_deletes(manifest, file)
    for manifest, file in data_manifests: counting.add_data(manifest, file)
    counting.partitions()

The invariant: memory depends on the number of partitions and of delete files, not of data files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import add
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.avro_columns import AvroColumns
from airflow_snowpack.iceberg.health.deletes import DeleteIndex
from airflow_snowpack.iceberg.health.encoding import COUNTS
from airflow_snowpack.iceberg.health.file_counts import FileCounts
from airflow_snowpack.iceberg.metadata_reader import (
    ABOUT_ONE_FILE,
    BYTES,
    CONTENT,
    CONTENT_BYTES,
    DELETED,
    EQUALITY_DELETES,
    FORMAT,
    PARTITION,
    PATH,
    RECORDS,
    SEQUENCE,
    SNAPSHOT_ID,
    STATUS,
    DeleteKind,
    kind_of,
    only_data_file,
)

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile

    from airflow_snowpack.iceberg.avro_columns import AvroBlocks
    from airflow_snowpack.iceberg.health.bounds import HealthBounds
    from airflow_snowpack.iceberg.metadata_reader import PartitionKey

LEFT_OUT = -1
COLUMNS = (STATUS, SNAPSHOT_ID, SEQUENCE, PARTITION, RECORDS, BYTES)
REQUIRED = (STATUS, PARTITION, RECORDS, BYTES)
DATA_READER = AvroColumns((*COLUMNS, LEFT_OUT), required=REQUIRED)
MATCHED_DATA_READER = AvroColumns((*COLUMNS, PATH), required=(*REQUIRED, PATH))
"""For a snapshot with deletes."""
DELETE_READER = AvroColumns(
    (*COLUMNS, CONTENT, FORMAT, CONTENT_BYTES, *ABOUT_ONE_FILE),
    required=(*REQUIRED, CONTENT, FORMAT),
)
SMALLEST_BUCKET_BITS = 20

PLACES = {name: place for place, name in enumerate(COUNTS)}
DATA_FILES, DATA_BYTES, DATA_RECORDS = PLACES["data_files"], PLACES["bytes"], PLACES["records"]
SMALL, LARGE, WITH_DELETES = PLACES["small_files"], PLACES["large_files"], PLACES["with_deletes_files"]
POSITIONS, EQUALITIES, VECTORS = (PLACES[name] for name in ("position_delete_files", "equality_delete_files", "deletion_vectors"))
DELETE_BYTES = PLACES["delete_bytes"]
NEWEST, DATA_MANIFESTS, DELETE_MANIFESTS, OWN_DELETES = range(len(COUNTS), len(COUNTS) + 4)
"""The positions after the counts: when the newest file was committed, in milliseconds (0 if unknown), how many manifests have
files, and how many data files have delete files that apply only to them.
"""
EMPTY = (0,) * (OWN_DELETES + 1)


class Counting:
    """The counts of a snapshot's files. Delete manifests come first.

    :param committed_ms: when each snapshot of a writer was committed, by its id, without snapshots that only rewrote files.
    """

    def __init__(self, bounds: HealthBounds, committed_ms: Mapping[int, int]) -> None:
        self.bounds = bounds
        self._committed_ms = committed_ms
        self._deletes: DeleteIndex | None = None
        self._specs: dict[int, dict[tuple[Any, ...], list[int]]] = {}
        self._of_manifest: dict[tuple[Any, ...], list[int]] = {}
        self._sizes = [0] * 64
        self.deleted_positions = self.deleted_equalities = 0

    def add_deletes(self, manifest: ManifestFile, file: AvroBlocks) -> None:
        self.count_deletes(manifest, DELETE_READER.rows(file))

    def count_deletes(self, manifest: ManifestFile, rows: Iterable[tuple[Any, ...]]) -> None:
        """Count the live entries of a delete manifest, as :data:`DELETE_READER` returns them."""
        index = self._deletes = self._deletes or DeleteIndex(self.bounds)
        spec_id, partitions, added_by = manifest.partition_spec_id, self._of_spec(manifest), manifest.added_snapshot_id or 0
        of_manifest = self._of_manifest
        of_manifest.clear()
        for status, snapshot_id, sequence, values, records, size, content, format_, part, *about in rows:
            if status == DELETED:
                continue
            counts, key = of_manifest.get(values), (spec_id, values)
            if counts is None:
                counts = of_manifest[values] = _counts_of(values, partitions)
                counts[DELETE_MANIFESTS] += 1
            committed_ms = self._committed_ms.get(snapshot_id or added_by, 0)
            counts[NEWEST] = max(counts[NEWEST], committed_ms)
            # Added entries leave it out and inherit the manifest's (Iceberg specification, sequence number inheritance).
            sequence = (manifest.sequence_number or 0) if sequence is None else sequence
            if content == EQUALITY_DELETES:
                counts[EQUALITIES] += 1
                counts[DELETE_BYTES] += size
                self.deleted_equalities += records
                index.add_for_partition(key, sequence, equality=True)
                continue
            is_vector = kind_of(content, format_) is DeleteKind.VECTOR
            counts[VECTORS if is_vector else POSITIONS] += 1
            # Several deletion vectors share a file.
            counts[DELETE_BYTES] += part if is_vector and part is not None else size
            self.deleted_positions += records
            if (path := only_data_file(*about)) is not None:
                index.add_for_file(path, key, records)
            else:
                index.add_for_partition(key, sequence, equality=False)

    def add_data(self, manifest: ManifestFile, file: AvroBlocks) -> None:
        reader = DATA_READER if self._deletes is None else MATCHED_DATA_READER
        self.count_data(manifest, reader.rows(file))

    def count_data(self, manifest: ManifestFile, rows: Iterable[tuple[Any, ...]]) -> None:
        """Count the live entries of a data manifest, as :data:`MATCHED_DATA_READER` returns them."""
        deletes, committed_ms, sizes = self._deletes, self._committed_ms, self._sizes
        named = deletes.named if deletes is not None else ()
        low, high = self.bounds.min_file_size_bytes, self.bounds.max_file_size_bytes
        spec_id, partitions, added_by = manifest.partition_spec_id, self._of_spec(manifest), manifest.added_snapshot_id or 0
        of_manifest = self._of_manifest
        of_manifest.clear()
        for status, snapshot_id, sequence, values, records, size, path in rows:
            if status == DELETED:
                continue
            counts = of_manifest.get(values)
            if counts is None:
                counts = of_manifest[values] = _counts_of(values, partitions)
                counts[DATA_MANIFESTS] += 1
            counts[DATA_FILES] += 1
            counts[DATA_BYTES] += size
            counts[DATA_RECORDS] += records
            sizes[(size >> SMALLEST_BUCKET_BITS).bit_length()] += 1
            if named and hash(path) in named:
                counts[OWN_DELETES] += 1
            if size < low:
                counts[SMALL] += 1
                counts[SMALL + 1] += size
            elif size > high:
                counts[LARGE] += 1
                counts[LARGE + 1] += size
            elif deletes is not None and deletes.is_concerned(key := (spec_id, values)):
                sequence = (manifest.sequence_number or 0) if sequence is None else sequence
                if deletes.has_many(path, key, sequence, records):
                    counts[WITH_DELETES] += 1
                    counts[WITH_DELETES + 1] += size
            newest = committed_ms.get(snapshot_id or added_by, 0)
            if newest > counts[NEWEST]:
                counts[NEWEST] = newest

    def partitions(self) -> Iterator[tuple[PartitionKey, list[int]]]:
        """Yield the counts of each partition, in the order of :data:`COUNTS`, and what follows them."""
        for spec_id, partitions in self._specs.items():
            for values, counts in partitions.items():
                yield (spec_id, values), counts

    def file_sizes(self) -> tuple[int, ...]:
        """Return the histogram for ``TableHealth.file_sizes``."""
        used = max((place + 1 for place, count in enumerate(self._sizes) if count), default=0)
        return tuple(self._sizes[:used])

    def _of_spec(self, manifest: ManifestFile) -> dict[tuple[Any, ...], list[int]]:
        return self._specs.setdefault(manifest.partition_spec_id, {})


def _counts_of(values: tuple[Any, ...], partitions: dict[tuple[Any, ...], list[int]]) -> list[int]:
    counts = partitions.get(values)
    if counts is None:
        counts = partitions[values] = list(EMPTY)
    return counts


def total(counts: Iterable[list[int]]) -> FileCounts:
    sums = list(EMPTY)
    for each in counts:
        sums = list(map(add, sums, each))
    return FileCounts(**dict(zip(COUNTS, sums, strict=False)))
