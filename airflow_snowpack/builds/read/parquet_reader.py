"""Read shards in Parquet, for scans.

    reader = ParquetReader(lambda: cache.path(shard), manifest)
    reader.multi_get(["N14228", "N24211"])

A look-up reads the row groups whose statistics allow the key, or that have none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from airflow_snowpack.builds.block_checksums import TABLE_KEY, table_check
from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.model import Key, Manifest
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.read.shard_reader import BATCH_ROWS, Locate, Row, ShardReader
from airflow_snowpack.builds.sharding import ARROW_TYPE


class ParquetReader(ShardReader[parquet.ParquetFile]):
    """Reads ``shard.parquet``; by range: the footer once, and the row groups that may have the key."""

    def __init__(self, locate: Locate, manifest: Manifest, in_place: bool = True, *, by_range: bool = False) -> None:
        super().__init__(locate, manifest, in_place, by_range=by_range)
        self._plain = ARROW_TYPE[manifest.key_type]
        self._ranges: list[tuple[Any, Any] | None] | None = None
        self._footer: parquet.FileMetaData | None = None

    def get(self, key: Key) -> Row | None:
        found = self.get_all(key)
        return found[0] if found else None

    def get_all(self, key: Key) -> list[Row]:
        with self._handle() as file:
            return [row for _, row in self._found(file, [key])]

    def multi_get(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Row]]:
        rows: dict[Key, Row] = {}
        with self._handle() as file:
            for key, row in self._found(file, keys):
                rows.setdefault(key, row)
        return rows.items()

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._handle() as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                self._check_unchanged()
                yield batch

    def _found(self, file: parquet.ParquetFile, keys: Sequence[Key]) -> Iterator[tuple[Key, Row]]:
        if self._ranges is None:
            self._ranges = _key_ranges(file, self._key_column)
        for group, wanted in _by_row_group(self._ranges, keys).items():
            column = file.read_row_group(group, columns=[self._key_column]).column(0).cast(self._plain)
            at = pc.indices_nonzero(pc.is_in(column, value_set=pa.array(wanted, self._plain)))
            if len(at):
                for row in file.read_row_group(group).take(at).to_pylist():
                    yield row[self._key_column], row

    def _open(self, file: Path | RangedFile) -> parquet.ParquetFile:
        if not isinstance(file, RangedFile):
            return parquet.ParquetFile(file, memory_map=not self._in_place)
        # pre_buffer reads adjacent columns in one request.
        opened = parquet.ParquetFile(file.stream(), metadata=self._footer, pre_buffer=True)
        if self._footer is None:
            check = table_check((opened.metadata.metadata or {}).get(TABLE_KEY.encode(), b""), file.block_seed)
            if check is None:
                raise ManifestDamaged(file.path, "its footer is not what was written")
            file.verify(check)
            self._footer = opened.metadata
        return opened

    def _close(self, handle: parquet.ParquetFile) -> None:
        handle.close()


def _key_ranges(file: parquet.ParquetFile, key_column: str) -> list[tuple[Any, Any] | None]:
    """Return the smallest and greatest key of each row group; ``None`` without statistics."""
    metadata = file.metadata
    at = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)].index(key_column)
    ranges: list[tuple[Any, Any] | None] = []
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group).column(at).statistics
        ranges.append((found.min, found.max) if found is not None and found.has_min_max else None)
    return ranges


def _by_row_group(ranges: Sequence[tuple[Any, Any] | None], keys: Sequence[Any]) -> dict[int, list[Any]]:
    """Return the keys that each row group may have, in the order of the groups."""
    ordered = sorted(keys)
    groups = {}
    for group, bounds in enumerate(ranges):
        wanted = ordered
        if bounds is not None:
            begin = bisect_left(ordered, bounds[0])
            wanted = [key for key in ordered[begin:] if key <= bounds[1]]
        if wanted:
            groups[group] = wanted
    return groups
