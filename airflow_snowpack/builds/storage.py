"""Object storage below one folder: a local path, S3, GCS, ABFS, or anything else that fsspec knows, by URL.

    storage = Storage("s3://lake/builds/flights", {"endpoint_override": "http://127.0.0.1:9000"})
    storage.write("_CURRENT", b"…")
    for found in storage.objects("data/"): print(found.path, found.bytes)

Paths are relative to the URL. The invariants: an object is there whole or not at all, also after a kill; a folder is named with
its "/"; and **nothing outside of the URL is ever touched**. Each call is tried three times, because storages fail in passing.

What is written to an object storage is written in a thread of its own. A stream there makes its object when it is closed, and it
is closed however it is left: an exception that a signal's handler raises between its opening and its end, as Airflow's do at
SIGTERM and at a time limit, would make an empty or a shorter object. Handlers run in the main thread alone.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar
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

from airflow_snowpack.builds.errors import InvalidBuild, ObjectChanged, ObjectMissing, StorageFailed
from airflow_snowpack.builds.filesystems import ChangedSince, ConditionalWrites, conditional_writes
from airflow_snowpack.redaction import HIDDEN, QUERY, public_address

T = TypeVar("T")

log = logging.getLogger(__name__)

CHUNK = 4 * 1024 * 1024
HALF_WRITTEN = ".writing-"
TRIES = 3
AT_ONCE = 16
NATIVE = {"s3": fs.S3FileSystem, "gs": fs.GcsFileSystem, "gcs": fs.GcsFileSystem}
AZURE = ("abfs", "abfss")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing shows it; the path is relative to the storage's URL."""

    path: str
    bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """What a deletion got done.

    :param problems: what could not be deleted, and why.
    """

    objects: int
    bytes: int
    problems: tuple[str, ...] = ()


class Storage:
    """A folder of an object storage.

    It can be pickled, so that Spark's tasks open their own.

    :param url: ``/a/path``, ``file://``, ``s3://``, ``gs://``, ``abfs://`` or any URL that fsspec opens.
    :param options: of the file system: the parameters of pyarrow's ``S3FileSystem``, ``GcsFileSystem`` or ``AzureFileSystem``,
        else fsspec's; with ``fsspec=True`` among them fsspec's for these too.
    :param filesystem: in place of the one that the URL names; the URL is then a path on it.
    :param sleep: how it waits between two tries, in seconds.
    :raises InvalidBuild: no file system is known for the URL, or a secret stands in it.
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
        self._fs, self._base = (filesystem, self.url) if filesystem else _open(self.url, self._options)
        self._retrying = Retrying(
            stop=stop_after_attempt(TRIES),
            wait=wait_exponential(multiplier=0.2, max=2),
            retry=retry_if_exception(self._is_the_storages) & retry_if_not_exception_type(FileNotFoundError),
            sleep=sleep,
            reraise=True,
            before_sleep=before_sleep_log(log, logging.WARNING),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given is not None:
            raise TypeError("A storage with a file system of its own cannot be pickled; name it by URL and options.")
        return (Storage, (self.url, self._options))

    def __repr__(self) -> str:
        return f"Storage({self.url!r})"  # without the options: they may hold secrets

    def below(self, folder: str) -> Storage:
        """The storage of a folder of this one."""
        return Storage(f"{self.url}/{folder.strip('/')}", self._options, filesystem=self._given, sleep=self._sleep)

    @property
    def is_local(self) -> bool:
        return isinstance(self._fs, fs.LocalFileSystem)

    @property
    def _knows_folders(self) -> bool:
        # To pyarrow a folder of GCS is an object that somebody made for it; without one it is neither listed nor deleted.
        return not isinstance(self._fs, fs.GcsFileSystem)

    def local_path(self, path: str) -> Path:
        """Where an object of a local storage stands.

        :raises StorageFailed: the storage is not local.
        """
        if not self.is_local:
            raise StorageFailed("find a local path of", self._told(path), "the storage is not local")
        return Path(self._at(path))

    def read(self, path: str) -> bytes:
        """An object's bytes.

        :raises ObjectMissing: there is no such object.
        :raises StorageFailed: it could not be read in three tries.
        """

        def whole() -> bytes:
            with self._fs.open_input_stream(self._at(path)) as stream:
                return bytes(stream.read())

        return self._tried("read", path, whole)

    def exists(self, path: str) -> bool:
        """Whether there is such an object (a folder is none)."""
        info = self._tried("look for", path, lambda: self._fs.get_file_info(self._at(path)))
        return bool(info.type == fs.FileType.File)

    def write(self, path: str, data: bytes, *, tries: int = TRIES) -> None:
        """Make or replace an object, whole or not at all.

        :param tries: 1 for a caller that has something to look at between two tries.
        """
        if self.is_local:
            return self._tried("write", path, lambda: self._place(path, lambda file: file.write(data)), tries)

        def put() -> None:
            with self._fs.open_output_stream(self._at(path)) as stream:
                stream.write(data)

        return self._tried("write", path, partial(_unbroken, put), tries)

    def read_version(self, path: str) -> tuple[bytes | None, str | None]:
        """An object's bytes, and its version for :meth:`replace`.

        :returns: ``None`` for the bytes of an object that does not exist, and for the version where the storage has none.
        :raises StorageFailed: it could not be read in three tries.
        """
        writes = self._conditional
        if writes is not None:
            try:
                return self._tried("read", path, lambda: writes.read(*self._bucket_and_key(path)))
            except StorageFailed as error:
                log.warning("no_conditional_writes: trying without them, as %s", error)
        try:
            return self.read(path), None
        except ObjectMissing:
            return None, None

    def replace(self, path: str, data: bytes, version: str | None) -> None:
        """Replace an object in one try, whole or not at all, if it still has the version that was read.

        Without a version, and where the storage has no compare-and-set, it is replaced whatever it is.

        :raises ObjectChanged: another process was faster.
        :raises StorageFailed: it may have been replaced or not.
        """
        writes = self._conditional
        if writes is None or version is None:
            return self.write(path, data, tries=1)
        put = partial(_unbroken, lambda: writes.replace(*self._bucket_and_key(path), data, version))
        try:
            return self._tried("write", path, put, tries=1)
        except StorageFailed as error:
            if isinstance(error.__cause__, ChangedSince):
                raise ObjectChanged("write", self._told(path), error.__cause__) from error
            raise

    @cached_property
    def _conditional(self) -> ConditionalWrites | None:
        return None if self._given is not None else conditional_writes(self.url.partition("://")[0], self._options)

    def _bucket_and_key(self, path: str) -> tuple[str, str]:
        bucket, _, key = self._at(path).partition("/")
        return bucket, key

    def upload(self, local: Path, path: str) -> None:
        """Make or replace an object from a local file."""
        if self.is_local:

            def copy(file: Any) -> None:
                with local.open("rb") as source:
                    shutil.copyfileobj(source, file, CHUNK)

            return self._tried("write", path, lambda: self._place(path, copy))

        def put() -> None:
            fs.copy_files(str(local), self._at(path), source_filesystem=fs.LocalFileSystem(), destination_filesystem=self._fs)

        return self._tried("write", path, partial(_unbroken, put))

    def download(self, path: str, local: Path) -> None:
        """Copy an object into a local file, whole or not at all."""

        def get() -> None:
            half = local.with_name(f"{local.name}{HALF_WRITTEN}{uuid4().hex}")
            try:
                with self._fs.open_input_stream(self._at(path)) as source, half.open("wb") as file:
                    shutil.copyfileobj(source, file, CHUNK)
                half.replace(local)
            finally:
                half.unlink(missing_ok=True)

        self._tried("read", path, get)

    def open_ranges(self, path: str) -> tuple[Any, int]:
        """Open an object for :meth:`read_range`; what to give it, and the object's size in bytes.

        :raises ObjectMissing: there is no such object.
        :raises StorageFailed: it could not be opened in three tries.
        """

        def opened() -> tuple[Any, int]:
            file = self._fs.open_input_file(self._at(path))
            return file, file.size()

        return self._tried("read", path, opened)

    def read_range(self, file: Any, path: str, offset: int, length: int) -> bytes:
        """A range of an object's bytes, in one request; any number of threads may read one file.

        :param file: what :meth:`open_ranges` gave for this path.
        :raises StorageFailed: it could not be read in three tries.
        """
        return self._tried("read", path, lambda: bytes(file.read_at(length, offset)))

    def objects(self, folder: str, *, half_written: bool = False) -> Iterator[StoredObject]:
        """All objects below a folder, however deep; none if it is not there.

        :param half_written: also what somebody is writing, or was when he was killed.
        """
        for info in self._listed(folder, recursive=True):
            if info.type == fs.FileType.File and (half_written or HALF_WRITTEN not in info.base_name):
                yield StoredObject(self._relative(info.path), info.size or 0, info.mtime)

    def half_written(self, name: str) -> list[StoredObject]:
        """What was begun of an object right below the root, by somebody who is writing it or was killed.

        Only a local storage shows that; an object storage keeps the parts of an upload out of its listings.
        """
        infos = self._listed("", recursive=False) if self.is_local else []
        begun = f"{name}{HALF_WRITTEN}"
        return [StoredObject(self._relative(i.path), i.size or 0, i.mtime) for i in infos if i.base_name.startswith(begun)]

    def folders(self, folder: str) -> list[str]:
        """The names of the folders right below a folder, in order, without their "/"."""
        if not self._knows_folders:
            below = (found.path.removeprefix(folder) for found in self.objects(folder, half_written=True))
            return sorted({path.partition("/")[0] for path in below if "/" in path})
        return sorted(info.base_name for info in self._listed(folder, recursive=False) if info.type == fs.FileType.Directory)

    def delete(self, path: str) -> Deleted:
        """Delete one object, or everything below a folder (its name ends in "/"). What is not there counts as deleted.

        One failing deletion does not stop the others: it is told in the answer.
        """
        _check_inside(path)
        if not path.endswith("/"):
            return self._delete_object(StoredObject(path, 0, None))
        found = list(self.objects(path, half_written=True))
        if not self._knows_folders:
            return self._delete_all(found)
        if not self._delete_folder(path):
            left = {each.path: each for each in self.objects(path, half_written=True)}
            done = self._delete_all(list(left.values()))
            gone = [each.bytes for each in found if each.path not in left]
            return Deleted(done.objects + len(gone), done.bytes + sum(gone), done.problems)
        return Deleted(len(found), sum(each.bytes for each in found))

    def _delete_folder(self, path: str) -> bool:
        """All at once, as object storages delete a thousand objects in one request; ``False``: something of it may be left."""
        try:
            self._tried("delete", path, lambda: self._fs.delete_dir(self._at(path).rstrip("/")))
        except ObjectMissing:
            return True
        except StorageFailed as error:
            log.warning("folder_not_deleted_at_once: %s; going on one by one", error)
            return False
        return True

    def _delete_all(self, found: list[StoredObject]) -> Deleted:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="snowpack-delete") as pool:
            each = list(pool.map(self._delete_object, found))
        problems = tuple(problem for done in each for problem in done.problems)
        return Deleted(sum(done.objects for done in each), sum(done.bytes for done in each), problems)

    def _delete_object(self, found: StoredObject) -> Deleted:
        try:
            self._tried("delete", found.path, partial(self._fs.delete_file, self._at(found.path)))
        except ObjectMissing:
            return Deleted(0, 0)
        except StorageFailed as error:
            return Deleted(0, 0, (str(error),))
        return Deleted(1, found.bytes)

    def _listed(self, folder: str, *, recursive: bool) -> list[fs.FileInfo]:
        if folder and not folder.endswith("/"):
            raise ValueError(f"{folder!r} is not a folder: its name must end in '/'.")
        selector = fs.FileSelector(self._at(folder).rstrip("/"), allow_not_found=True, recursive=recursive)
        listed = self._tried("list", folder, lambda: self._fs.get_file_info(selector))
        return list(listed)

    def _place(self, path: str, fill: Callable[[Any], object]) -> None:
        target = Path(self._at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{target.name}{HALF_WRITTEN}{uuid4().hex}")
        try:
            with half.open("wb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)

    def _at(self, path: str) -> str:
        _check_inside(path)
        return f"{self._base}/{path}"

    def _relative(self, path: str) -> str:
        return path[len(self._base) + 1 :]

    def _told(self, path: str) -> str:
        return f"{self.url}/{path}"

    def _tried(self, what: str, path: str, once: Callable[[], T], tries: int = TRIES) -> T:
        retrying = self._retrying if tries == TRIES else self._retrying.copy(stop=stop_after_attempt(tries))
        try:
            return retrying(once)
        except FileNotFoundError:
            raise ObjectMissing(self._told(path)) from None
        except Exception as error:
            if not self._is_the_storages(error):
                raise
            raise StorageFailed(what, self._told(path), error) from error

    def _is_the_storages(self, error: BaseException) -> bool:
        """Whether the storage is to blame, and not the call. fsspec's file systems raise what their own libraries do."""
        if isinstance(error, (OSError, pyarrow.ArrowException)):
            return True
        by_fsspec = isinstance(self._fs, fs.PyFileSystem)
        return by_fsspec and isinstance(error, Exception) and not isinstance(error, (TypeError, ValueError))


def _unbroken(put: Callable[[], None]) -> None:
    """Do it to its end, also when a signal's handler raises meanwhile; that is raised here when it is done."""
    with ThreadPoolExecutor(1, thread_name_prefix="snowpack-write") as thread:
        thread.submit(put).result()


def _check_inside(path: str) -> None:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{path!r} is not a path inside of the storage.")


def refuse_secrets(url: str) -> None:
    """Keep secrets out of addresses of storages, which are recorded in the store and shown on pages.

    :raises InvalidBuild: a password, a key or a query stands in the URL.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        return
    user = rest.partition("/")[0].rpartition("@")[0]
    shown = public_address(url)
    # A name alone is a container of Azure or a user of HDFS, and an access key only for S3.
    if ":" in user or (user and scheme == "s3") or HIDDEN in shown or QUERY.search(url):
        problem = "a password, a key or a query stands in it; give a connection (storage_conn_id) or options instead"
        raise InvalidBuild("url", shown, problem)


def _open(url: str, options: Mapping[str, Any]) -> tuple[fs.FileSystem, str]:
    refuse_secrets(url)
    scheme, separator, rest = url.partition("://")
    if not separator:
        return fs.LocalFileSystem(), str(Path(url).absolute())
    if scheme == "file":
        return fs.LocalFileSystem(), rest
    given = dict(options)
    by_fsspec = given.pop("fsspec", False)
    try:
        if scheme in NATIVE and not by_fsspec:
            return NATIVE[scheme](**given), rest
        if scheme in AZURE and not by_fsspec:
            return _open_azure(rest, given)
        import fsspec

        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **given))), rest
    except (TypeError, ValueError, ImportError) as error:
        raise InvalidBuild("url", url, f"no file system for {scheme}:// can be opened ({error})") from error


def _open_azure(rest: str, options: dict[str, Any]) -> tuple[fs.FileSystem, str]:
    """``container@account.dfs.core.windows.net/path``, or ``container/path`` and the account among the options."""
    container, slash, path = rest.partition("/")
    container, _, host = container.partition("@")
    account = options.pop("account_name", None) or host.partition(".")[0]
    if not account:
        raise ValueError("it names no account: write container@account.dfs.core.windows.net, or give account_name")
    return fs.AzureFileSystem(account_name=account, **options), f"{container}{slash}{path}"
