"""Object storage below one folder: a local path, S3, GCS, ABFS or any other file system of fsspec, by URL.

    storage = Storage("s3://lake/builds/flights", {"endpoint_override": "http://127.0.0.1:9000"})
    storage.write("_CURRENT", b"…")
    for found in storage.objects("data/"): print(found.path, found.bytes)

Paths are relative to the URL, and the names of folders end in "/". Invariants: an object is written whole or not at all, even if
the process is killed, and nothing outside of the URL is touched. Each call is tried three times.

Writes to an object storage run in a separate thread, because closing a stream there always creates the object. An exception that
a signal handler raises in the main thread, as Airflow's do at SIGTERM and on a timeout, would otherwise leave a truncated object.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypeVar
from uuid import uuid4

import pyarrow
from pyarrow import fs
from tenacity import (
    Retrying,
    before_sleep_log,
    retry_if_exception,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from airflow_snowpack.builds.errors import ObjectChanged, ObjectMissing, StorageFailed
from airflow_snowpack.builds.filesystems import ChangedSince, ConditionalWrites, conditional_writes, open_filesystem

T = TypeVar("T")
FileVersion = tuple[int, int, int]

log = logging.getLogger(__name__)

CHUNK_BYTES = 4 * 1024 * 1024
HALF_WRITTEN = ".writing-"
TRIES = 3
PARALLEL_DELETIONS = 16


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A listed object; the path is relative to the storage's URL."""

    path: str
    bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion; ``problems`` has the errors of objects that could not be deleted."""

    objects: int
    bytes: int
    problems: tuple[str, ...] = ()


class Storage:
    """A folder of an object storage. It can be pickled for Spark's tasks.

    Every method raises :class:`StorageFailed` after three failed tries, or :class:`ObjectMissing` if the object is missing.

    :param url: ``/a/path``, ``file://``, ``s3://``, ``gs://``, ``abfs://`` or any URL that fsspec supports.
    :param options: parameters of pyarrow's ``S3FileSystem``, ``GcsFileSystem`` or ``AzureFileSystem``, else of fsspec's file
        system; ``fsspec=True`` selects fsspec for these three, too.
    :param filesystem: replaces the file system of the URL; the URL is then a path on it.
    :param sleep: waits between tries, in seconds.
    :raises InvalidBuild: the URL has no known file system, or contains a secret.
    """

    def __init__(
        self,
        url: str | Path,
        options: Mapping[str, Any] | None = None,
        *,
        filesystem: fs.FileSystem | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = str(url).rstrip("/")
        self._options = dict(options or {})
        self._given = filesystem
        self._sleep = sleep
        self._fs, self._base = (filesystem, self.url) if filesystem else open_filesystem(self.url, self._options)
        self._retrying = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(multiplier=0.2, max=2),
            retry=retry_if_exception(self._is_storage_error) & retry_if_not_exception_type(FileNotFoundError),
            sleep=sleep,
            reraise=True,
            before_sleep=before_sleep_log(log, logging.WARNING),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None:
            raise TypeError("A storage with a file system of its own cannot be pickled; create it from a URL and options.")
        return (Storage, (self.url, self._options))

    def __repr__(self) -> str:
        return f"Storage({self.url!r})"  # the options may contain secrets

    @property
    def is_local(self) -> bool:
        return isinstance(self._fs, fs.LocalFileSystem)

    def local_path(self, path: str) -> Path:
        if not self.is_local:
            raise StorageFailed("find a local path of", self._full_url(path), "the storage is not local")
        return Path(self._absolute(path))

    def read(self, path: str) -> bytes:
        def whole() -> bytes:
            with self._fs.open_input_stream(self._absolute(path)) as stream:
                return bytes(stream.read())

        return self._tried("read", path, whole)

    def write(self, path: str, data: bytes, *, tries: int = TRIES) -> None:
        """Create or replace an object, whole or not at all; pass ``tries=1`` to check something between tries."""

        def put() -> None:
            with self._open_output(path) as file:
                file.write(data)

        self._put(path, put, tries)

    def read_version(self, path: str) -> tuple[bytes | None, str | None]:
        """Read an object, and its version for :meth:`replace`.

        :returns: the bytes, ``None`` if there is no object, and the version, ``None`` if there is no compare-and-set.
        """
        writes = self._conditional
        if writes is not None:
            try:
                return self._tried("read", path, lambda: writes.read(*self._bucket_and_key(path)))
            except StorageFailed as error:
                log.warning("no_conditional_writes: continuing without them: %s", error)
        try:
            return self.read(path), None
        except ObjectMissing:
            return None, None

    def replace(self, path: str, data: bytes, version: str | None) -> None:
        """Replace an object in one try, whole or not at all, if it still has this version.

        Without a version or compare-and-set, replace it unconditionally.

        :raises ObjectChanged: another process replaced it first.
        :raises StorageFailed: it is unknown whether it was replaced.
        """
        writes = self._conditional
        if writes is None or version is None:
            return self.write(path, data, tries=1)
        try:
            self._put(path, lambda: writes.replace(*self._bucket_and_key(path), data, version), tries=1)
        except StorageFailed as error:
            if isinstance(error.__cause__, ChangedSince):
                raise ObjectChanged("write", self._full_url(path), error.__cause__) from error
            raise

    @cached_property
    def _conditional(self) -> ConditionalWrites | None:
        return None if self._given is not None else conditional_writes(self.url.partition("://")[0], self._options)

    def _bucket_and_key(self, path: str) -> tuple[str, str]:
        bucket, _, key = self._absolute(path).partition("/")
        return bucket, key

    def upload(self, local: Path, path: str) -> None:
        # Not pyarrow's copy_files, which returns without an error if the last request of an upload fails.
        def put() -> None:
            with local.open("rb") as source, self._open_output(path) as file:
                shutil.copyfileobj(source, file, CHUNK_BYTES)

        self._put(path, put)

    def download(self, path: str, local: Path) -> None:
        """Copy an object into a local file, whole or not at all."""

        def get() -> None:
            with self._fs.open_input_stream(self._absolute(path)) as source, _atomic_write(local) as file:
                shutil.copyfileobj(source, file, CHUNK_BYTES)

        self._tried("read", path, get)

    def open_ranges(self, path: str) -> tuple[Any, int]:
        """Open an object for :meth:`read_range`; return the file and its size in bytes."""

        def opened() -> tuple[Any, int]:
            file = self._fs.open_input_file(self._absolute(path))
            return file, file.size()

        return self._tried("read", path, opened)

    def read_range(self, file: Any, path: str, offset: int, length: int) -> bytes:
        """Read a range of an object that :meth:`open_ranges` opened, in one request; thread-safe."""
        return self._tried("read", path, lambda: bytes(file.read_at(length, offset)))

    def objects(self, folder: str, *, half_written: bool = False) -> Iterator[StoredObject]:
        """List all objects below a folder, at any depth; none if it does not exist.

        :param half_written: include files that are being written, or were when their writer was killed.
        """
        for info in self._list(folder, recursive=True):
            if info.type == fs.FileType.File and (half_written or HALF_WRITTEN not in info.base_name):
                yield StoredObject(self._relative(info.path), info.size or 0, info.mtime)

    def half_written(self, name: str) -> list[StoredObject]:
        """List half-written files of an object at the root. Object storages, which do not list parts of uploads, have none."""
        infos = self._list("", recursive=False) if self.is_local else []
        begun = f"{name}{HALF_WRITTEN}"
        return [StoredObject(self._relative(i.path), i.size or 0, i.mtime) for i in infos if i.base_name.startswith(begun)]

    def delete(self, path: str) -> Deleted:
        """Delete an object, or everything below a folder (ends in "/"). Missing objects count as deleted.

        A failed deletion does not stop the others; the result reports it.
        """
        _check_inside(path)
        if not path.endswith("/"):
            return self._delete_object(StoredObject(path, 0, None))
        found = list(self.objects(path, half_written=True))
        # In pyarrow, a folder on GCS is an object of that name; without that object, deleting the folder deletes nothing.
        if isinstance(self._fs, fs.GcsFileSystem):
            return self._delete_all(found)
        if not self._delete_folder(path):
            left = {each.path: each for each in self.objects(path, half_written=True)}
            done = self._delete_all(list(left.values()))
            gone = [each.bytes for each in found if each.path not in left]
            return Deleted(done.objects + len(gone), done.bytes + sum(gone), done.problems)
        return Deleted(len(found), sum(each.bytes for each in found))

    def _delete_folder(self, path: str) -> bool:
        """Delete a folder in few requests; return ``False`` if objects may be left."""
        try:
            self._tried("delete", path, lambda: self._fs.delete_dir(self._absolute(path).rstrip("/")))
        except ObjectMissing:
            return True
        except StorageFailed as error:
            log.warning("folder_not_deleted_at_once: %s; deleting one by one", error)
            return False
        return True

    def _delete_all(self, found: list[StoredObject]) -> Deleted:
        with ThreadPoolExecutor(PARALLEL_DELETIONS, thread_name_prefix="snowpack-delete") as pool:
            each = list(pool.map(self._delete_object, found))
        problems = tuple(problem for done in each for problem in done.problems)
        return Deleted(sum(done.objects for done in each), sum(done.bytes for done in each), problems)

    def _delete_object(self, found: StoredObject) -> Deleted:
        try:
            self._tried("delete", found.path, partial(self._fs.delete_file, self._absolute(found.path)))
        except ObjectMissing:
            return Deleted(0, 0)
        except StorageFailed as error:
            return Deleted(0, 0, (str(error),))
        return Deleted(1, found.bytes)

    def _list(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        if folder and not folder.endswith("/"):
            raise ValueError(f"{folder!r} is not a folder: the name must end in '/'.")
        selector = fs.FileSelector(self._absolute(folder).rstrip("/"), allow_not_found=True, recursive=recursive)
        listed = self._tried("list", folder, lambda: self._fs.get_file_info(selector))
        return list(listed)

    def _put(self, path: str, put: Callable[[], None], tries: int = TRIES) -> None:
        self._tried("write", path, put if self.is_local else partial(_run_uninterrupted, put), tries)

    def _open_output(self, path: str) -> AbstractContextManager[Any]:
        """Open an object for writing. Closing it raises the error of the last request."""
        return self._open_durable(path) if self.is_local else self._fs.open_output_stream(self._absolute(path))

    @contextmanager
    def _open_durable(self, path: str) -> Iterator[IO[bytes]]:
        """Open an object of a local storage for writing, durable once closed."""
        target = Path(self._absolute(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _atomic_write(target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())

    def _absolute(self, path: str) -> str:
        _check_inside(path)
        return f"{self._base}/{path}"

    def _relative(self, path: str) -> str:
        return path[len(self._base) + 1 :]

    def _full_url(self, path: str) -> str:
        return f"{self.url}/{path}"

    def _tried(self, what: str, path: str, once: Callable[[], T], tries: int = TRIES) -> T:
        retrying = self._retrying if tries == TRIES else self._retrying.copy(stop=stop_after_attempt(tries))
        try:
            return retrying(once)
        except FileNotFoundError:
            raise ObjectMissing(self._full_url(path)) from None
        except Exception as error:
            if not self._is_storage_error(error):
                raise
            raise StorageFailed(what, self._full_url(path), error) from error

    def _is_storage_error(self, error: BaseException) -> bool:
        """Return whether the storage failed, not the call. File systems of fsspec raise the errors of their libraries."""
        if isinstance(error, (OSError, pyarrow.ArrowException)):
            return True
        by_fsspec = isinstance(self._fs, fs.PyFileSystem)
        return by_fsspec and isinstance(error, Exception) and not isinstance(error, (TypeError, ValueError))


def version_of(path: str | Path) -> FileVersion:
    """Return what changes when a local file is replaced or overwritten; raises ``FileNotFoundError`` like :func:`os.stat`."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def _atomic_write(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that gets its name only when the block ends without an error."""
    half = target.with_name(f"{target.name}{HALF_WRITTEN}{uuid4().hex}")
    try:
        with half.open("wb") as file:
            yield file
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)


def _run_uninterrupted(put: Callable[[], None]) -> None:
    """Complete ``put`` even if a signal handler raises meanwhile; raise that exception afterwards."""
    with ThreadPoolExecutor(1, thread_name_prefix="snowpack-write") as thread:
        thread.submit(put).result()


def _check_inside(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not a path inside the storage.")
