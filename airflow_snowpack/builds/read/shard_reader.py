"""The rows of one shard, from its file on this machine.

    shard = SqliteReader(lambda: cache.held(part), manifest)
    shard.get("N14228")                    # the first row with this key, as a dict, or None
    shard.get_all("N14228")                # all of them
    for batch in shard.batches(): ...      # everything, in order of the key

The invariant: any number of threads may ask at once, and a shard that was closed still answers whoever has it in hand: each asks
through a handle of its own, which goes back to a pool, or is closed if the shard was closed meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import apsw
import pyarrow as pa

from airflow_snowpack.builds.errors import ManifestDamaged
from airflow_snowpack.builds.model import Key, Manifest

Handle = TypeVar("Handle")

BATCH_ROWS = 10_000
UNREADABLE = (apsw.Error, UnicodeDecodeError, OSError, pa.ArrowException)
"""What a damaged file may end in."""


class ShardReader(ABC, Generic[Handle]):
    """Reads one shard.

    :cvar by_range: it reads a file of the storage by ranges, so that each question waits for the network.

    :param held: gives the path of its file, which stays there until it is opened.
    :param in_place: the file is the storage's own, which others may write to, and not a copy that only readers have.
    """

    by_range: ClassVar[bool] = False

    def __init__(self, held: Callable[[], AbstractContextManager[Path]], manifest: Manifest, in_place: bool = True) -> None:
        self._held = held
        self._in_place = in_place
        self._key_column = manifest.key_column
        self._columns = manifest.columns
        self._idle: deque[Handle] = deque()
        self._closed = False
        self._path: Path | str | None = None
        self.hot = True
        """Whether it was asked since somebody last looked whether it was."""

    @abstractmethod
    def get(self, key: Key) -> Row | None:
        """The first row with this key."""

    @abstractmethod
    def get_all(self, key: Key) -> list[Row]:
        """All rows with this key."""

    @abstractmethod
    def multi_get(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Row]]:
        """The first row of each of these keys that is there. Of several pairs of one key, that is the last one."""

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, in order of the key."""

    def rows(self) -> Iterator[Row]:
        """All rows, in order of the key."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def close(self) -> None:
        """Close all handles that nobody uses; the others are closed as they come back."""
        self._closed = True
        while self._idle:
            self._close(self._idle.pop())

    @property
    def is_open(self) -> bool:
        """Whether the next question need not wait for a handle to be opened."""
        return bool(self._idle)

    @contextmanager
    def _handle(self) -> Iterator[Handle]:
        handle = self._taken()
        try:
            yield handle
        except UNREADABLE as error:
            raise self._damage(error) from error
        finally:
            self._give_back(handle)

    def _damage(self, error: Exception) -> ManifestDamaged | MemoryError:
        """It was whole when it was opened, so somebody has changed it since."""
        if isinstance(error, apsw.NoMemError):
            return MemoryError(str(error))
        return ManifestDamaged(str(self._path or "a shard"), f"it can no longer be read ({error})")

    def _taken(self) -> Handle:
        try:
            return self._idle.pop()
        except IndexError:
            return self._opened()

    def _give_back(self, handle: Handle) -> None:
        self._idle.append(handle)
        if self._closed:
            self.close()

    def _opened(self) -> Handle:
        with self._held() as path:
            self._path = path
            try:
                return self._open(path)
            except apsw.NoMemError as error:
                raise MemoryError(str(error)) from error
            except UNREADABLE as error:
                raise ManifestDamaged(str(path), f"it cannot be opened ({error})") from error

    @abstractmethod
    def _open(self, path: Path) -> Handle: ...

    @abstractmethod
    def _close(self, handle: Handle) -> None: ...


Row = dict[str, Any]
RowMaker = Callable[[Iterable[Sequence[Any]]], list[Row]]


def row_maker(names: Sequence[str], decoders: Mapping[str, Callable[[Any], Any]]) -> RowMaker:
    """What makes rows of these columns.

    :param names: of the columns, in the order of the values.
    :param decoders: what makes a column's value of what the database has for it, unless that is ``None``.
    """
    # The only text of others in it are the names, as literals of Python.
    values = [f"v{at}" for at in range(len(names))]
    items = [
        f"{name!r}: {value if name not in decoders else f'None if {value} is None else d{value}({value})'}"
        for name, value in zip(names, values, strict=True)
    ]
    decoding = {f"d{value}": decoders[name] for name, value in zip(names, values, strict=True) if name in decoders}
    make: RowMaker = eval(f"lambda found: [{{{', '.join(items)}}} for {', '.join(values)}, in found]", decoding)
    return make
