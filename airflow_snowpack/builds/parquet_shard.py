"""A shard as a Parquet file, sorted by key, so that a reader finds a key's row group and page by their statistics.

    shard = ParquetShard(Path("shard.parquet"), schema, "tail_number", rows_per_group=65_536)
    shard.write(table, repeats=False)
    shard.close()

The invariant: its schema is exactly the build's, Arrow's own included, also when no row was ever written.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DICTIONARY_BYTES = 64 * 1024
"""From there on the values of a row group are written as they are: a large dictionary costs time, and more room than it saves."""


class ParquetShard:
    """Writes ``shard.parquet``."""

    def __init__(self, path: Path, schema: pa.Schema, key_column: str, rows_per_group: int) -> None:
        self._rows_per_group = rows_per_group
        self._writer = pq.ParquetWriter(
            path,
            schema,
            compression="zstd",
            compression_level=1,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_index=True,
            sorting_columns=[pq.SortingColumn(schema.get_field_index(key_column), nulls_first=True)],
        )

    def write(self, rows: pa.Table, *, repeats: bool) -> None:
        """Append rows as a row group; in Parquet a key may repeat."""
        self._writer.write_table(rows, row_group_size=self._rows_per_group)

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()
