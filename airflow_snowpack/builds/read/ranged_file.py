"""Read ranges of a file in an object storage, without copying the file for a look-up.

    file = RangedFile(storage, "data/…/shard.sqlite", size=4 * 2**30)
    file.verify(partial(are_sealed, seed))
    file.read(offset=8192, length=8192)           # fetches its block of 64 KiB, once
    pyarrow.parquet.ParquetFile(file.stream())

Adjacent blocks are fetched in one request, and the most recently used blocks are cached. The file's size is checked, and each
block against the checksums inside the file. A file is thread-safe.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from airflow_snowpack.builds.block_checksums import BLOCK, BlockCheck
from airflow_snowpack.builds.errors import ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.storage import Storage

MAX_CACHED_BLOCKS = 64


class RangedFile:
    """Reads one file.

    :param size: in bytes, from the manifest.
    :param block_seed: the seed of the checksums inside the file, from the manifest.
    :param on_outgrown: called once, after half of the file's size was fetched: from then on a copy is cheaper.
    """

    def __init__(
        self, storage: Storage, path: str, size: int, on_outgrown: Callable[[], None] = lambda: None, *, block_seed: str = ""
    ) -> None:
        self.path = path
        self.size = size
        self.block_seed = block_seed
        self.requests = 0
        self.fetched = 0
        self._storage = storage
        self._on_outgrown: Callable[[], None] | None = on_outgrown
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._check: BlockCheck | None = None
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._file: Any = None

    def __str__(self) -> str:
        return self.path

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes from an offset on, fewer at the end; raise :class:`ManifestDamaged` if the file has been replaced."""
        end = min(offset + length, self.size)
        if offset >= end:
            return b""
        numbers = range(offset // BLOCK, (end - 1) // BLOCK + 1)
        blocks = self._cached_blocks(numbers)
        for first, last in _runs([number for number in numbers if number not in blocks]):
            blocks |= self._fetch(first, last)
        data = b"".join(blocks[number] for number in numbers)
        begin = offset - numbers[0] * BLOCK
        return data[begin : begin + end - offset]

    def stream(self) -> io.RawIOBase:
        """Return a Python file object with its own position."""
        return _Stream(self)

    def verify(self, check: BlockCheck) -> None:
        """Check cached blocks, and all blocks fetched from now on, by the first ``check``; may raise :class:`ManifestDamaged`."""
        with self._lock:
            if self._check is not None:
                return
            self._check, blocks = check, dict(self._blocks)
            self._blocks.clear()
        self._cache_blocks(blocks)

    def _cached_blocks(self, numbers: range) -> dict[int, bytes]:
        with self._lock:
            found = {number: self._blocks[number] for number in numbers if number in self._blocks}
            for number in found:
                self._blocks.move_to_end(number)
        return found

    def _fetch(self, first: int, last: int) -> dict[int, bytes]:
        """Fetch adjacent blocks in one request."""
        begin, end = first * BLOCK, min((last + 1) * BLOCK, self.size)
        try:
            data = self._storage.read_range(self._open_file(), self.path, begin, end - begin)
        except ObjectMissing:
            raise ManifestDamaged(self.path, "it does not exist") from None
        if len(data) != end - begin:
            raise ManifestDamaged(self.path, f"it ends before byte {end:,}, and its size in the manifest is {self.size:,}")
        blocks = {number: data[number * BLOCK - begin : (number + 1) * BLOCK - begin] for number in range(first, last + 1)}
        self._cache_blocks(blocks)
        with self._lock:
            self.requests += 1
            self.fetched += len(data)
            outgrown, on_outgrown = self.fetched > self.size // 2, self._on_outgrown
            self._on_outgrown = None if outgrown else on_outgrown
        if outgrown and on_outgrown is not None:
            on_outgrown()
        return blocks

    def _cache_blocks(self, blocks: dict[int, bytes]) -> None:
        for number, block in blocks.items():
            if self._check is not None and not self._check(number * BLOCK, block):
                raise ManifestDamaged(self.path, f"the block at byte {number * BLOCK:,} is not what was written")
        with self._lock:
            self._blocks |= blocks
            while len(self._blocks) > MAX_CACHED_BLOCKS:
                self._blocks.popitem(last=False)

    def _open_file(self) -> Any:
        with self._opening:
            if self._file is None:
                try:
                    file, size = self._storage.open_ranges(self.path)
                except ObjectMissing:
                    raise ManifestDamaged(self.path, "it does not exist") from None
                if size != self.size:
                    raise ManifestDamaged(self.path, f"it has {size} bytes, and {self.size} in the manifest")
                self._file = file
            return self._file


class _Stream(io.RawIOBase):
    def __init__(self, file: RangedFile) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        data = self._file.read(self._at, self._file.size if size is None or size < 0 else size)
        self._at += len(data)
        return data


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the first and last number of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs
