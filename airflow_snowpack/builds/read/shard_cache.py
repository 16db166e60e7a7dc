"""Local files of shards: in place if the storage is local, otherwise copies.

    cache = ShardCache(storage, folder=Path("/var/cache/builds"), max_bytes=50 * 2**30)
    with cache.path(manifest.shards[3]) as path: ...

Invariant: a returned path has exactly the bytes that the manifest names. Each file's checksum is verified before its first use,
and again after a storage's own file has changed; a copy gets its name only after that. Copies are named by their checksum and
shared by all processes of the machine. Beyond the limit, the least recently used copies are deleted, but never between
verification and opening; a process that has opened a copy can still read it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import xxhash

from airflow_snowpack.builds.errors import ManifestDamaged, ObjectMissing
from airflow_snowpack.builds.json_format import file_checksum
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.storage import FileVersion, Storage, version_of

log = logging.getLogger(__name__)

MAX_BYTES = 20 * 2**30
RANGE_READS_ABOVE = 64 * 2**20
PART = ".part"
LOCKS = 64
"""The number of lock files, shared by all copies."""
ROOM = "lock-room"
"""The lock for evicting copies and for opening a copy."""
GONE = "it does not exist"
ABANDONED_PART_AGE_S = 3600.0


class ShardCache:
    """Provides the files of a dataset's shards.

    :param folder: for copies, shared by processes and datasets; ``~/.cache/snowpack/builds`` by default.
    :param max_bytes: the limit of this dataset's copies; a single larger shard is kept alone.
    :param range_reads_above: look-ups read ranges of remote shards above this size instead of copying them.
    :param clock: seconds since 1970, like the times of files.
    """

    def __init__(
        self,
        storage: Storage,
        folder: Path | None = None,
        max_bytes: int = MAX_BYTES,
        *,
        range_reads_above: int = RANGE_READS_ABOVE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._range_reads_above = range_reads_above
        self._storage = storage
        self._clock = clock
        self._folder = (folder or Path.home() / ".cache" / "snowpack" / "builds") / xxhash.xxh3_64_hexdigest(storage.url.encode())
        self._max_bytes = max_bytes
        self._verified: dict[str, FileVersion | None] = {}

    @property
    def in_place(self) -> bool:
        """Whether the storage's own files are read, which may change."""
        return self._storage.is_local

    def ranged(self, shard: ShardAttemptResult, on_outgrown: Callable[[], None]) -> RangedFile | None:
        """Return a shard's file for range reads; ``None`` if it is small or already copied, or lacks checksums inside.

        :param on_outgrown: called once a copy would have been cheaper than the ranges read.
        """
        if self._storage.is_local or shard.url is None or shard.checksum is None or shard.bytes <= self._range_reads_above:
            return None
        if shard.block_seed is None:
            return None
        if self._copy(shard.url, shard.checksum, shard.bytes).exists():
            return None
        return RangedFile(self._storage, shard.url, shard.bytes, on_outgrown, block_seed=shard.block_seed)

    @contextmanager
    def path(self, shard: ShardAttemptResult) -> Iterator[Path]:
        """Return the path of a shard's verified file. Open it within the block, which protects a copy from eviction.

        :raises ManifestDamaged: the file differs from the manifest, or does not exist.
        """
        if shard.url is None or shard.checksum is None:
            raise ManifestDamaged(f"shard {shard.shard_id}", "it has no file")
        if self._storage.is_local:
            yield self._in_place(shard.url, shard.checksum, shard.bytes)
            return
        path = self._copy(shard.url, shard.checksum, shard.bytes)
        self._folder.mkdir(parents=True, exist_ok=True)
        if path.name in self._verified:
            with self._locked(ROOM):
                if path.exists():
                    _mark_used(path)
                    yield path
                    return
        lock = f"lock-{xxhash.xxh3_64_intdigest(path.name.encode()) % LOCKS}"
        with self._locked(lock), self._copied(shard.url, path, shard.checksum, shard.bytes):
            yield path

    def _in_place(self, url: str, checksum: str, size: int) -> Path:
        path = self._storage.local_path(url)
        try:
            version = version_of(path)
            problem = None if self._verified.get(url) == version else problem_of(path, checksum, size)
        except FileNotFoundError:
            problem = GONE
        if problem:
            raise ManifestDamaged(url, problem)
        self._verified[url] = version
        return path

    @contextmanager
    def _copied(self, url: str, path: Path, checksum: str, size: int) -> Iterator[None]:
        """Copy a shard unless there is an undamaged copy, and prevent evictions until the block ends."""
        half = path.with_name(path.name + PART)
        try:
            while True:
                whole = _is_whole(path, checksum, size)
                if not whole:
                    self._download(url, half, checksum, size)
                with self._locked(ROOM):
                    if not whole:
                        half.replace(path)
                    if path.exists():  # it may have been evicted since its verification
                        self._verified[path.name] = None
                        _mark_used(path)
                        self._make_room(keep=path)
                        yield
                        return
        finally:
            half.unlink(missing_ok=True)

    def _copy(self, url: str, checksum: str, size: int) -> Path:
        return self._folder / f"{checksum.partition(':')[2]}-{size}{Path(url).suffix}"

    def _download(self, url: str, half: Path, checksum: str, size: int) -> None:
        for left_over in self._folder.glob(f"{half.name}*"):  # of a killed process: this one has the lock
            left_over.unlink(missing_ok=True)
        try:
            self._storage.download(url, half)
        except ObjectMissing:
            raise ManifestDamaged(url, GONE) from None
        if problem := problem_of(half, checksum, size):
            raise ManifestDamaged(url, problem)

    def _make_room(self, keep: Path) -> None:
        copies = sorted(self._copies(), key=lambda copy: copy[0])
        excess = sum(size for _, size, _ in copies) - self._max_bytes
        for _, size, path in copies:
            if excess <= 0:
                return
            if path != keep:
                path.unlink(missing_ok=True)
                excess -= size
        if excess > 0:
            log.warning("%s alone exceeds the cache's limit of %s bytes.", keep.name, self._max_bytes)

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of last use, size and path of each copy, without downloads in progress."""
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                found = entry.stat()
                in_progress = PART in entry.name and self._clock() - found.st_mtime < ABANDONED_PART_AGE_S
                if not entry.name.startswith("lock-") and not in_progress:
                    yield found.st_mtime, found.st_size, Path(entry.path)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Lock out other threads and processes; the system releases the lock of a killed process."""
        with (self._folder / name).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def problem_of(path: Path, checksum: str, size: int) -> str | None:
    """Return how a file differs from the manifest, or ``None``.

    :raises FileNotFoundError: it does not exist. A missing copy does not mean that the build is damaged.
    """
    if (found := path.stat().st_size) != size:
        return f"it has {found} bytes, and {size} in the manifest"
    if (found_checksum := file_checksum(path)) != checksum:
        return f"its checksum is {found_checksum}, and {checksum} in the manifest"
    return None


def _is_whole(path: Path, checksum: str, size: int) -> bool:
    try:
        return problem_of(path, checksum, size) is None
    except FileNotFoundError:  # never copied, or just evicted by another process
        return False


def _mark_used(path: Path) -> None:
    with suppress(FileNotFoundError):  # just evicted, which opening it detects
        os.utime(path)
