"""Read shards in SQLite: a look-up is one descent in one B-tree.

    reader = SqliteReader(lambda: cache.path(shard), manifest)
    reader.get("N14228")

``columns.py`` decodes the values. Truncating a file while it is read raises an error, and does not crash the process. A shard of
an object storage is read page by page, through a virtual file system of APSW that never writes or locks.

APSW converts SQLite's values in half the time of the standard library. It brings another SQLite than the writer's into the
process, and closing a file in one releases the other's locks on it; that is safe, as readable shards are never written again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, lru_cache, partial
from itertools import count, islice
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw
import pyarrow as pa

from airflow_snowpack.builds.block_checksums import are_sealed
from airflow_snowpack.builds.columns import arrow_array, arrow_schema, from_cell
from airflow_snowpack.builds.model import Key, KeyType, Manifest
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.read.shard_reader import BATCH_ROWS, UNREADABLE, Locate, Row, ShardReader
from airflow_snowpack.builds.write.shard_writers import quoted

RowMaker = Callable[[Iterable[Sequence[Any]]], list[Row]]

MAPPED_BYTES = 2**40
BUSY_MS = 5_000
FLAGS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOMUTEX
"""No mutex around each value: the pool gives a connection to one thread at a time, with all cursors finished."""
TAKES_ARRAYS = hasattr(apsw, "carray") and "ENABLE_CARRAY" in apsw.compile_options
"""True for APSW from PyPI, not for every build with the system's SQLite."""
CACHE_BYTES = 8 * 2**20
"""The page cache of one connection."""


class SqliteReader(ShardReader[apsw.Connection]):
    """Reads ``shard.sqlite``; a look-up is one descent in one B-tree."""

    def __init__(self, locate: Locate, manifest: Manifest, in_place: bool = True, *, by_range: bool = False) -> None:
        super().__init__(locate, manifest, in_place, by_range=by_range)
        self._schema = arrow_schema(manifest.columns)
        self._key_at = self._schema.names.index(self._key_column)
        self._key_type = manifest.key_type
        self._rows = _row_maker(manifest.columns)
        # "rows.*", in the order of the format: APSW does not cache prepared statements longer than 16 KiB.
        key = f"rows.{quoted(self._key_column)}"
        self._all = f"SELECT rows.* FROM rows ORDER BY {key}"
        self._those = f"SELECT rows.* FROM rows WHERE {key} = ?"
        self._one = f"{self._those} LIMIT 1"
        self._any = f"SELECT rows.* FROM carray(?) AS wanted CROSS JOIN rows WHERE {key} = wanted.value"

    def get(self, key: Key) -> Row | None:
        connection = self._take()  # not the context manager, which would take a tenth of the time
        try:
            found = connection.execute(self._one, (key,)).fetchall()
        except UNREADABLE as error:
            raise self._damage(error) from error
        finally:
            self._give_back(connection)
        if self._may_change:
            self._check_unchanged()
        return self._rows(found)[0] if found else None

    def get_all(self, key: Key) -> list[Row]:
        with self._handle() as connection:
            return self._rows(connection.execute(self._those, (key,)).fetchall())

    def multi_get(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Row]]:
        wanted = self._in_order(keys)
        with self._handle() as connection:
            # NUL would end a string in an array.
            if TAKES_ARRAYS and not (self._key_type is KeyType.STRING and "\0" in "".join(wanted)):
                keys_array = apsw.carray(array("q", wanted) if self._key_type is KeyType.INTEGER else tuple(wanted))
                # Not cached, because a prepared statement keeps its bound values.
                found = connection.execute(self._any, (keys_array,), can_cache=False).fetchall()
            else:
                with connection:  # one transaction locks the file once
                    found = connection.executemany(self._one, zip(wanted, strict=True)).fetchall()
        found.reverse()  # the first row of a key comes last
        return zip(map(itemgetter(self._key_at), found), self._rows(found), strict=True)

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._handle() as connection, closing(connection.execute(self._all)) as cursor:
            while found := list(islice(cursor, BATCH_ROWS)):
                values = zip(*found, strict=True)
                columns = [arrow_array(column, field.type) for column, field in zip(values, self._schema, strict=True)]
                self._check_unchanged()
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _in_order(self, keys: Sequence[Any]) -> list[Any]:
        """Return the keys sorted, to read each page once, and without subclasses of str and bytes, which APSW rejects."""
        match self._key_type:
            case KeyType.INTEGER:
                return sorted(keys)
            case KeyType.STRING:
                return sorted(map(str.__str__, keys))
            case KeyType.BYTES:
                return sorted(map(bytes, keys))

    def _open(self, file: Path | RangedFile) -> apsw.Connection:
        if isinstance(file, RangedFile):
            file.verify(partial(are_sealed, file.block_seed))
            with registered(file) as uri:
                return self._connect(uri, f"PRAGMA cache_size = -{CACHE_BYTES // 1024}")
        uri = f"file:{quote(str(file))}?mode=ro"
        if not self._in_place:
            # A copy never changes: SQLite need not lock or check it, and may map it.
            return self._connect(f"{uri}&immutable=1", f"PRAGMA mmap_size = {MAPPED_BYTES}")
        # The storage's own file may change. SQLite checks it with each statement, and reads instead of mapping it: truncation
        # then raises an error instead of killing the process by a signal.
        pages = f"PRAGMA cache_size = -{min(file.stat().st_size, CACHE_BYTES) // 1024 + 256}"
        try:
            return self._connect(uri, pages)
        except apsw.Error:
            return self._connect(f"{uri}&immutable=1", pages)  # a mounted bucket, which has no locks

    def _connect(self, uri: str, pages: str) -> apsw.Connection:
        connection = apsw.Connection(uri, flags=FLAGS, statementcachesize=64)
        try:
            connection.set_busy_timeout(BUSY_MS)
            connection.execute(pages).fetchall()
            connection.execute(f"{self._all} LIMIT 1").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self, handle: apsw.Connection) -> None:
        handle.close()


@lru_cache(maxsize=64)
def _row_maker(columns: tuple[tuple[str, str], ...]) -> RowMaker:
    """Compile the function that makes rows from cells, which takes milliseconds for a thousand columns.

    Without compiling, ``dict(zip(names, values))`` takes more than twice the time, a fifth of a look-up of a thousand keys.
    """
    decoders: dict[str, Callable[[Any], Any]] = {}
    items = []
    for at, field in enumerate(arrow_schema(columns)):
        value = f"v{at}"
        if (read := from_cell(field.type)) is not None:
            decoders[f"d{value}"] = read
            value = f"None if {value} is None else d{value}({value})"
        items.append(f"{field.name!r}: {value}")  # the text contains only names, as Python literals
    values = ", ".join(f"v{at}" for at in range(len(columns)))
    make: RowMaker = eval(f"lambda found: [{{{', '.join(items)}}} for {values}, in found]", decoders)
    return make


VFS = "snowpack-ranges"

_files: dict[str, RangedFile] = {}
_names = count(1)


@contextmanager
def registered(file: RangedFile) -> Iterator[str]:
    """Return the URI under which SQLite opens a file; an open connection can read it after the block, too."""
    _vfs()
    name = f"/{next(_names)}"
    _files[name] = file
    try:
        yield f"file:{name}?vfs={VFS}&mode=ro&immutable=1"
    finally:
        del _files[name]


class _Vfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS, "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name
        flags[1] = flags[0]
        return _File(_files[name.filename() if isinstance(name, apsw.URIFilename) else name])

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        return False

    def xFullPathname(self, name: str) -> str:  # noqa: N802
        return name


class _File:
    """The methods that SQLite calls on a read-only file; APSW accepts any object that has them."""

    def __init__(self, file: RangedFile) -> None:
        self._file = file

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        return self._file.read(offset, amount)

    def xFileSize(self) -> int:  # noqa: N802
        return self._file.size

    def xLock(self, level: int) -> None:  # noqa: N802
        """Nothing is locked."""

    def xUnlock(self, level: int) -> None:  # noqa: N802
        """Nothing is locked."""

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return 4096

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return int(apsw.SQLITE_IOCAP_IMMUTABLE)

    def xClose(self) -> None:  # noqa: N802
        """All connections of the shard's reader share the file."""


@cache
def _vfs() -> _Vfs:
    """Register the file system, once per process."""
    return _Vfs()
