"""A shard as an SQLite file for point look-ups.

    shard = SqliteShard(Path("shard.sqlite"), schema, "tail_number")
    shard.write(table, repeats=False)
    shard.close()

    SELECT * FROM rows WHERE tail_number = ?      -- one look-up in one B-tree

Its one table, ``rows``, has the build's columns in their order, with values as ``cells.py`` writes them. As long as no key
repeats, the key is the primary key; from the first repetition on the table has an index on it instead.

The invariant: a file that is closed can be opened read-only and immutable, for there is no journal and no write-ahead log left.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pyarrow as pa

from airflow_snowpack.builds.cells import to_cells
from airflow_snowpack.builds.errors import InvalidBuild
from airflow_snowpack.builds.keys import KeyType
from airflow_snowpack.builds.sharding import key_type_of

PAGE_SIZE = 8192

_FAST = (
    f"PRAGMA page_size = {PAGE_SIZE}",
    # A file that is half written when its writer dies is thrown away, so nothing in it has to survive.
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
)


class SqliteShard:
    """Writes ``shard.sqlite``.

    :raises InvalidBuild: there are more columns than SQLite allows in a table.
    """

    def __init__(self, path: Path, schema: pa.Schema, key_column: str) -> None:
        self._path = path
        self._schema = schema
        self._key = key_column
        self._unique = True
        self._insert = f"INSERT INTO rows VALUES ({', '.join('?' * len(schema))})"
        self._connection = self._open(path)

    def write(self, rows: pa.Table, *, repeats: bool) -> None:
        """Append rows; they come sorted, so each goes to the end of the B-tree."""
        if repeats and self._unique:
            self._allow_repetition()
        self._connection.executemany(self._insert, zip(*(to_cells(column) for column in rows.columns), strict=True))

    def close(self) -> None:
        """Complete the file."""
        if not self._unique:
            self._connection.execute(f"CREATE INDEX rows_by_key ON rows ({quoted(self._key)})")
        self._connection.commit()
        self._connection.close()

    def _open(self, path: Path) -> sqlite3.Connection:
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
        # Without types, so that SQLite leaves each value as it is. Only "INTEGER PRIMARY KEY" makes the key the row id, which is
        # the fastest that SQLite has; all other keys are that of a table without row ids.
        integer = key_type_of(self._key, self._schema.field(self._key).type) is KeyType.INTEGER
        key = "NOT NULL" if not self._unique else "INTEGER PRIMARY KEY" if integer else "NOT NULL PRIMARY KEY"
        columns = (f"{quoted(name)} {key}" if name == self._key else quoted(name) for name in self._schema.names)
        return f"CREATE TABLE rows ({', '.join(columns)}){' WITHOUT ROWID' if self._unique and not integer else ''}"

    def _allow_repetition(self) -> None:
        """Go on in a new file whose key repeats: changing the table in place would leave its pages behind as free ones."""
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


def quoted(name: str) -> str:
    """A column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'
