"""Quarantine: removes files of a table in a way that can be undone.

    means = means_of(table.location(), table.io.properties, may_copy=False)
    quarantine = open_quarantine(means, table.location(), table.io.properties, removal_id)
    quarantine.take(file)        # the table and every other reader no longer find it
    quarantine.restore(file)

Local files and files of HDFS are renamed into a folder beside the table's location. In an S3 bucket with versioning, a delete
marker hides an object. Elsewhere, only a copy is possible.

The invariant: a file is in one of its two places at every moment, in both only while it is linked or copied, and its path is
enough to find it. Each step can therefore be repeated after a kill at any point. Nothing is ever overwritten.
"""

from __future__ import annotations

import os
import posixpath
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_snowpack.iceberg.errors import QuarantineNotPossible
from airflow_snowpack.iceberg.locations import scheme_of
from airflow_snowpack.iceberg.orphans import inner_path
from airflow_snowpack.iceberg.s3_objects import S3Objects, as_os_errors, missing_access, s3_objects, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyarrow.fs import FileSystem

    from airflow_snowpack.iceberg.orphans import StoredFile

FOLDER = "_snowpack_quarantine"
"""Iceberg does not list it, since its name begins with ``_``."""
MOVED_CHEAPLY = frozenset({"file", "hdfs"})
CLOCK_PRECISION = timedelta(seconds=1)
"""A listing of S3 has times with more digits than the object's headers."""
CHUNK = 1 << 20
MOST_MARKERS = 100


class Means(StrEnum):
    """How files are taken away."""

    MOVE = "move"
    DELETE_MARKER = "delete_marker"
    COPY = "copy"


def is_moved_cheaply(location: str) -> bool:
    """Return whether files at a location can be renamed, without a request to a storage."""
    if scheme_of(location) not in MOVED_CHEAPLY:
        return False
    try:
        return means_of(location, {}, may_copy=False) is Means.MOVE
    except QuarantineNotPossible:
        return False


def quarantine_folder(location: str) -> str:
    """Return the folder beside a table's location that contains the quarantines of its removals.

    :raises QuarantineNotPossible: nothing can lie beside the location.
    """
    parent, slash, name = location.rstrip("/").rpartition("/")
    if not slash or not name or parent.endswith(":/"):
        raise QuarantineNotPossible(location, "there is no folder beside it")
    return f"{parent}/{FOLDER}"


def means_of(location: str, properties: Mapping[str, str], *, may_copy: bool) -> Means:
    """Return how files below a location are quarantined: the cheapest way that can be undone.

    :param properties: of the table's file access.
    :param may_copy: copy the files if nothing cheaper is possible.
    :raises QuarantineNotPossible: nothing cheaper is possible, and they may not be copied.
    """
    folder, scheme = quarantine_folder(location), scheme_of(location)
    if scheme == "file":
        problem = _not_renamed(inner_path("file", location), inner_path("file", folder))
    elif scheme in MOVED_CHEAPLY:
        problem = None
    elif scheme == "s3":
        problem = _not_versioned(location, properties)
    else:
        problem = f"{scheme} has no cheap way to move a file"
    if problem is None:
        return Means.DELETE_MARKER if scheme == "s3" else Means.MOVE
    if may_copy:
        return Means.COPY
    raise QuarantineNotPossible(location, problem)


def open_quarantine(means: Means, location: str, properties: Mapping[str, str], removal_id: str) -> Quarantine:
    """Return the quarantine of one removal.

    :param means: as :func:`means_of` returned it when the removal was planned.
    :param location: of the table at that time.
    """
    scheme, kept = scheme_of(location), f"{quarantine_folder(location)}/{removal_id}"
    if means is Means.DELETE_MARKER:
        return VersionedBucket(location, properties)
    if means is Means.MOVE and scheme == "file":
        return RenamedFiles(inner_path("file", location), inner_path("file", kept))
    return ArrowFiles(location, kept, properties, copies=means is Means.COPY)


class NotTaken(Exception):
    """The file must stay where it is, even if this is retried; the text has the reason."""


class Quarantine(ABC):
    """Where the files of one removal are while they can be restored."""

    @abstractmethod
    def take(self, file: StoredFile) -> None:
        """Move a file into quarantine.

        :raises NotTaken: it must stay.
        :raises FileNotFoundError: there is none.
        :raises OSError: it could not be moved, and is where it was.
        """

    @abstractmethod
    def holds(self, file: StoredFile) -> bool:
        """Return whether the file is in quarantine; raise ``OSError`` if this cannot be determined here."""

    @abstractmethod
    def restore(self, file: StoredFile) -> bool:
        """Restore a file to its place unless it is there already; return whether it was in quarantine.

        :raises FileExistsError: another file is in its place.
        :raises FileNotFoundError: it is in neither place.
        :raises OSError: it could not be restored, and is in quarantine.
        """

    def purge(self, file: StoredFile) -> None:  # noqa: B027 - not every storage has something to delete
        """Delete a file permanently, unless the rules of the storage do so."""

    def take_in_bulk(self, files: Sequence[StoredFile]) -> Mapping[str, str] | None:
        """Move files that exist in as few requests as possible.

        :returns: why files were not moved, by path; ``None`` if this storage moves them one by one.
        """
        return None

    def purge_in_bulk(self, files: Sequence[StoredFile]) -> Mapping[str, str] | None:
        """Delete files that are in quarantine permanently; returns the same as :meth:`take_in_bulk`."""
        return None

    def close(self) -> None:  # noqa: B027
        """Delete the empty folders of the quarantine."""


@dataclass(frozen=True)
class RenamedFiles(Quarantine):
    """Local files that are renamed within one file system, with their modification times.

    :param root, folder: the table's location and that of the quarantine, as paths.
    """

    root: str
    folder: str

    def take(self, file: StoredFile) -> None:
        path = inner_path("file", file.path)
        # A folder may be a link to another place, whose files are another table's. A link to a file is renamed itself.
        if not _is_below(os.path.realpath(os.path.dirname(path)), os.path.realpath(self.root)):
            raise NotTaken(f"{path!r} is reached through a link that leaves the table's location")
        kept = self._kept(path)
        if os.path.lexists(kept) and os.path.lexists(path):
            raise NotTaken(f"{kept!r} exists")
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        os.rename(path, kept)

    def holds(self, file: StoredFile) -> bool:
        held = os.path.lexists(self._kept(inner_path("file", file.path)))
        if not held and not os.path.isdir(self.root) and not os.path.isdir(self.folder):
            raise OSError(f"neither {self.root!r} nor {self.folder!r} exists on this machine")
        return held

    def restore(self, file: StoredFile) -> bool:
        path = inner_path("file", file.path)
        kept = self._kept(path)
        if not self.holds(file):
            if os.path.lexists(path):
                return False
            raise FileNotFoundError(f"{path!r} is in neither place")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            os.link(kept, path, follow_symlinks=False)  # unlike a rename, this fails if there is a file by now
        except FileExistsError:
            if not os.path.samestat(os.lstat(kept), os.lstat(path)):
                raise
        except OSError:  # the file system has no hard links
            if os.path.lexists(path):
                raise FileExistsError(f"{path!r} exists") from None
            os.rename(kept, path)
            return True
        os.unlink(kept)
        return True

    def purge(self, file: StoredFile) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._kept(inner_path("file", file.path)))

    def close(self) -> None:
        for folder, _, _ in os.walk(self.folder, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def _kept(self, path: str) -> str:
        return f"{self.folder}/{posixpath.relpath(path, self.root)}"


@dataclass(frozen=True)
class ArrowFiles(Quarantine):
    """Files of any storage that PyArrow reaches, which are renamed or copied.

    :param location, folder: the table's location and that of the quarantine.
    :param copies: copy a file, and delete the original after the copy is complete.
    """

    location: str
    folder: str
    properties: Mapping[str, str]
    copies: bool

    def take(self, file: StoredFile) -> None:
        path, kept = self._places(file)
        if not self._exists(path):
            raise FileNotFoundError(f"{path!r} does not exist")
        if not self.copies and self._exists(kept):
            raise NotTaken(f"{kept!r} exists")
        self._transfer(path, kept)  # over the copy of an attempt that was killed after it

    def holds(self, file: StoredFile) -> bool:
        from pyarrow.fs import FileType

        if self._exists(self._places(file)[1]):
            return True
        places = [inner_path(scheme_of(self.location), each) for each in (self.location, self.folder)]
        if all(info.type == FileType.NotFound for info in self._files.get_file_info(places)):
            raise OSError(f"neither {self.location!r} nor {self.folder!r} exists")
        return False

    def restore(self, file: StoredFile) -> bool:
        path, kept = self._places(file)
        if not self.holds(file):
            if self._exists(path):
                return False
            raise FileNotFoundError(f"{path!r} is in neither place")
        if not self._exists(path):
            self._transfer(kept, path)
        elif self.copies and self._is_same(path, kept):
            self._files.delete_file(kept)  # an attempt was killed after its copy
        else:
            raise FileExistsError(f"{path!r} exists")
        return True

    def purge(self, file: StoredFile) -> None:
        kept = self._places(file)[1]
        if self._exists(kept):
            self._files.delete_file(kept)

    def purge_in_bulk(self, files: Sequence[StoredFile]) -> Mapping[str, str] | None:
        objects = s3_objects(self.location, self.properties)
        if objects is None:
            return None
        places = {f"s3://{self._places(file)[1]}": file.path for file in files}
        return {places[kept]: why for kept, why in objects.delete(places).items()}

    def close(self) -> None:
        from pyarrow.fs import FileSelector, FileType

        folder = inner_path(scheme_of(self.location), self.folder)
        found = self._files.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
        if found and all(info.type == FileType.Directory for info in found):
            self._files.delete_dir(folder)

    def _transfer(self, source: str, target: str) -> None:
        files, parent = self._files, posixpath.dirname(target)
        if scheme_of(self.location) in MOVED_CHEAPLY:  # object stores have no folders
            files.create_dir(parent, recursive=True)
        if not self.copies:
            files.move(source, target)
            return
        # An object appears as a whole. A copied file gets its name when it is complete; Iceberg does not list the partial one.
        part = f"{parent}/.{posixpath.basename(target)}.part" if scheme_of(self.location) in MOVED_CHEAPLY else target
        files.copy_file(source, part)
        copied, first = files.get_file_info([part, source])
        if copied.size != first.size:
            raise OSError(f"the copy {part!r} has {copied.size} bytes and {source!r} has {first.size}")
        if part != target:
            files.move(part, target)
        files.delete_file(source)

    def _is_same(self, first: str, second: str) -> bool:
        with self._files.open_input_stream(first) as one, self._files.open_input_stream(second) as other:
            while chunk := one.read(CHUNK):
                if chunk != other.read(CHUNK):
                    return False
            return not other.read(1)

    def _places(self, file: StoredFile) -> tuple[str, str]:
        scheme = scheme_of(self.location)
        path, root = inner_path(scheme, file.path), inner_path(scheme, self.location).rstrip("/")
        return path, f"{inner_path(scheme, self.folder)}/{path.removeprefix(f'{root}/').lstrip('/')}"

    def _exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._files.get_file_info(path).type == FileType.File)

    @cached_property
    def _files(self) -> FileSystem:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        scheme, authority, _ = PyArrowFileIO.parse_location(self.location, dict(self.properties))
        return PyArrowFileIO(dict(self.properties)).fs_by_scheme(scheme, authority)


@dataclass(frozen=True)
class VersionedBucket(Quarantine):
    """Objects of an S3 bucket that keeps versions: a delete marker hides an object, and deleting the marker restores it."""

    location: str
    properties: Mapping[str, str]

    def take(self, file: StoredFile) -> None:
        if problems := self.take_in_bulk([file]):
            raise OSError(problems[file.path])

    def take_in_bulk(self, files: Sequence[StoredFile]) -> Mapping[str, str]:
        return self._objects.delete([file.path for file in files])

    def purge_in_bulk(self, files: Sequence[StoredFile]) -> Mapping[str, str]:
        """Delete nothing: the bucket's lifecycle rules delete what its markers hide."""
        return {}

    def holds(self, file: StoredFile) -> bool:
        marker, version = self._latest(file)
        return marker is not None and version is not None

    def restore(self, file: StoredFile) -> bool:
        bucket, key = split(file.path)
        for removed in range(MOST_MARKERS):
            marker, version = self._latest(file)
            if version is None:
                raise FileNotFoundError(f"{file.path!r} is in neither place: the bucket has no version of it")
            if marker is None:
                if not _is_version_of(file, version):
                    raise FileExistsError(f"{file.path!r} was written again")
                return removed > 0
            # A retried deletion whose first response was lost has left a second marker. A version that was written just before
            # the deletion becomes visible again, too.
            with as_os_errors():
                self._objects.client.delete_object(Bucket=bucket, Key=key, VersionId=marker["VersionId"])
        raise OSError(f"{file.path!r} is still hidden after {MOST_MARKERS} delete markers were removed")

    def _latest(self, file: StoredFile) -> tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]:
        """Return the delete marker that hides the object, if any, and the newest version of the object."""
        bucket, key = split(file.path)
        with as_os_errors():
            pages = self._objects.client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key)
            for page in pages:
                markers = [each for each in page.get("DeleteMarkers", ()) if each["Key"] == key and each["IsLatest"]]
                versions = [each for each in page.get("Versions", ()) if each["Key"] == key]
                # The first key with a prefix is the prefix itself; its versions come newest first.
                return (markers[0] if markers else None), (versions[0] if versions else None)
        return None, None

    @cached_property
    def _objects(self) -> S3Objects:
        return S3Objects(self.properties)


def _is_version_of(file: StoredFile, version: Mapping[str, Any]) -> bool:
    if version["Size"] != file.bytes or file.modified_at is None:
        return False
    return bool(abs(version["LastModified"] - file.modified_at) < CLOCK_PRECISION)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _not_renamed(location: str, folder: str) -> str | None:
    """Return why a local file cannot be renamed from the location into the folder; ``None`` if it can."""
    parent = os.path.dirname(folder)
    try:
        if os.path.islink(folder):
            return f"{folder!r} is a link"
        same = os.stat(location).st_dev == os.stat(parent).st_dev
    except OSError as error:
        return f"its file system does not answer: {error}"
    return None if same else f"{parent!r} is another file system"


def _not_versioned(location: str, properties: Mapping[str, str]) -> str | None:
    """Return why a bucket would lose what is deleted in it; ``None`` if it keeps versions."""
    if why := missing_access(properties):
        return f"whether its bucket keeps versions is not known, and delete markers are not written: {why}"
    bucket = inner_path("s3", location).partition("/")[0]
    try:
        with as_os_errors():
            status = S3Objects(properties).client.get_bucket_versioning(Bucket=bucket).get("Status")
    except OSError as error:
        return f"whether the bucket {bucket!r} keeps versions is not known: {error}"
    return None if status == "Enabled" else f"the bucket {bucket!r} does not keep versions"
