"""Where the file of a shard stands on this machine: in place where the storage is local, else copied here once.

    cache = ShardCache(storage, folder=Path("/var/cache/builds"), max_bytes=50 * 2**30)
    with cache.held(manifest.shards[3]) as path: ...

The invariant: **a path that is handed out stands for exactly the bytes that the manifest names**: each file is summed up before
it is first used, and a copy gets its name only after that. Copies are named by their checksum and shared by all processes of the
machine. The longest unused are deleted when they outgrow the limit, but never between their verification and their opening; a
process that has one open keeps reading it.
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
from airflow_snowpack.builds.model import ShardAttemptResult
from airflow_snowpack.builds.read.ranged_file import RangedFile
from airflow_snowpack.builds.storage import Storage

log = logging.getLogger(__name__)

MAX_BYTES = 20 * 2**30
RANGE_READS_ABOVE = 64 * 2**20
HALF = ".part"
LOCKS = 64
ROOM = "lock-room"
"""Held while copies are evicted, and while one is opened."""
GONE = "it is not there any more"
HALF_IS_LEFT_OVER_AFTER_S = 3600.0
CHUNK = 4 * 1024 * 1024


def default_folder() -> Path:
    """The user's own cache folder; nobody else may write there."""
    return Path.home() / ".cache" / "snowpack" / "builds"


class ShardCache:
    """Finds the files of a dataset's shards.

    :param folder: for copies, shared by processes and datasets; ``~/.cache/snowpack/builds`` when none is named.
    :param max_bytes: of all copies of this dataset; one shard that is greater than that is kept alone.
    :param range_reads_above: bytes from which on a look-up reads a shard of a remote storage by ranges instead of copying it.
    :param clock: seconds since 1970, as files tell their age.
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
        self._folder = (folder or default_folder()) / xxhash.xxh3_64_hexdigest(storage.url.encode())
        self._max_bytes = max_bytes
        self._verified: set[str] = set()

    @property
    def in_place(self) -> bool:
        """Whether files are read where the storage has them, so that others may write to them."""
        return self._storage.is_local

    def ranged(self, shard: ShardAttemptResult, on_outgrown: Callable[[], None]) -> RangedFile | None:
        """A shard's file, to be read by ranges; ``None`` if it is to be read from this machine: it is small, or copied already.

        :param on_outgrown: called when so much was read that a copy is cheaper.
        """
        if self._storage.is_local or shard.url is None or shard.checksum is None or shard.bytes <= self._range_reads_above:
            return None
        if self._copy(shard.url, shard.checksum, shard.bytes).exists():
            return None
        return RangedFile(self._storage, shard.url, shard.bytes, on_outgrown)

    @contextmanager
    def held(self, shard: ShardAttemptResult) -> Iterator[Path]:
        """The path of a shard's file, verified. A copy is not evicted before the block ends, so open it there, and read it later.

        :raises ManifestDamaged: the file is not what the manifest says, or not there any more.
        :raises StorageFailed: the storage could not be read.
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
        with self._locked(f"lock-{hash_of_name(path.name)}"), self._copied(shard.url, path, shard.checksum, shard.bytes):
            yield path

    def _in_place(self, url: str, checksum: str, size: int) -> Path:
        path = self._storage.local_path(url)
        if url not in self._verified:
            try:
                problem = problem_of(path, checksum, size)
            except FileNotFoundError:
                problem = GONE
            if problem:
                raise ManifestDamaged(url, problem)
            self._verified.add(url)
        return path

    @contextmanager
    def _copied(self, url: str, path: Path, checksum: str, size: int) -> Iterator[None]:
        """Copy a shard unless a whole copy is there, and keep all copies from eviction until the block ends."""
        half = path.with_name(path.name + HALF)
        try:
            while True:
                whole = _is_whole(path, checksum, size)
                if not whole:
                    self._download(url, half, checksum, size)
                with self._locked(ROOM):
                    if not whole:
                        half.replace(path)
                    if path.exists():  # it may have been evicted since it was summed up
                        self._verified.add(path.name)
                        _mark_used(path)
                        self._make_room(keep=path)
                        yield
                        return
        finally:
            half.unlink(missing_ok=True)

    def _copy(self, url: str, checksum: str, size: int) -> Path:
        return self._folder / f"{checksum.partition(':')[2]}-{size}{Path(url).suffix}"

    def _download(self, url: str, half: Path, checksum: str, size: int) -> None:
        for left_over in self._folder.glob(f"{half.name}*"):  # of a process that was killed, as this one has the lock
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
            log.warning("%s alone is greater than the cache's limit of %s bytes.", keep.name, self._max_bytes)

    def _copies(self) -> Iterator[tuple[float, int, Path]]:
        """When each was last used, its size, and where it stands; a download in progress is nobody's to delete."""
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                found = entry.stat()
                in_progress = HALF in entry.name and self._clock() - found.st_mtime < HALF_IS_LEFT_OVER_AFTER_S
                if not entry.name.startswith("lock-") and not in_progress:
                    yield found.st_mtime, found.st_size, Path(entry.path)

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock between threads and processes; the system lets go of a killed one's."""
        with (self._folder / name).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def problem_of(path: Path, checksum: str, size: int) -> str | None:
    """What is wrong with a file; ``None`` when it is what it should be.

    :raises FileNotFoundError: it is not there.
    """
    if (found := path.stat().st_size) != size:
        return f"it has {found} bytes, and the manifest says {size}"
    summed = xxhash.xxh3_64(seed=0)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            summed.update(chunk)
    if (found_checksum := f"xxh3_64:{summed.hexdigest()}") != checksum:
        return f"its checksum is {found_checksum}, and the manifest says {checksum}"
    return None


def _is_whole(path: Path, checksum: str, size: int) -> bool:
    try:
        return problem_of(path, checksum, size) is None
    except FileNotFoundError:  # never copied, or evicted by another process at this very moment
        return False


def hash_of_name(name: str) -> int:
    """Which of the few lock files stands for a copy: there are not as many as copies, which come and go."""
    return xxhash.xxh3_64_intdigest(name.encode()) % LOCKS


def _mark_used(path: Path) -> None:
    with suppress(FileNotFoundError):  # evicted a moment ago: whoever opens it will notice
        os.utime(path)
