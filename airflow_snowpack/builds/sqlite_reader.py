"""A shard in SQLite: a look-up is one descent in one B-tree.

    reader = SqliteReader(lambda: cache.locate(shard), manifest)
    reader.get("N14228")

The invariant: what is read is what was written, as ``cells.py`` says, and a file that is cut off under a reader is an error that
it survives.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from airflow_snowpack.builds.arrow_types import arrow_schema
from airflow_snowpack.builds.cells import arrow_array, from_cell
from airflow_snowpack.builds.keys import Key, KeyType
from airflow_snowpack.builds.model import Manifest
from airflow_snowpack.builds.shard_reader import BATCH_ROWS, Row, ShardReader
from airflow_snowpack.builds.sqlite_shard import quoted

MOST_PARAMETERS, STEP = 512, 16
MAPPED_BYTES = 2**40
MOST_CACHED = 8 * 2**20
"""Bytes of a shard that one connection keeps."""


class SqliteReader(ShardReader[sqlite3.Connection]):
    """Reads ``shard.sqlite``; a look-up is one descent in one B-tree."""

    def __init__(self, locate: Callable[[], Path], manifest: Manifest, in_place: bool = True) -> None:
        super().__init__(locate, manifest, in_place)
        self._schema = arrow_schema(manifest.columns)
        self._names = tuple(self._schema.names)
        self._key_at = self._names.index(self._key_column)
        self._order: Any = bytes if manifest.key_type is KeyType.BYTES else None  # a memoryview is a key too, and has no order
        self._decoders = [(field.name, read) for field in self._schema if (read := from_cell(field.type)) is not None]
        columns, key = ", ".join(f"rows.{quoted(name)}" for name in self._names), f"rows.{quoted(self._key_column)}"
        self._all = f"SELECT {columns} FROM rows ORDER BY {key}"
        self._those = f"SELECT {columns} FROM rows WHERE {key} = ?"
        self._one = f"{self._those} LIMIT 1"
        self._any = f"WITH wanted (key) AS (VALUES %s) SELECT {columns} FROM wanted CROSS JOIN rows WHERE {key} = wanted.key"

    def get(self, key: Key) -> Row | None:
        connection = self._taken()  # without the context manager, which would take a tenth of the time
        try:
            found = connection.execute(self._one, (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._damage(error) from error
        finally:
            self._give_back(connection)
        return None if found is None else self._row(found)

    def get_all(self, key: Key) -> list[Row]:
        with self._handle() as connection:
            return [self._row(found) for found in connection.execute(self._those, (key,))]

    def multi_get(self, keys: Sequence[Key]) -> dict[Key, Row]:
        found: list[tuple[Any, ...]] = []
        in_order = sorted(keys, key=self._order)  # neighbours share pages, which are in the processor's cache by then
        with self._handle() as connection:
            for begin in range(0, len(in_order), MOST_PARAMETERS):
                found += connection.execute(*self._asked_for(in_order[begin : begin + MOST_PARAMETERS])).fetchall()
        found.reverse()  # so that the first row of a key is the one that stays
        rows = dict(zip(map(itemgetter(self._key_at), found), map(dict, map(zip, repeat(self._names), found)), strict=True))
        for name, decode in self._decoders:
            for row in rows.values():
                if row[name] is not None:
                    row[name] = decode(row[name])
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._handle() as connection:
            cursor = connection.execute(self._all)
            while found := cursor.fetchmany(BATCH_ROWS):
                values = zip(*found, strict=True)
                columns = [arrow_array(column, field.type) for column, field in zip(values, self._schema, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _row(self, found: tuple[Any, ...]) -> Row:
        row = dict(zip(self._names, found, strict=True))
        for name, decode in self._decoders:
            if row[name] is not None:
                row[name] = decode(row[name])
        return row

    def _asked_for(self, keys: Sequence[Key]) -> tuple[str, Sequence[Key | None]]:
        """The statement for so many keys. As each length is prepared anew, there are few of them: nulls fill it up."""
        length = -(-len(keys) // STEP) * STEP if len(keys) > STEP else 1 << (len(keys) - 1).bit_length()
        return self._any % ", ".join(["(?)"] * length), [*keys, *[None] * (length - len(keys))]

    def _open(self, path: Path) -> sqlite3.Connection:
        if not self._in_place:
            # Nobody writes to a copy: SQLite need neither lock it nor look whether it has changed, and may map it.
            return self._connected(path, "mode=ro&immutable=1", f"PRAGMA mmap_size = {MAPPED_BYTES}")
        # Others may write to the storage's own file. So SQLite looks for a change with each question, and reads the file instead
        # of mapping it: one that is cut off is then an error, and not a signal that ends the process.
        pages = f"PRAGMA cache_size = -{min(path.stat().st_size, MOST_CACHED) // 1024 + 256}"
        try:
            return self._connected(path, "mode=ro", pages)
        except sqlite3.OperationalError:
            return self._connected(path, "mode=ro&immutable=1", pages)  # a mounted bucket, which knows no locks

    def _connected(self, path: Path, how: str, pages: str) -> sqlite3.Connection:
        # SQLite hands a connection from thread to thread safely (sqlite3.threadsafety is 3), and the pool to one at a time.
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?{how}", uri=True, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        try:
            connection.execute(pages)
            connection.execute(f"{self._all} LIMIT 1").fetchone()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _close(self, handle: sqlite3.Connection) -> None:
        handle.close()
