"""Read the rows of one shard; :class:`SqliteReader` and :class:`ParquetReader` implement the formats.

    shard = SqliteReader(lambda: cache.path(part), manifest)
    shard.get("N14228")                    # the first row with this key, as a dict, or None
    shard.get_all("N14228")                # all rows with this key
    for batch in shard.batches(): ...      # all rows, in the order of their keys

A reader is thread-safe, even while it is closed: each call uses its own file handle, which then returns to a pool or, if the
reader was closed meanwhile, is closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw
import pyarrow as pa

from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.model import Key, Manifest
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.storage import FileVersion, version_of

Handle = TypeVar("Handle")
Row = dict[str, Any]
Locate = Callable[[], AbstractContextManager[Path | RangedFile]]

BATCH_ROWS = 10_000
UNREADABLE = (apsw.Error, UnicodeDecodeError, OSError, pa.ArrowException)
"""The errors that a damaged file may raise."""


class ShardReader(ABC, Generic[Handle]):
    """Reads one shard.

    :param locate: returns the path of the file, which exists until it is opened, or a file for range reads.
    :param in_place: the file is not a copy but the storage's own, which other processes may change.
    :param by_range: each call reads ranges of a file in the storage, and thus waits for the network.
    """

    def __init__(self, locate: Locate, manifest: Manifest, in_place: bool = True, *, by_range: bool = False) -> None:
        self._locate = locate
        self._in_place = in_place
        self.by_range = by_range
        self._may_change = in_place and not by_range
        self._version: FileVersion | None = None
        self._key_column = manifest.key_column
        self._columns = manifest.columns
        self._idle: deque[Handle] = deque()
        self._closed = False
        self._path = "a shard"
        self.used = True
        """Whether it was used since the last check of :class:`OpenBuild`."""

    @abstractmethod
    def get(self, key: Key) -> Row | None:
        """Return the first row with this key, or ``None``."""

    @abstractmethod
    def get_all(self, key: Key) -> list[Row]:
        """Return all rows with this key."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Row]]:
        """Return the rows of these keys; if a key has several pairs, the last has its first row."""

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in the order of their keys."""

    def close(self) -> None:
        """Close all idle handles; the others are closed when they return to the pool."""
        self._closed = True
        while self._idle:
            self._close(self._idle.pop())

    @property
    def is_open(self) -> bool:
        """Whether the next call finds an open handle."""
        return bool(self._idle)

    @contextmanager
    def _handle(self) -> Iterator[Handle]:
        handle = self._take()
        try:
            yield handle
        except UNREADABLE as error:
            raise self._damage(error) from error
        finally:
            self._give_back(handle)
        self._check_unchanged()

    def _damage(self, error: Exception) -> ManifestDamaged | MemoryError:
        """Return the error for a file that was undamaged when it was opened and has changed since."""
        if isinstance(error, apsw.NoMemError):
            return MemoryError(str(error))
        return ManifestDamaged(self._path, f"it can no longer be read ({error})")

    def _check_unchanged(self) -> None:
        """Verify the file again if it has changed, before returning rows that were read from it.

        A deleted file has not changed: open handles still read it.

        :raises ManifestDamaged: it was overwritten or replaced by other bytes.
        """
        if not self._may_change:
            return
        try:
            version = version_of(self._path)
        except FileNotFoundError:
            return
        if version != self._version:
            with self._locate():
                self._version = version

    def _take(self) -> Handle:
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_handle()

    def _give_back(self, handle: Handle) -> None:
        self._idle.append(handle)
        if self._closed:
            self.close()

    def _open_handle(self) -> Handle:
        with self._locate() as file:
            self._path = str(file)
            try:
                return self._open(file)
            except apsw.NoMemError as error:
                raise MemoryError(str(error)) from error
            except UNREADABLE as error:
                raise ManifestDamaged(self._path, f"it cannot be opened ({error})") from error

    @abstractmethod
    def _open(self, file: Path | RangedFile) -> Handle: ...

    @abstractmethod
    def _close(self, handle: Handle) -> None: ...
