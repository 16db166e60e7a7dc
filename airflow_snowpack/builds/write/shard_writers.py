"""The files of shards: ``shard.sqlite`` for point look-ups, ``shard.parquet`` sorted by key for scans.

The SQLite table ``rows`` has the build's columns in order, with values encoded by ``columns.py``. The key is the primary key
until a key repeats; from then on the table has an index on it instead. Either way a look-up is one descent in one B-tree. A
closed file can be opened read-only and immutable: it has no journal and no write-ahead log. A Parquet file has exactly the
build's Arrow schema, even without rows. Both contain the checksums that range reads verify (``block_checksums.py``).
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_snowpack.builds.block_checksums import PAGE_SIZE, RESERVED, TABLE_KEY, block_table, seal_pages
from airflow_snowpack.builds.columns import to_cells
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.model import KeyType
from airflow_snowpack.builds.sharding import key_type_of

_FAST = (
    # A file whose writer dies is discarded, so nothing in it needs to survive.
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
)


class SqliteShard:
    """Writes ``shard.sqlite``, or raises :class:`InvalidBuild` if there are more columns than SQLite allows."""

    def __init__(self, path: Path, schema: pa.Schema, key_column: str, block_seed: str) -> None:
        self._path = path
        self._block_seed = block_seed
        self._schema = schema
        self._key = key_column
        self._unique = True
        self._insert = f"INSERT INTO rows VALUES ({', '.join('?' * len(schema))})"
        self._connection = self._open(path)

    def write(self, rows: pa.Table, *, repeats: bool) -> None:
        """Append rows, sorted by key, to the end of the B-tree; ``repeats`` is whether one of their keys occurs again."""
        if repeats and self._unique:
            self._allow_repetition()
        self._connection.executemany(self._insert, zip(*(to_cells(column) for column in rows.columns), strict=True))

    def close(self) -> None:
        if not self._unique:
            self._connection.execute(f"CREATE INDEX rows_by_key ON rows ({quoted(self._key)})")
        self._connection.commit()
        self._connection.close()
        seal_pages(self._path, self._block_seed)

    def _open(self, path: Path) -> sqlite3.Connection:
        _create_empty(path)
        connection = sqlite3.connect(path)
        for pragma in _FAST:
            connection.execute(pragma)
        try:
            connection.execute(self._create())
        except sqlite3.OperationalError as error:
            connection.close()
            raise InvalidBuild("columns", self._schema.names, f"SQLite cannot make a table of them ({error})") from error
        connection.execute("BEGIN")
        return connection

    def _create(self) -> str:
        # Without types, SQLite stores each value as it is. Only "INTEGER PRIMARY KEY" makes the key the row id, SQLite's fastest
        # access; any other key becomes the primary key of a table without row ids.
        integer = key_type_of(self._key, self._schema.field(self._key).type) is KeyType.INTEGER
        key = "NOT NULL" if not self._unique else "INTEGER PRIMARY KEY" if integer else "NOT NULL PRIMARY KEY"
        columns = (f"{quoted(name)} {key}" if name == self._key else quoted(name) for name in self._schema.names)
        return f"CREATE TABLE rows ({', '.join(columns)}){' WITHOUT ROWID' if self._unique and not integer else ''}"

    def _allow_repetition(self) -> None:
        """Continue in a new file whose key may repeat: changing the table in place would leave its old pages free."""
        before = self._path.with_suffix(".unique")
        self._connection.commit()
        self._connection.close()
        self._path.rename(before)
        self._unique = False
        self._connection = self._open(self._path)
        self._connection.commit()
        self._connection.execute("ATTACH DATABASE ? AS before", (str(before),))
        self._connection.execute(f"INSERT INTO rows SELECT * FROM before.rows ORDER BY {quoted(self._key)}")
        self._connection.commit()
        self._connection.execute("DETACH DATABASE before")
        before.unlink()
        self._connection.execute("BEGIN")


def _create_empty(path: Path) -> None:
    """Create a database whose pages have reserved bytes, which SQLite lets only C programs set."""
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    with path.open("r+b") as file:
        for offset, value in ((20, bytes([RESERVED])), (105, (PAGE_SIZE - RESERVED).to_bytes(2))):
            file.seek(offset)  # the number of reserved bytes; the end of the first page's free space
            file.write(value)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


DICTIONARY_BYTES = 64 * 1024
"""Values beyond this size per row group are stored plainly: a large dictionary costs time, and more space than it saves."""


class ParquetShard:
    def __init__(self, path: Path, schema: pa.Schema, key_column: str, block_seed: str, rows_per_group: int) -> None:
        self._path = path
        self._block_seed = block_seed
        self._rows_per_group = rows_per_group
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression="zstd",
            compression_level=1,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_index=True,
            sorting_columns=[pq.SortingColumn(schema.get_field_index(key_column), nulls_first=True)],
        )

    def write(self, rows: pa.Table, *, repeats: bool) -> None:
        self._writer.write_table(rows, row_group_size=self._rows_per_group)

    def close(self) -> None:
        self._sink.flush()
        self._writer.add_key_value_metadata({TABLE_KEY: block_table(self._path, self._block_seed)})
        self._writer.close()
        self._sink.close()
